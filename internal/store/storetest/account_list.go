package storetest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

var accountLists = []guarantee{
	{"every order of the account list returns each account once, at any page size", accountsInOrder},
	{"account filters return the same accounts as a full scan", accountsLikeModel},
	{"a merged account is found by its own words and listed once, as its survivor", mergedAccountFound},
	{"a page of the account list reads a bounded number of rows and continues after them", accountsPageBounded},
	{concurrent + "accounts that exist throughout are listed once while others are created or active", accountsWhileWriting},
}

// allAccounts returns the accounts of all pages of a list, and how many pages it had.
func (e *env) allAccounts(t tb, f atrium.AccountFilter, order atrium.AccountOrder, limit int) (all []atrium.Account, pages int) {
	t.Helper()
	if order == atrium.AccountsActivity || f.ActiveSince != nil {
		e.sweepActivity(t)
	}
	for after := (*atrium.Position)(nil); ; pages++ {
		found, next, err := e.Accounts(t.Context(), e.tenant, f, order, after, limit)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if len(found) > limit {
			t.Fatalf("a page of %d accounts, want %d at most", len(found), limit)
		}
		if all = append(all, found...); next == nil {
			return all, pages + 1
		}
		if after = next; pages > 10_000 {
			t.Fatalf("the list does not end")
		}
	}
}

func domainsOf(accounts []atrium.Account) []string {
	domains := make([]string, len(accounts))
	for i, a := range accounts {
		domains[i] = a.Domain
	}
	return domains
}

func accountsInOrder(t *testing.T, e *env) {
	names := []string{"Bolt", "", "acme", "ACME", "Ärger", ""}
	var made []atrium.Account
	for i, name := range names {
		if i%2 == 0 { // two accounts for each instant
			e.clock.step(time.Second)
		}
		a := e.newAccount(fmt.Sprintf("%c.example", 'f'-i), name)
		e.put(t, a)
		made = append(made, *a)
	}
	for _, i := range []int{3, 0, 1} { // not in the order of their creation
		e.clock.step(time.Minute)
		e.record(t, byID(made[i].ID))
	}
	for order, want := range map[atrium.AccountOrder]string{
		atrium.AccountsNewest:   "a b c d e f",
		atrium.AccountsActivity: "e f c a b d",
		atrium.AccountsName:     "d c f b a e",
	} {
		for limit := 1; limit <= 7; limit++ {
			all, _ := e.allAccounts(t, atrium.AccountFilter{}, order, limit)
			if got := strings.ReplaceAll(strings.Join(domainsOf(all), " "), ".example", ""); got != want {
				t.Errorf("%s, %d a page: %s, want %s", order, limit, got, want)
			}
			for _, a := range all {
				if whole := e.account(t, a.ID); describe(&a) != describe(&whole) || (a.LatestActivityAt == nil) != (whole.LatestActivityAt == nil) {
					t.Errorf("it is %+v, want %+v", a, whole)
				}
			}
		}
	}
}

// A listed is an account of the model with the accounts that were merged into it.
type listed struct {
	atrium.Account
	group  []atrium.Account // including itself
	minute int64
}

// matches reports whether the account matches a filter.
func (a *listed) matches(f atrium.AccountFilter) bool {
	return (len(f.IDs) == 0 || slices.ContainsFunc(a.group, func(m atrium.Account) bool { return slices.Contains(f.IDs, m.ID) })) &&
		(f.Domain == "" || slices.ContainsFunc(a.group, func(m atrium.Account) bool { return m.Domain == f.Domain })) &&
		strings.HasPrefix(strings.ToLower(a.Name), strings.ToLower(f.NamePrefix)) &&
		(f.ActiveSince == nil || a.LatestActivityAt != nil && *a.LatestActivityAt >= *f.ActiveSince) &&
		(len(f.Words) == 0 || slices.ContainsFunc(a.group, func(m atrium.Account) bool { return hasWords(f.Words, m.Domain, m.Name) }))
}

// hasWords reports whether each of the words is a prefix of a word of the texts, or of a part
// between white space.
func hasWords(words []string, texts ...string) bool {
	var all []string
	for _, text := range texts {
		text = strings.ToLower(text)
		all = append(all, strings.Fields(text)...)
		all = append(all, strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })...)
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(all, func(has string) bool { return strings.HasPrefix(has, word) })
	})
}

