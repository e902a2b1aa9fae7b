package main

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"atrium"
	"atrium/bench/workload"
	"atrium/internal/store"
)

// A shape describes the contents of a database: tenants that are all alike. All records of
// a tenant grow with its entries, in fixed proportions.
type shape struct {
	tenants int
	entries int // per tenant
	each    int // entries per account; 0 means entriesPerAccount
}

// How many entries there are per account, per page and per version. An account has
// prospectsEach prospects.
const (
	entriesPerAccount = 10
	entriesPerPage    = 100
	prospectsEach     = 3
)

// One entry in busyShare belongs to the first account of a tenant.
const busyShare = 20

func (s shape) accounts() int { return max(s.entries/cmp.Or(s.each, entriesPerAccount), 1) }
func (s shape) pages() int    { return max(s.entries/entriesPerPage, 1) }
func (s shape) versions() int { return s.pages() }
func (s shape) total() int    { return s.tenants * s.entries }

func (s shape) String() string {
	return fmt.Sprintf("%d entries, %d accounts, %d pages and versions, of %d tenants", s.total(), s.tenants*s.accounts(), s.tenants*s.pages(), s.tenants)
}

// rounds is how many times each tenant gets a part of its records. The rows of different
// tables and tenants are then interleaved, as they are in a database that grows over time.
func (s shape) rounds() int { return min(s.pages(), 20) }

// lag is the number of rounds between two prospects of an account.
func (s shape) lag() int { return max(s.rounds()/10, 1) }

// records returns the records of a tenant in a round, from 0 to rounds()-1, without its
// entries. It is deterministic, as are the entries.
func (s shape) records(round int) iter.Seq[store.Record] {
	return func(yield func(store.Record) bool) {
		_ = s.accountsOf(round, yield) && s.prospectsOf(round, yield) && s.pagesOf(round, yield)
	}
}

// A span is a half-open range of numbers.
type span struct{ from, to int }

// part returns which of n records belong to a round.
func (s shape) part(n, round int) span {
	return span{n * round / s.rounds(), n * (round + 1) / s.rounds()}
}

func (s shape) accountsOf(round int, yield func(store.Record) bool) bool {
	part := s.part(s.accounts(), round)
	for n := part.from; n < part.to; n++ {
		at := s.at(n, s.accounts())
		if !yield(&atrium.Account{ID: workload.Numbered[atrium.AccountID](n), Domain: domain(n), Name: fmt.Sprintf("Example %d", n), CreatedAt: at, UpdatedAt: at}) {
			return false
		}
	}
	return true
}

// prospectsOf returns the first prospect of each new account, and later prospects of
// earlier accounts. The prospects of an account are thus not adjacent.
func (s shape) prospectsOf(round int, yield func(store.Record) bool) bool {
	for nth := range prospectsEach {
		last := round - nth*s.lag()
		first := last
		if round == s.rounds()-1 {
			last = round
		}
		for r := max(first, 0); r <= last; r++ {
			part := s.part(s.accounts(), r)
			for n := part.from; n < part.to; n++ {
				if !yield(s.prospect(n, nth, round)) {
					return false
				}
			}
		}
	}
	return true
}

func (s shape) prospect(account, nth, round int) store.Record {
	number := nth*s.accounts() + account
	name, email, of := fmt.Sprintf("Person %d", number), fmt.Sprintf("person%d@%s", number, domain(account)), domain(account)
	slug, phone, profile := fmt.Sprintf("person-%d", number), "+15555550100", fmt.Sprintf("https://linkedin.example/in/person-%d", number)
	at := s.at(round, s.rounds())
	return &atrium.LinkedProspect{
		Prospect: atrium.Prospect{
			// The number in an identifier determines its order.
			ID: workload.Numbered[atrium.ProspectID](round*prospectsEach*s.accounts() + number), Name: &name, Email: &email, Domain: &of, Slug: &slug,
			PhoneNumber: &phone, LinkedinProfileURL: &profile, CreatedAt: at, UpdatedAt: at,
		},
		AccountIDs: []atrium.AccountID{workload.Numbered[atrium.AccountID](account)},
	}
}

const (
	action = `{"actionId":"action_1","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://example.com/call"}`
	footer = `{"id":"company","title":"Company","links":[{"id":"about","text":"About us","url":"https://example.com/about"}]}`
)

