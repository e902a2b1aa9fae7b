package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"atrium"
	"atrium/internal/store"
)

// A model of erasures of persons: what they may delete, by simple comparisons.

// hasText is a simple form of canonical.HasText and ContainsText.
func hasText(v any, is func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return is(v)
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return hasText(v, is) })
	case map[string]any:
		for name, value := range v {
			if is(name) || hasText(value, is) {
				return true
			}
		}
	}
	return false
}

// selects compares an entry with the conditions that this model knows: all but a claimed domain, and
// pointers only to /to.
func selects(rule *atrium.ErasureRule, e *atrium.Entry) bool {
	var payload any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return false
	}
	to := ""
	if o, ok := payload.(map[string]any); ok {
		to, _ = o["to"].(string)
	}
	return rule.HasEntries() && (rule.Text == "" || hasText(payload, func(s string) bool { return strings.EqualFold(s, rule.Text) })) &&
		(rule.TextContains == "" || hasText(payload, func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(rule.TextContains)) })) &&
		(rule.EntryIDs == nil || slices.Contains(rule.EntryIDs, e.ID)) && (rule.ClaimedName == "" || strings.EqualFold(e.Claim.Name, rule.ClaimedName)) &&
		(rule.Pointer == "" || fmt.Sprintf("%q", to) == string(rule.Equals))
}

// somebody stores entries and prospects in several accounts, some of which are merged or have moved
// entries.
func (e *env) somebody(t tb, rng *rand.Rand, n int) {
	t.Helper()
	texts := []string{
		`{"to":"Jane.Doe@Example.COM"}`, `{"to":"jane.doe@example.com"}`, `{"to":"other@example.com","cc":[{"x":["JANE.DOE@example.com"]}]}`,
		`{"to":"jane.doe@example.com.example"}`, `{"jane.doe@example.com":1}`, `{"to":null,"n":1}`, `{"to":"mail jane.doe@example.com"}`,
	}
	names := []string{"", "Jane", "JANE", "Bob"}
	var ids []atrium.AccountID
	for i := range n {
		claim := atrium.Claim{Domain: fmt.Sprintf("d%d.example", rng.IntN(5)), Name: names[rng.IntN(len(names))]}
		r := e.record(t, claim, key(fmt.Sprintf("%s %d", person, i)), payload(texts[rng.IntN(len(texts))]))
		ids = append(ids, r.AccountID)
		if rng.IntN(6) == 0 {
			_, _, _ = e.MoveEntry(t.Context(), e.change(), r.EntryID, ids[rng.IntN(len(ids))], accept) // it may be in that account
		}
		e.clock.step(time.Second)
	}
	e.merge(t, ids[0], ids[slices.IndexFunc(ids, func(id atrium.AccountID) bool { return id != ids[0] })])
	for i := range n / 3 {
		email := []string{person, strings.ToLower(person), "bob@example.com"}[i%3]
		p, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: &email, Name: &email})
		if err == nil && i%2 == 0 {
			_, err = e.LinkProspect(t.Context(), e.change(), ids[rng.IntN(len(ids))], p.ID, func(atrium.LinkedProspect) error { return nil })
		}
		if err != nil {
			t.Fatalf("make a prospect: %v", err)
		}
	}
}

// wantErased fails the test unless the tenant has the records from before, except those that the rule
// selects.
func (e *env) wantErased(t tb, before []store.Record, rule atrium.ErasureRule, done atrium.Erasure) {
	t.Helper()
	var want, got []string
	erased := atrium.Erasure{}
	for _, r := range before {
		switch r := r.(type) {
		case *atrium.Entry:
			if selects(&rule, r) {
				erased.Entries++
				want = append(want, describe(&atrium.Tombstone{
					EntryID: r.ID, AccountID: cmp.Or(r.AcknowledgedID, r.AccountID), CreatedAt: r.CreatedAt, Source: r.Source, Type: r.Type,
				}))
				continue
			}
		case *atrium.LinkedProspect:
			if rule.ProspectEmail != "" && strings.EqualFold(*r.Email, rule.ProspectEmail) {
				erased.Prospects++
				continue
			}
		case *atrium.Account: // its time of change is that of its prospects
			continue
		}
		want = append(want, describe(r))
	}
	for _, r := range e.records(t) {
		if _, ok := r.(*atrium.Account); !ok {
			got = append(got, describe(r))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("left is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if done.Entries != erased.Entries || done.Prospects != erased.Prospects {
		t.Errorf("the erasure counts %d entries and %d prospects, want %d and %d", done.Entries, done.Prospects, erased.Entries, erased.Prospects)
	}
	e.wantSoundGroups(t)
	e.wantSound(t, nil)
}
