package crash

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"atrium"
)

// A ledger is what the clients sent and what they were told. Ticks of its clock
// order what happened: what ended before a tick was over when something that
// began after it began.
type ledger struct {
	mu       sync.Mutex
	clock    int64
	postings []*posting
	renames  map[atrium.AccountID][]*rename
	accounts map[*tenant][]atrium.AccountID   // that an answer has named, in their order
	newest   map[atrium.AccountID]atrium.Time // acknowledged entry
	figures  figures
}

type figures struct {
	sent         int           // requests to record an entry
	acknowledged int           // entries
	retried      int           // requests that were sent again, answered before or not
	unanswered   int           // requests
	refused      int           // requests, with a 503
	uncertain    int           // of these, that may have been carried out
	renamed      int           // names that were acknowledged
	slowest      time.Duration // until an answer came
}

// A posting is an entry that a client wants recorded. The ledger's mu guards
// all that comes after body.
type posting struct {
	tenant *tenant
	claim  atrium.Claim
	domain string // the canonical form of that of the claim
	source string
	kind   string // the type, "" for none
	key    string // idempotency key, "" for none
	marker string // in the payload, of this posting alone
	data   string // the payload
	header bool   // the key goes into the header
	body   []byte

	sent    int
	unknown int     // how many of the requests got no answer, or one that leaves it open
	fresh   int     // how many of the answers did not say that they repeat another
	answer  []byte  // the body of the first 201
	receipt receipt // the same
	ackedAt int64   // tick of the first 201, forever before
	kept    bool    // by its client, to repeat it
}

// A receipt is the answer to a posting.
type receipt struct {
	AccountID atrium.AccountID `json:"accountId"`
	EntryID   atrium.EntryID   `json:"accountLogId"`
	CreatedAt string           `json:"createdAt"`
	Source    string           `json:"source"`
	Type      string           `json:"type"`
}

// A rename is an attempt to give an account a name that nobody else gives.
type rename struct {
	name       string
	start, end int64 // ticks; forever while it is under way
	status     int   // of the answer; 0 without one
}

const forever = math.MaxInt64

func newLedger() *ledger {
	return &ledger{
		renames:  map[atrium.AccountID][]*rename{},
		accounts: map[*tenant][]atrium.AccountID{},
		newest:   map[atrium.AccountID]atrium.Time{},
	}
}

// tick returns the next tick. The caller holds the lock.
func (l *ledger) tick() int64 {
	l.clock++
	return l.clock
}

// now returns a tick that all that was acknowledged by now comes before.
func (l *ledger) now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tick()
}

// sending notes that a posting is about to be sent.
func (l *ledger) sending(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.sent == 0 {
		p.ackedAt = forever
		l.postings = append(l.postings, p)
	} else {
		l.figures.retried++
	}
	l.figures.sent++
	p.sent++
}

// acknowledged notes a 201 and returns what is wrong with it.
func (l *ledger) acknowledged(p *posting, body []byte, r receipt, replayed bool) error {
	createdAt, err := atrium.ParseTime(r.CreatedAt)
	if err != nil {
		return fmt.Errorf("createdAt %q: %w", r.CreatedAt, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !replayed {
		p.fresh++
	}
	if p.answer != nil {
		if string(body) != string(p.answer) {
			return fmt.Errorf("another answer: %s after %s", body, p.answer)
		}
		return nil
	}
	p.answer, p.receipt, p.ackedAt = body, r, l.tick()
	l.figures.acknowledged++
	if at, ok := l.newest[r.AccountID]; !ok || createdAt > at {
		l.newest[r.AccountID] = createdAt
		if !ok {
			l.accounts[p.tenant] = append(l.accounts[p.tenant], r.AccountID)
		}
	}
	return nil
}

func (l *ledger) unanswered(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.unknown++
	l.figures.unanswered++
}

func (l *ledger) refused(uncertain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.refused++
	if uncertain {
		l.figures.uncertain++
	}
}

// undecided notes an answer that says that a posting may have been carried out.
func (l *ledger) undecided(p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.unknown++
}

func (l *ledger) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.slowest = max(l.figures.slowest, d)
}

// account returns one of the first accounts of a tenant that answers named,
// with its newest acknowledged activity; "" if there is none yet.
func (l *ledger) account(of *tenant, choose func(int) int, first int) (atrium.AccountID, atrium.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.accounts[of]
	if len(known) == 0 {
		return "", 0
	}
	id := known[choose(min(len(known), first))]
	return id, l.newest[id]
}

func (l *ledger) renaming(id atrium.AccountID, name string) *rename {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &rename{name: name, start: l.tick(), end: forever}
	l.renames[id] = append(l.renames[id], r)
	return r
}

// answered notes the answer to a rename.
func (l *ledger) answered(r *rename, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.end, r.status = l.tick(), status
	if status == http.StatusOK {
		l.figures.renamed++
	}
}

// ended notes that no server is left that could still carry out what got no
// answer.
func (l *ledger) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.tick()
	for _, all := range l.renames {
		for _, r := range all {
			r.end = min(r.end, now)
		}
	}
}

// acks returns how many postings have been acknowledged.
func (l *ledger) acks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures.acknowledged
}

// figuresNow returns the figures while clients go on.
func (l *ledger) figuresNow() figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures
}