// pagesOf returns pages, and versions of an audience of the first page.
func (s shape) pagesOf(round int, yield func(store.Record) bool) bool {
	part := s.part(s.pages(), round)
	for n := part.from; n < part.to; n++ {
		at := s.at(n, s.pages())
		page := &atrium.Page{
			ID: workload.Numbered[atrium.PageID](n), BrandID: "brand_1", Name: fmt.Sprintf("Page %d", n), Context: strings.Repeat("context ", 20), Title: "A page",
			Status: atrium.PageStatuses()[n%3], Actions: []byte("[" + action + "," + action + "]"), Scripts: []byte("[]"), FooterLinks: []byte("[" + footer + "]"),
			Metadata: []byte(`{"campaign":"spring"}`), CreatedAt: at, UpdatedAt: at,
		}
		if !yield(page) {
			return false
		}
	}
	if round == 0 && !yield(&atrium.Audience{ID: fullAudience, PageID: workload.Numbered[atrium.PageID](0), Name: "All", CreatedAt: begin, UpdatedAt: begin}) {
		return false
	}
	part = s.part(s.versions(), round)
	for n := part.from; n < part.to; n++ {
		if !yield(&atrium.AudienceVersion{Version: atrium.Version{
			ID: workload.Numbered[atrium.VersionID](n), AudienceID: fullAudience, Number: int64(n + 1), Content: fmt.Appendf(nil, `{"n":%d}`, n), CreatedAt: s.at(n, s.versions()),
		}}) {
			return false
		}
	}
	return true
}

// entriesOf returns entries of random accounts among those that exist in the round, each
// with the number of its account.
func (s shape) entriesOf(tenant, round int) iter.Seq2[int, *atrium.Entry] {
	return func(yield func(account int, e *atrium.Entry) bool) {
		r := rand.New(rand.NewPCG(uint64(tenant), uint64(round)))
		there := max(s.part(s.accounts(), round).to, 1)
		part := s.part(s.entries, round)
		for n := part.from; n < part.to; n++ {
			account := r.IntN(there)
			if r.IntN(busyShare) == 0 {
				account = 0
			}
			at := s.at(n, s.entries)
			if !yield(account, &atrium.Entry{
				ID: entryID(n, at), AccountID: workload.Numbered[atrium.AccountID](account), CreatedAt: at,
				Submission: atrium.Submission{
					Source: []string{"crm", "product", "ads"}[n%3], Type: "page.viewed", Claim: atrium.Claim{Domain: domain(account)},
					IdempotencyKey: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()), Payload: payload(r),
				},
			}) {
				return
			}
		}
	}
}

// entryRecords returns the entries as records.
func (s shape) entryRecords(tenant, round int) iter.Seq[store.Record] {
	return func(yield func(store.Record) bool) {
		for _, e := range s.entriesOf(tenant, round) {
			if !yield(e) {
				return
			}
		}
	}
}

// payload returns an object of 300 to 1,000 bytes. Small ones are more frequent; the mean
// is 475.
func payload(r *rand.Rand) []byte {
	size := 300 + min(r.IntN(701), r.IntN(701), r.IntN(701))
	b := fmt.Appendf(make([]byte, 0, size), `{"event":"page.viewed","visit":"%016x","text":"`, r.Uint64())
	for len(b) < size-2 {
		b = append(b, byte('a'+r.IntN(26)))
	}
	return append(b, `"}`...)
}

// begin is a year ago, so that pages with the entries of the last days have some.
var begin = atrium.At(time.Now().UTC().Truncate(time.Hour).AddDate(-1, 0, 0))

// at distributes n records over a year.
func (s shape) at(n, of int) atrium.Time {
	return begin + atrium.Time(int64(n)*int64(365*24*time.Hour/time.Millisecond)/int64(of)*1000)
}

func domain(n int) string { return fmt.Sprintf("company-%d.example", n) }

// entryID returns the identifier of the nth entry, which begins with its time as those of the service do.
func entryID(n int, at atrium.Time) atrium.EntryID {
	const random = 16
	first := string(atrium.FirstID[atrium.EntryID](at.Std()))
	return atrium.EntryID(first[:len(first)-random] + fmt.Sprintf("%0*x", random, workload.Scatter(uint64(n))))
}

var fullAudience = workload.Numbered[atrium.AudienceID](0)