func (a *listed) compare(b *listed, order atrium.AccountOrder) int {
	switch order {
	case atrium.AccountsActivity:
		return cmp.Or(cmp.Compare(b.minute, a.minute), strings.Compare(string(b.ID), string(a.ID)))
	case atrium.AccountsName:
		key := func(a *listed) string {
			if a.Name == "" {
				return "\U0010ffff" + a.Domain
			}
			return strings.ToLower(a.Name)
		}
		return cmp.Or(strings.Compare(key(a), key(b)), strings.Compare(string(a.ID), string(b.ID)))
	}
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(string(b.ID), string(a.ID)))
}

func accountsLikeModel(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		model := e.drawAccounts(t)
		var domains []string
		for _, a := range model {
			for _, m := range a.group {
				domains = append(domains, m.Domain)
			}
		}
		slices.Sort(domains)
		for range 4 {
			var f atrium.AccountFilter
			if rapid.IntRange(0, 3).Draw(t, "by domain") == 0 {
				f.Domain = rapid.SampledFrom(append(domains, "nobody.example")).Draw(t, "domain")
			}
			if len(model) > 0 && rapid.IntRange(0, 3).Draw(t, "by identifier") == 0 {
				for range rapid.IntRange(1, 4).Draw(t, "identifiers") {
					group := rapid.SampledFrom(model).Draw(t, "account").group
					f.IDs = append(f.IDs, rapid.SampledFrom(group).Draw(t, "member").ID)
				}
				f.IDs = append(f.IDs, atrium.NewID[atrium.AccountID]())
			}
			f.NamePrefix = rapid.SampledFrom([]string{"", "", "a", "AC", "Acme ", "x"}).Draw(t, "prefix")
			f.Words = canonical.QueryWords(rapid.SampledFrom([]string{"", "", "a", "acme", "ac CORP", "exam", "d1", "d1.ex corp", "nobody"}).Draw(t, "query"))
			if rapid.IntRange(0, 3).Draw(t, "by activity") == 0 {
				since := e.clock.instant() - atrium.Time(rapid.IntRange(-1, 8).Draw(t, "half minutes"))*30_000_000
				f.ActiveSince = &since
			}
			orders := []atrium.AccountOrder{atrium.AccountsNewest, atrium.AccountsActivity, atrium.AccountsName}
			if len(f.Words) > 0 {
				orders = append(orders, atrium.AccountsWord)
			}
			order := rapid.SampledFrom(orders).Draw(t, "order")
			var want []string
			slices.SortFunc(model, func(a, b *listed) int {
				if len(f.IDs) > 0 {
					return a.compare(b, atrium.AccountsNewest)
				}
				return a.compare(b, order)
			})
			for _, a := range model {
				if a.matches(f) {
					want = append(want, a.Domain)
				}
			}
			all, _ := e.allAccounts(t, f, order, rapid.IntRange(1, 5).Draw(t, "limit"))
			got := domainsOf(all)
			if order == atrium.AccountsWord {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v by %s: %v, want %v", f, order, got, want)
			}
		}
	})
}

// drawAccounts creates accounts, some of them with activity, and merges some.
func (e *env) drawAccounts(t *rapid.T) (model []*listed) {
	for i := range rapid.IntRange(0, 8).Draw(t, "accounts") {
		e.clock.step(time.Duration(rapid.IntRange(0, 3).Draw(t, "half minutes later")) * 30 * time.Second)
		name := rapid.SampledFrom([]string{"", "Acme", "ACME Corp", "Bolt acme", "corp"}).Draw(t, "name")
		made := e.newAccount(fmt.Sprintf("d%d.example", i), name)
		e.put(t, made)
		a := &listed{Account: *made, minute: noActivity}
		if rapid.Bool().Draw(t, "active") {
			e.record(t, byID(made.ID))
			a.LatestActivityAt, a.minute = pointer(e.clock.instant()), int64(e.clock.instant())/60_000_000
		}
		a.group = []atrium.Account{a.Account}
		if len(model) > 0 && rapid.IntRange(0, 3).Draw(t, "merge") == 0 {
			survivor := rapid.SampledFrom(model).Draw(t, "survivor")
			e.merge(t, made.ID, survivor.ID)
			survivor.group = append(survivor.group, a.Account)
			survivor.Name = cmp.Or(survivor.Name, a.Name)
			survivor.group[0].Name = survivor.Name
			if a.minute >= survivor.minute && a.LatestActivityAt != nil {
				survivor.LatestActivityAt, survivor.minute = a.LatestActivityAt, a.minute
			}
			continue
		}
		model = append(model, a)
	}
	return model
}

