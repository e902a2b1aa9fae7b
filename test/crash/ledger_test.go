package crash

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"atrium"
)

// A ledger records what the clients sent and which responses they got. Ticks of its clock
// order events: whatever ended before a tick was over when whatever began after it began.
type ledger struct {
	mu       sync.Mutex
	clock    int64
	postings []*posting
	renames  map[atrium.AccountID][]*rename
	accounts map[*tenant][]atrium.AccountID   // named in responses, in order
	newest   map[atrium.AccountID]atrium.Time // acknowledged entry
	figures  figures
}

type figures struct {
	sent         int           // requests to record an entry
	acknowledged int           // entries
	retried      int           // repeated requests, whether or not an earlier one got a response
	unanswered   int           // requests
	refused      int           // requests, with a 503
	uncertain    int           // refused requests that may have been executed
	renamed      int           // acknowledged names
	slowest      time.Duration // longest time until a response
}

// A posting is an entry that a client sends. The ledger's mu guards the fields after body.
type posting struct {
	tenant *tenant
	claim  atrium.Claim
	domain string // canonical form of the claim's domain
	source string
	kind   string // type, "" for none
	key    string // idempotency key, "" for none
	marker string // unique, in the payload
	data   string // payload
	header bool   // the key is sent in the header
	body   []byte

	sent     int
	unknown  int     // requests without a response, or with one that leaves the outcome open
	fresh    int     // responses that were not marked as replays
	response []byte  // body of the first 201
	receipt  receipt // decoded from it
	ackedAt  int64   // tick of the first 201; forever before
	kept     bool    // remembered by its client for a replay
}

// A receipt is the response to a posting.
type receipt struct {
	AccountID atrium.AccountID `json:"accountId"`
	EntryID   atrium.EntryID   `json:"accountLogId"`
	CreatedAt string           `json:"createdAt"`
	Source    string           `json:"source"`
	Type      string           `json:"type"`
}

// A rename is an attempt to give an account a unique name.
type rename struct {
	name       string
	start, end int64 // ticks; forever while in flight
	status     int   // of the response; 0 without one
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

// now returns a tick after everything that was acknowledged so far.
func (l *ledger) now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tick()
}

// sending records that a posting is about to be sent.
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

// acknowledged records a 201 and returns its faults.
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
	if p.response != nil {
		if string(body) != string(p.response) {
			return fmt.Errorf("different response: %s after %s", body, p.response)
		}
		return nil
	}
	p.response, p.receipt, p.ackedAt = body, r, l.tick()
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

// undecided records a response after which a posting may have been stored.
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

// account returns one of the first accounts of a tenant that responses named, with its
// newest acknowledged activity; "" if there is none yet.
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

// answered records the response to a rename.
func (l *ledger) answered(r *rename, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.end, r.status = l.tick(), status
	if status == http.StatusOK {
		l.figures.renamed++
	}
}

// ended records that no running server can still execute a request without a response.
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

// figuresNow returns the figures while clients are running.
func (l *ledger) figuresNow() figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures
}
