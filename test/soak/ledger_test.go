package soak

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"atrium"
	"atrium/internal/store"
)

// A ledger records what clients sent and which responses they got. It keeps digests,
// because hours of payloads do not fit into memory.
type ledger struct {
	mu       sync.Mutex
	postings map[string]*posting                     // guarded by mu; by marker
	known    map[*tenant]map[string]atrium.AccountID // guarded by mu; accounts by canonical domain that are never merged
	order    map[*tenant][]atrium.AccountID          // guarded by mu; the same in the order of their discovery
	facts    map[string]*fact                        // guarded by mu; by path
	keys     map[string]int                          // guarded by mu; expected status of requests with each key
	changes  int                                     // guarded by mu; acknowledged changes of the management API
	sent     int                                     // guarded by mu; requests to record an entry
	replayed int                                     // guarded by mu; responses marked as replays
}

// A posting is an entry that a client sends. The ledger's mu guards the fields after body.
type posting struct {
	tenant *tenant
	marker string // unique, in the payload
	digest [sha256.Size]byte
	source string
	kind   string
	key    string // idempotency key; "" for none
	domain string // canonical domain of the account that it must belong to; "" if it has none
	header bool   // the key is sent in the header
	body   []byte // until it need not be sent any longer

	unsure   bool // a request got no response, or one that leaves its outcome open
	fresh    int  // responses that were not marked as replays
	response [sha256.Size]byte
	receipt  receipt          // of the first response; its EntryID is "" before
	account  atrium.AccountID // that has it now; "" for any
	gone     fate             // of its account
}

// mayBeSentOn reports whether a load balancer may retry a request of the posting on
// another node after a lost connection: deploy/haproxy.cfg does if the key is in the
// header. The first response that its sender gets may then be a replay.
func (p *posting) mayBeSentOn() bool { return p.header && p.key != "" }

// A fate is the effect of a change on an entry.
type fate int

const (
	stays fate = iota
	open       // unknown
	erased
)

type receipt struct {
	AccountID atrium.AccountID `json:"accountId"`
	EntryID   atrium.EntryID   `json:"accountLogId"`
	CreatedAt string           `json:"createdAt"`
	Source    string           `json:"source"`
	Type      string           `json:"type"`
}

// A fact is the acknowledged state of a resource of the management API.
type fact struct {
	of   *tenant
	path string
	want map[string]any // members; nil if it was deleted
}

func newLedger() *ledger {
	return &ledger{
		postings: map[string]*posting{}, facts: map[string]*fact{}, keys: map[string]int{},
		known: map[*tenant]map[string]atrium.AccountID{}, order: map[*tenant][]atrium.AccountID{},
	}
}

// sending records that a posting is about to be sent.
func (l *ledger) sending(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postings[p.marker] = p
	l.sent++
}

// undecided records that a request of a posting got no conclusive response.
func (l *ledger) undecided(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.unsure = true
}

// acknowledged records a 201 and returns its faults.
func (l *ledger) acknowledged(p *posting, body []byte, replayed bool) error {
	var r receipt
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if replayed {
		l.replayed++
	} else {
		p.fresh++
	}
	digest := sha256.Sum256(body)
	if p.receipt.EntryID != "" {
		if digest != p.response {
			return fmt.Errorf("different response than before: %s", body)
		}
		return nil
	}
	p.response, p.receipt = digest, r
	if p.domain != "" {
		known := l.known[p.tenant]
		if known == nil {
			known = map[string]atrium.AccountID{}
			l.known[p.tenant] = known
		}
		if id := known[p.domain]; id == "" {
			known[p.domain] = r.AccountID
			l.order[p.tenant] = append(l.order[p.tenant], r.AccountID)
		} else if id != r.AccountID {
			return fmt.Errorf("%s has the accounts %s and %s", p.domain, id, r.AccountID)
		}
		p.account = r.AccountID
	}
	if p.account != "" && r.AccountID != p.account {
		return fmt.Errorf("went to %s, not to %s", r.AccountID, p.account)
	}
	return nil
}

// accountOf returns one of the first known accounts of a tenant, "" if there is none.
func (l *ledger) accountOf(of *tenant, choose func(int) int) atrium.AccountID {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.order[of]
	if len(all) == 0 {
		return ""
	}
	return all[choose(min(len(all), 500))]
}

// stable returns all known accounts of a tenant that are kept.
func (l *ledger) stable(of *tenant) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, id := range l.order[of] {
		all = append(all, string(id))
	}
	return all
}

// rehomed records the effect of a change of accounts on their postings.
func (l *ledger) rehomed(all []*posting, account atrium.AccountID, gone fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range all {
		p.account, p.gone = account, gone
	}
}

// learn records an acknowledged change: the members that the path shows from now on.
func (l *ledger) learn(of *tenant, path string, members map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	f := l.facts[path]
	if f == nil {
		f = &fact{of: of, path: path, want: map[string]any{}}
		l.facts[path] = f
	}
	for name, value := range members {
		f.want[name] = value
	}
}

