package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"
)

// clientKeys is what the senders use as idempotency keys.
type clientKeys int

const (
	randomKeys     clientKeys = iota // 36 characters, as a UUID
	sequentialKeys                   // a counter in text
	noKeys
)

// Prefixes as the contract spells them.
const (
	tenantPrefix  = "tenant"
	accountPrefix = "account"
	entryPrefix   = "prospectlog"
)

type account struct {
	tenant     int
	tenantID   value
	id         value
	domain     string
	domainHash []byte
}

// entry is one row to write, in the forms of its layout.
type entry struct {
	account     int
	id          value
	createdAt   int64
	key         value
	keyed       bool
	fingerprint []byte
	payload     []byte
}

// known names an entry that was written, for the reads.
type known struct {
	tenantID, id, key value
	keyed             bool
}

// workload makes the same entries, in the same order, for every layout.
type workload struct {
	l        layout
	o        options
	rng      *rand.Rand
	ids      *idMaker
	accounts []account
	filler   []byte
	made     int
	sample   []known
}

// busyShare of the accounts, one in a hundred, get options.hot of the entries;
// the rest is uniform over all accounts.
const busyShare = 100

// sampleEvery keeps one in so many entries for the reads.
const sampleEvery = 37

func newWorkload(l layout, o options) *workload {
	rng := rand.New(rand.NewPCG(7, 11))
	w := &workload{l: l, o: o, rng: rng,
		ids: &idMaker{now: time.UnixMilli(1_760_000_000_000), step: 50 * time.Microsecond, rng: rng}}
	tenants := make([]value, o.tenants)
	for i := range tenants {
		tenants[i] = l.ids.value(tenantPrefix, w.ids.next())
	}
	for i := range o.accounts {
		domain := fmt.Sprintf("company-%06d.example", i)
		h := sha256.Sum256([]byte(domain))
		w.accounts = append(w.accounts, account{
			tenant: i % o.tenants, tenantID: tenants[i%o.tenants],
			id: l.ids.value(accountPrefix, w.ids.next()), domain: domain, domainHash: h[:16]})
	}
	w.filler = make([]byte, 64<<10)
	for i := range w.filler {
		w.filler[i] = ' ' + byte(rng.IntN(94))
	}
	return w
}

func (w *workload) next() entry {
	w.made++
	e := entry{account: w.rng.IntN(len(w.accounts))}
	if w.rng.Float64() < w.o.hot {
		e.account = w.rng.IntN(max(1, len(w.accounts)/busyShare))
	}
	e.id = w.l.ids.value(entryPrefix, w.ids.next())
	e.createdAt = w.ids.now.UnixMicro()
	at := w.rng.IntN(len(w.filler) - w.o.payload)
	e.payload = w.filler[at : at+w.o.payload]
	// Drawn always, so that the other draws are the same in every layout.
	draw, a, b := w.rng.Float64(), w.rng.Uint64(), w.rng.Uint64()
	if w.l.clients != noKeys && draw < w.o.keyed {
		e.keyed = true
		key := fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1))
		if w.l.clients == sequentialKeys {
			key = fmt.Sprintf("order-%09d", w.made)
		}
		e.key = w.l.keys.value(key)
		h := sha256.Sum256([]byte(key))
		e.fingerprint = append([]byte{1}, h[:]...)
	}
	if w.made%sampleEvery == 0 {
		w.sample = append(w.sample, known{tenantID: w.accounts[e.account].tenantID, id: e.id, key: e.key, keyed: e.keyed})
	}
	return e
}

func (w *workload) batch(n int) []entry {
	b := make([]entry, n)
	for i := range b {
		b[i] = w.next()
	}
	return b
}
