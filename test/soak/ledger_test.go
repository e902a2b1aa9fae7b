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

// A ledger is what clients sent and what they were told. It keeps digests of what they
// sent: hours of payloads have no room in memory.
type ledger struct {
	mu       sync.Mutex
	postings map[string]*posting                     // guarded by mu; by their markers
	known    map[*tenant]map[string]atrium.AccountID // guarded by mu; accounts by canonical domains that are never merged
	order    map[*tenant][]atrium.AccountID          // guarded by mu; the same in the order in which they became known
	facts    map[string]*fact                        // guarded by mu; by path
	keys     map[string]int                          // guarded by mu; the status that a key is answered with
	changes  int                                     // guarded by mu; of the management API that were acknowledged
	sent     int                                     // guarded by mu; requests to record an entry
	replayed int                                     // guarded by mu; answers that said so
}

// A posting is an entry that a client wants recorded. The ledger's mu guards what comes
// after body.
type posting struct {
	tenant *tenant
	marker string // in the payload, of this posting alone
	digest [sha256.Size]byte
	source string
	kind   string
	key    string // idempotency key; "" for none
	domain string // canonical, of the account that it must go to; "" if that follows from something else
	header bool   // the key goes into the header
	body   []byte // as long as it may be sent

	unsure  bool // a request got no answer, or one that leaves open what became of it
	fresh   int  // answers that did not say that they repeat another
	answer  [sha256.Size]byte
	receipt receipt          // of the first answer; its EntryID is "" before
	account atrium.AccountID // that has it now; "" for any
	gone    fate             // with its account
}

// mayBeSentOn reports whether a balancer may send a request of the posting to another node
// when the one that it had sent it to breaks off: deploy/haproxy.cfg does so where the
// key is in the header. Then the first answer that its sender sees may repeat one.
func (p *posting) mayBeSentOn() bool { return p.header && p.key != "" }

// A fate is what became of something by a change.
type fate int

const (
	stays fate = iota
	open       // nobody knows
	erased
)

type receipt struct {
	AccountID atrium.AccountID `json:"accountId"`
	EntryID   atrium.EntryID   `json:"accountLogId"`
	CreatedAt string           `json:"createdAt"`
	Source    string           `json:"source"`
	Type      string           `json:"type"`
}

// A fact is what the management API acknowledged of one thing.
type fact struct {
	of   *tenant
	path string
	want map[string]any // members; nil if it is gone
}

func newLedger() *ledger {
	return &ledger{
		postings: map[string]*posting{}, facts: map[string]*fact{}, keys: map[string]int{},
		known: map[*tenant]map[string]atrium.AccountID{}, order: map[*tenant][]atrium.AccountID{},
	}
}

// sending notes that a posting is about to be sent.
func (l *ledger) sending(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postings[p.marker] = p
	l.sent++
}

// undecided notes that a request of a posting got no answer that decides.
func (l *ledger) undecided(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.unsure = true
}

// acknowledged notes a 201 and returns what is wrong with it.
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
		if digest != p.answer {
			return fmt.Errorf("another answer than before: %s", body)
		}
		return nil
	}
	p.answer, p.receipt = digest, r
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

// accountOf returns one of the accounts of a tenant that became known first, "" if there
// is none.
func (l *ledger) accountOf(of *tenant, choose func(int) int) atrium.AccountID {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.order[of]
	if len(all) == 0 {
		return ""
	}
	return all[choose(min(len(all), 500))]
}

// stable returns all accounts of a tenant that are known and stay.
func (l *ledger) stable(of *tenant) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, id := range l.order[of] {
		all = append(all, string(id))
	}
	return all
}

// rehomed notes what became of postings by a change of their accounts.
func (l *ledger) rehomed(all []*posting, account atrium.AccountID, gone fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range all {
		p.account, p.gone = account, gone
	}
}

// learn notes an acknowledged change: what the thing at a path shows from now on.
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

// forget notes that the thing at a path is gone.
func (l *ledger) forget(of *tenant, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.facts[path] = &fact{of: of, path: path}
}

// answersTo notes how a key is to be answered from now on.
func (l *ledger) answersTo(key string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.keys[key] = status
}

// A verdict is what an audit of the database found.
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

// An auditor compares what is stored, record by record, with a ledger that nobody
// writes any more.
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

// examine takes one record of an export.
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

// finish counts what is missing, once all records were examined.
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
			v.fault(&v.doubled, "%s has %d first answers", p.marker, p.fresh)
		case p.fresh == 0 && !p.unsure && !p.mayBeSentOn():
			v.fault(&v.wrong, "%s has no first answer", p.marker)
		}
	}
}

// markerOf returns the marker of a payload, which comes first in it.
func markerOf(payload []byte) string {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"marker":"`))
	marker, _, ended := bytes.Cut(rest, []byte(`"`))
	if !ok || !ended {
		return ""
	}
	return string(marker)
}

// differs returns how an answer differs from a fact, or "".
func (f *fact) differs(a answer) string {
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

// anyValue stands for a member that is there, whatever its value.
const anyValue = "(any)"
