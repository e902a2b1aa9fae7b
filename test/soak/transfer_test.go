package soak

import (
	"bytes"
	"net/http"
)

// A carrier exports a tenant that no other client writes to, and imports it into another
// one, which must then have the same data.
type carrier struct {
	*client
	to *client
}

func (s *soak) newCarrier(from, to *tenant) *carrier {
	return &carrier{s.newClient("carrier", from), s.newClient("receiver", to)}
}

func (x *carrier) step() {
	for range 5 {
		p := x.newPosting(true)
		if x.made < 1000 && len(p.body) < 8<<10 { // everything is exported and imported repeatedly
			x.post(p)
			p.body = nil
		}
	}
	export := func(c *client) []byte {
		a := c.sure(c.managing("export", http.MethodGet, "/export", nil, http.StatusOK))
		if a.status != http.StatusOK {
			return nil
		}
		return a.body
	}
	all := export(x.client)
	if all == nil {
		return
	}
	in := x.to.managing("import", http.MethodPost, "/import", all, http.StatusOK).with("Content-Type: application/x-ndjson")
	if a := x.to.sure(in); a.status != http.StatusOK {
		return
	}
	if got := export(x.to); got != nil && !bytes.Equal(got, all) {
		x.s.tally.fault(&x.s.tally.wrong, "what was imported is exported as %d bytes, not the same %d", len(got), len(all))
	}
}
