package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

var mostActive = []guarantee{
	{"after random operations, the most active accounts are those with the most stored entries", mostActiveLikeEntries},
	{"a count reads a bounded number of entries, in bounded transactions, and says since when it has counted", mostActiveBounded},
	{"entries that change during a count count once, and the count has no erased account", mostActiveChanging},
	{"the list of the most active accounts ends with 1 MiB of domains", mostActiveSized},
	{"imported entries count at the time of storage if their identifiers are in the range", mostActiveImported},
	{"an error between two reads of a count ends it", mostActiveEnded},
}

func anyTime(int) error { return nil }

// mostActiveSince is a query for all entries of some days.
func (e *env) mostActiveSince(ago time.Duration) atrium.MostActiveQuery {
	return atrium.MostActiveQuery{
		Since: atrium.At(e.clock.now().Add(-ago)), MaxAccounts: atrium.MaxListedIDs, MaxEntries: atrium.MaxMostActiveEntries,
	}
}

func (e *env) mostActive(t tb, q atrium.MostActiveQuery) atrium.MostActive {
	t.Helper()
	all, err := e.MostActiveAccounts(t.Context(), e.tenant, q, anyTime)
	if err != nil {
		t.Fatalf("find the most active accounts: %v", err)
	}
	return all
}

// wantMostActive compares the result of a query that reads all entries of its range with the exported records.
func (e *env) wantMostActive(t tb, q atrium.MostActiveQuery) {
	t.Helper()
	records := e.records(t)
	accounts, merged := map[atrium.AccountID]*atrium.Account{}, map[atrium.AccountID]atrium.AccountID{}
	for _, a := range of[*atrium.Account](records) {
		accounts[a.ID] = a
	}
	for _, m := range of[*atrium.Merge](records) {
		merged[m.AccountID] = m.Into
	}
	want, counts := atrium.MostActive{CountedSince: q.Since}, map[atrium.AccountID]int64{}
	for _, entry := range of[*atrium.Entry](records) {
		if entry.CreatedAt < q.Since || q.Source != "" && entry.Source != q.Source || q.Type != "" && entry.Type != q.Type ||
			atrium.IDTime(entry.ID).Before(q.Since.Std().Add(-time.Minute)) {
			continue
		}
		id := entry.AccountID
		for merged[id] != "" {
			id = merged[id]
		}
		if accounts[id].Domain != atrium.UnattributedDomain {
			counts[id]++
			want.Entries++
		}
	}
	for id, n := range counts {
		want.Accounts = append(want.Accounts, atrium.AccountEntries{Account: *accounts[id], Entries: n})
	}
	slices.SortFunc(want.Accounts, func(a, b atrium.AccountEntries) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.ID, b.ID))
	})
	want.Accounts = want.Accounts[:min(len(want.Accounts), q.MaxAccounts)]
	if got, want := describeMostActive(e.mostActive(t, q)), describeMostActive(want); got != want {
		t.Fatalf("%+v: got %s, want %s", q, got, want)
	}
}

func describeMostActive(m atrium.MostActive) string {
	texts := []string{fmt.Sprintf("%d since %s", m.Entries, m.CountedSince)}
	for _, a := range m.Accounts {
		texts = append(texts, fmt.Sprintf("%d of %s %q %q", a.Entries, a.ID, a.Domain, a.Name))
	}
	return strings.Join(texts, ", ")
}