func mergedAccountFound(t *testing.T, e *env) {
	survivor := e.record(t, atrium.Claim{Domain: "bolt.example", Name: "Bolt Works"}).AccountID
	for i := range 3 {
		e.merge(t, e.record(t, atrium.Claim{Domain: fmt.Sprintf("old%d.example", i), Name: "Bolt Old"}).AccountID, survivor)
	}
	for query, want := range map[string]int{"bolt": 1, "old": 1, "old1": 1, "old1.example": 1, "works": 1, "old works": 0, "example": 1} {
		all, _ := e.allAccounts(t, atrium.AccountFilter{Words: canonical.QueryWords(query)}, atrium.AccountsWord, 1)
		if len(all) != want || want == 1 && all[0].ID != survivor {
			t.Errorf("%q finds %v, want the survivor %d times", query, all, want)
		}
	}
	all, _ := e.allAccounts(t, atrium.AccountFilter{Domain: "old2.example"}, atrium.AccountsNewest, 1)
	if len(all) != 1 || all[0].ID != survivor {
		t.Errorf("an old domain leads to %v", all)
	}
	if all, _ := e.allAccounts(t, atrium.AccountFilter{NamePrefix: "bolt o"}, atrium.AccountsName, 1); len(all) != 0 {
		t.Errorf("a name that is not shown leads to %v", all)
	}
}

func accountsPageBounded(t *testing.T, e *env) {
	const n = 2500
	var accounts []atrium.AccountID
	first := e.newAccount("rare.example", "Rare")
	e.put(t, first)
	e.clock.step(time.Second)
	var records []store.Record
	for i := range n {
		a := e.newAccount(fmt.Sprintf("d%d.example", i), "Common")
		records, accounts = append(records, a), append(accounts, a.ID)
	}
	e.put(t, records...)
	f := atrium.AccountFilter{Words: []string{"rare"}}
	all, pages := e.allAccounts(t, f, atrium.AccountsNewest, 5)
	if len(all) != 1 || all[0].ID != first.ID || pages < 2 || pages > 4 {
		t.Errorf("%d accounts on %d pages, want one on a few", len(all), pages)
	}
	if all, pages := e.allAccounts(t, f, atrium.AccountsWord, 5); len(all) != 1 || pages != 1 {
		t.Errorf("%d accounts on %d pages, want one on one", len(all), pages)
	}
	all, _ = e.allAccounts(t, atrium.AccountFilter{Words: []string{"example", "common"}}, atrium.AccountsWord, 100)
	seen := map[atrium.AccountID]int{}
	for _, a := range all {
		seen[a.ID]++
	}
	for _, id := range accounts {
		if seen[id] != 1 {
			t.Fatalf("an account was listed %d times", seen[id])
		}
	}
}

func accountsWhileWriting(t *testing.T, e *env) {
	startsGoroutines(t)
	still := map[string]bool{}
	for i := range 60 {
		e.clock.step(time.Minute)
		a := e.newAccount(fmt.Sprintf("still%d.example", i), fmt.Sprintf("Acme %d", i))
		still[a.Domain] = true
		e.put(t, a)
		e.record(t, byID(a.ID))
	}
	var stop atomic.Bool
	ended := make(chan struct{})
	node := e.node()
	go func() {
		defer close(ended)
		for i := 0; i < 300 && !stop.Load(); i++ {
			node.clock.step(time.Minute)
			node.record(t, atrium.Claim{Domain: fmt.Sprintf("new%d.example", i), Name: "Acme new"})
		}
	}()
	for _, order := range []atrium.AccountOrder{atrium.AccountsNewest, atrium.AccountsActivity, atrium.AccountsName, atrium.AccountsWord} {
		all, _ := e.allAccounts(t, atrium.AccountFilter{Words: []string{"acme"}}, order, 7)
		met := map[string]int{}
		for _, a := range all {
			met[a.Domain]++
		}
		for domain := range still {
			if met[domain] != 1 {
				t.Errorf("by %s, an account that was there throughout was listed %d times", order, met[domain])
			}
		}
	}
	stop.Store(true)
	<-ended
	// An account that becomes active moves to the front: it is listed at most once.
	seen := map[atrium.AccountID]int{}
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		page, next, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{}, atrium.AccountsActivity, after, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			seen[a.ID]++
		}
		e.clock.step(time.Minute)
		e.record(t, byDomain("still3.example"))
		if len(page) > 0 {
			e.record(t, byID(page[0].ID))
		}
		after = next
	}
	for id, times := range seen {
		if times > 1 {
			t.Errorf("%s was listed %d times", id, times)
		}
	}
}

// hashed returns the hash of a text in the columns *_hash.
func hashed(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}
