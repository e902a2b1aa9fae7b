package crash

import (
	"net/http"
	"strings"
	"testing"

	"atrium/test/cutproxy"
)

// These tests simulate a network that drops packets silently. This costs at most the
// timeout of a statement, of a connection attempt, or both.
const silenceLimit = 5 * databaseTimeout

// waitForAcknowledgements waits until the service has recovered.
func (o *outage) waitForAcknowledgements() {
	o.t.Helper()
	acks := o.ledger.acks()
	waitUntil(o.t, "the service records entries", silenceLimit, func() bool { return o.ledger.acks() > acks+2*len(o.clients) })
}

func TestSilencedConnectionsAreReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	o, p := newCutOutage(t)
	for range 2 {
		p.Silence()
		o.waitForAcknowledgements()
	}
	p.Wake()
	o.finish()
}

// After one request detects the fault, the next ones do not try the other silenced
// connections one by one.
func TestSilencedIdleConnectionsAreReplacedTogether(t *testing.T) {
	t.Parallel() // it mostly waits
	o, p := newCutOutage(t)
	waitUntil(t, "all connections are used", startLimit, func() bool { return o.db.sessions(t, "true") == connections })
	o.stop()
	p.Silence()
	c, refused := o.clients[0], 0
	for ; refused < connections; refused++ {
		if a, ok := c.send(http.MethodGet, "/v0/pages", o.db.tenants[0].key, "", nil); ok && a.status == http.StatusOK {
			break
		}
	}
	if !p.Replaced() {
		t.Error("no connection was replaced")
	}
	if refused > 2 { // none if a background job noticed it first
		t.Errorf("%d requests were refused with %d idle connections", refused, connections)
	}
	p.Wake()
	o.finish()
}

// A connection attempt during which the database stops responding is abandoned and
// replaced.
func TestHangingConnectionAttemptIsAbandoned(t *testing.T) {
	t.Parallel() // it mostly waits
	o, p := newCutOutage(t)
	left := connections
	p.Rule(func(query, _ string) cutproxy.Fate {
		if left > 0 && strings.Contains(query, "set_config") {
			left--
			return cutproxy.Silent
		}
		return cutproxy.Passes
	})
	p.Silence()
	waitUntil(t, "connections were not ready", startLimit, func() bool { return p.Count(cutproxy.Silent) == connections })
	o.waitForAcknowledgements()
	p.Rule(nil)
	p.Wake()
	o.finish()
}