func mostActiveLikeEntries(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	counted := int64(0)
	for seed := range uint64(3) {
		o := &countedOperations{env: e.as(e.newTenant(t)), rng: rand.New(rand.NewPCG(seed, 2))}
		o.setRules(t, atrium.RetentionRule{Source: "ads", Days: 20})
		for range 150 {
			o.step(t)
			if o.rng.IntN(5) == 0 {
				o.recordNow(t, []atrium.Claim{{}, byName("Acme")}[o.rng.IntN(2)]) // for no account
			}
			q := o.mostActiveSince(time.Duration(o.rng.IntN(32*24)) * time.Hour)
			if o.rng.IntN(3) == 0 {
				q.MaxAccounts = 1 + o.rng.IntN(3)
			}
			if o.rng.IntN(3) == 0 {
				q.Source = "crm"
			}
			if o.rng.IntN(3) == 0 {
				q.Type = "deal"
			}
			o.wantMostActive(t, q)
			counted += o.mostActive(t, q).Entries
		}
	}
	if counted == 0 {
		t.Error("nothing was counted")
	}
}

// storedBefore imports n entries of an account, each recorded a second before the previous one.
func (e *env) storedBefore(t tb, account *atrium.Account, n int, ago time.Duration) {
	t.Helper()
	records := make([]store.Record, n)
	for i := range records {
		records[i] = e.aged(account, ago+time.Duration(i)*time.Second)
	}
	for chunk := range slices.Chunk(records, 1000) {
		e.put(t, chunk...)
	}
}

func mostActiveBounded(t *testing.T, e *env) {
	a, b := e.newAccount("a.example", ""), e.newAccount("b.example", "")
	e.put(t, a, b)
	e.storedBefore(t, a, 40, time.Minute)
	e.storedBefore(t, b, 60, time.Hour)
	q := e.mostActiveSince(24 * time.Hour)
	for _, test := range []struct {
		most, ofA, ofB int64
		since          atrium.Time
	}{
		{1, 1, 0, atrium.At(e.clock.now().Add(-time.Minute))},
		{40, 40, 0, atrium.At(e.clock.now().Add(-time.Minute - 39*time.Second))},
		{99, 40, 59, atrium.At(e.clock.now().Add(-time.Hour - 58*time.Second))},
		{100, 40, 60, q.Since},
	} {
		q.MaxEntries = int(test.most)
		counting, read := e.counting()
		got := counting.mostActive(t, q)
		counts := map[atrium.AccountID]int64{}
		for _, found := range got.Accounts {
			counts[found.ID] = found.Entries
		}
		if got.Entries != test.most || counts[a.ID] != test.ofA || counts[b.ID] != test.ofB || got.CountedSince != test.since {
			t.Errorf("of %d entries at most: %s, want %d and %d since %s", test.most, describeMostActive(got), test.ofA, test.ofB, test.since)
		}
		if read.rows > 100+1+4+4 {
			t.Errorf("of %d entries at most, %d rows were read", test.most, read.rows)
		}
	}
	q.Source, q.MaxEntries = "none has it", 99
	if got := e.mostActive(t, q); got.Entries != 0 || got.CountedSince <= q.Since {
		t.Errorf("with a filter: %s, although entries were not read", describeMostActive(got))
	}

	// An identifier of the future does not move the time into the future.
	q = e.mostActiveSince(time.Hour / 2)
	future := e.newEntry(a, "")
	future.ID, future.CreatedAt = as[atrium.EntryID](strings.Repeat("z", 26)), q.Since
	e.put(t, future)
	q.MaxEntries = 1
	if got := e.mostActive(t, q); got.CountedSince != e.clock.instant() {
		t.Errorf("counted since %s, want now", got.CountedSince)
	}

	// An entry that was not read is in the range, although the identifiers are from before it.
	delayed := e.as(e.newTenant(t))
	delayed.put(t, a)
	for range 2 {
		entry := delayed.newEntry(a, "")
		entry.ID, entry.CreatedAt = idOf(q.Since.Std().Add(-30*time.Second)), q.Since
		delayed.put(t, entry)
	}
	if got := delayed.mostActive(t, q); got.Entries != 1 || got.CountedSince <= q.Since {
		t.Errorf("counted %s, want 1, and to be told that there are more since %s", describeMostActive(got), q.Since)
	}

	// Each transaction reads a part.
	many := e.as(e.newTenant(t))
	accounts := make([]*atrium.Account, 2500)
	var records []store.Record
	for i := range accounts {
		accounts[i] = many.newAccount(fmt.Sprintf("a%d.example", i), "")
		records = append(records, accounts[i])
	}
	for i := range 12_000 {
		records = append(records, many.aged(accounts[i%len(accounts)], time.Duration(i)*time.Second))
	}
	for chunk := range slices.Chunk(records, 1000) {
		many.put(t, chunk...)
	}
	var held []int
	got, err := many.MostActiveAccounts(t.Context(), many.tenant, many.mostActiveSince(24*time.Hour), func(accounts int) error {
		held = append(held, accounts)
		return nil
	})
	if err != nil || got.Entries != 12_000 || !slices.Equal(held, []int{2500, 2500, 2500}) {
		t.Errorf("%d entries, %v; pauses with %v accounts, want one after 10,000 entries and one before each 2,000 accounts", got.Entries, err, held)
	}
}