// forget records that the resource at a path is deleted.
func (l *ledger) forget(of *tenant, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.facts[path] = &fact{of: of, path: path}
}

// answersTo records the expected status of requests with a key.
func (l *ledger) answersTo(key string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.keys[key] = status
}

// A verdict is the result of an audit of the database.
type verdict struct {
	acknowledged, stored, lost, doubled, wrong int
	faults                                     []string
}

func (v *verdict) fault(counter *int, format string, args ...any) {
	*counter++
	if *counter <= maxFaults {
		v.faults = append(v.faults, fmt.Sprintf(format, args...))
	}
}

// An auditor compares the stored records with a ledger that no client writes to.
type auditor struct {
	ledger  *ledger
	of      *tenant
	found   map[*posting]int
	domains map[string]bool
	verdict *verdict
}

func (l *ledger) auditor(of *tenant, v *verdict) *auditor {
	return &auditor{ledger: l, of: of, found: map[*posting]int{}, domains: map[string]bool{}, verdict: v}
}

// examine checks one record of an export.
func (a *auditor) examine(r store.Record) error {
	switch r := r.(type) {
	case *atrium.Account:
		if a.domains[r.Domain] {
			a.verdict.fault(&a.verdict.doubled, "%s has two accounts", r.Domain)
		}
		a.domains[r.Domain] = true
	case *atrium.Entry:
		a.entry(r)
	}
	return nil
}

func (a *auditor) entry(e *atrium.Entry) {
	v := a.verdict
	v.stored++
	p := a.ledger.postings[markerOf(e.Payload)]
	if p == nil || p.tenant != a.of {
		v.fault(&v.wrong, "nobody sent %s: %.100s", e.ID, e.Payload)
		return
	}
	if a.found[p]++; a.found[p] > 1 {
		v.fault(&v.doubled, "%s is there more than once, again as %s", p.marker, e.ID)
		return
	}
	stored := receipt{e.AccountID, e.ID, e.CreatedAt.String(), e.Source, e.Type}
	if e.AcknowledgedID != "" {
		stored.AccountID = e.AcknowledgedID
	}
	switch {
	case sha256.Sum256(e.Payload) != p.digest || e.Source != p.source || e.Type != p.kind || e.IdempotencyKey != p.key:
		v.fault(&v.wrong, "%s is not stored as it was sent", p.marker)
	case p.receipt.EntryID != "" && p.receipt != stored:
		v.fault(&v.wrong, "%s was acknowledged as %+v and is stored as %+v", p.marker, p.receipt, stored)
	case p.receipt.EntryID == "" && !p.unsure:
		v.fault(&v.wrong, "%s was refused and is there", p.marker)
	case p.gone == erased:
		v.fault(&v.wrong, "%s was erased and is there", p.marker)
	case p.account != "" && p.gone == stays && e.AccountID != p.account:
		v.fault(&v.wrong, "%s belongs to %s, not to %s", p.marker, e.AccountID, p.account)
	}
}

// finish counts missing entries after all records were examined.
func (a *auditor) finish() {
	v := a.verdict
	for _, p := range a.ledger.postings {
		if p.tenant != a.of || p.receipt.EntryID == "" {
			continue
		}
		v.acknowledged++
		switch {
		case a.found[p] == 0 && p.gone == stays:
			v.fault(&v.lost, "%s was acknowledged as %s and is lost", p.marker, p.receipt.EntryID)
		case p.fresh > 1:
			v.fault(&v.doubled, "%s has %d first responses", p.marker, p.fresh)
		case p.fresh == 0 && !p.unsure && !p.mayBeSentOn():
			v.fault(&v.wrong, "%s has no first response", p.marker)
		}
	}
}

// markerOf returns the marker at the beginning of a payload.
func markerOf(payload []byte) string {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"marker":"`))
	marker, _, ended := bytes.Cut(rest, []byte(`"`))
	if !ok || !ended {
		return ""
	}
	return string(marker)
}

// differs returns the difference between a response and a fact, or "".
func (f *fact) differs(a response) string {
	if f.want == nil {
		if a.status != 404 {
			return fmt.Sprintf("%s is there again: %d", f.path, a.status)
		}
		return ""
	}
	if a.status != 200 {
		return fmt.Sprintf("%s: %d %.200s", f.path, a.status, a.body)
	}
	var faults []string
	shown := a.decode()
	for name, want := range f.want {
		if got := shown[name]; want == anyValue && got != nil {
			continue
		} else if !reflect.DeepEqual(got, want) {
			faults = append(faults, fmt.Sprintf("%s is %v, not %v", name, got, want))
		}
	}
	if len(faults) == 0 {
		return ""
	}
	return f.path + ": " + strings.Join(faults, ", ")
}

// anyValue matches any value of a member that is present.
const anyValue = "(any)"