func mostActiveChanging(t *testing.T, e *env) {
	a, b, c := e.newAccount("a.example", ""), e.newAccount("b.example", ""), e.newAccount("c.example", "")
	e.put(t, a, b, c)
	e.storedBefore(t, a, 3, time.Minute)
	e.storedBefore(t, b, 2, time.Minute)
	e.storedBefore(t, c, 4, time.Minute)
	changes := []func(){
		func() { e.merge(t, a.ID, b.ID) }, // before their places are known
		func() { e.eraseAccount(t, c.ID) },
	}
	got, err := e.MostActiveAccounts(t.Context(), e.tenant, e.mostActiveSince(time.Hour), func(int) error {
		for _, change := range changes {
			change()
		}
		changes = nil
		return nil
	})
	if err != nil || len(got.Accounts) != 1 || got.Accounts[0].ID != b.ID || got.Accounts[0].Entries != 5 || got.Entries != 5 {
		t.Errorf("found %s, %v, want 5 entries of %s", describeMostActive(got), err, b.ID)
	}
}

func mostActiveSized(t *testing.T, e *env) {
	const size = 300_000
	var want []atrium.AccountID
	for i, id := range e.longDomains(t, 6, size) {
		e.storedBefore(t, &atrium.Account{ID: id}, 6-i, time.Minute)
		want = append(want, id)
	}
	got := e.mostActive(t, e.mostActiveSince(time.Hour))
	if len(got.Accounts) == 0 || len(got.Accounts) > 4 || got.Entries != 21 {
		t.Fatalf("found %d accounts with %d entries, want some with 1 MiB, of 21", len(got.Accounts), got.Entries)
	}
	for i, found := range got.Accounts {
		if found.ID != want[i] || len(found.Domain) != len(e.account(t, want[i]).Domain) || found.Entries != int64(6-i) {
			t.Errorf("the account at %d is %s with %d entries and a domain of %d bytes", i, found.ID, found.Entries, len(found.Domain))
		}
	}
}

func mostActiveImported(t *testing.T, e *env) {
	a := e.newAccount("a.example", "")
	late, early, old := e.newEntry(a, ""), e.newEntry(a, ""), e.newEntry(a, "")
	q := e.mostActiveSince(time.Hour)
	late.ID, late.CreatedAt = idOf(e.clock.now()), q.Since
	early.ID, early.CreatedAt = idOf(q.Since.Std().Add(-time.Minute)), q.Since
	old.ID, old.CreatedAt = idOf(e.clock.now()), q.Since-1000
	e.put(t, a, late, early, old)
	if got := e.mostActive(t, q); got.Entries != 2 {
		t.Errorf("counted %d entries, want 2", got.Entries)
	}
}

func mostActiveEnded(t *testing.T, e *env) {
	e.recordNow(t, byDomain("a.example"))
	stop := errors.New("stopped")
	if _, err := e.MostActiveAccounts(t.Context(), e.tenant, e.mostActiveSince(time.Hour), func(int) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want that of pause", err)
	}
}
