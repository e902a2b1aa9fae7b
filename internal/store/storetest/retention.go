package storetest

import (
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

var retention = []guarantee{
	{"retention rules delete what a simple comparison of rules and times says, while entries and rules change", retained},
	{"a killed run deletes the same, and counts it once", retainedDespiteKills},
	{"deletions are recorded after the deleted data is purged", retainedAfterPurge},
	{concurrent + "two nodes can apply retention rules", retainedByNodes},
	{"a round over more than 100 tenants reports rules that wait throughout, and purges once", retainedInRounds},
	{"a run deletes at most 1,010 rows in a transaction", retainedInParts},
	{"entries that no rule deletes are read once after a change of the rules", retainedCheaply},
	{"a clock that is wrong by years deletes nothing within a day", retainedByWrongClock},
	{concurrent + "rules are replaced atomically, and the same rules change nothing", retentionReplaced},
	{"after rules are removed, nothing more is deleted", retentionRemoved},
	{"a deleted entry is replayed for 30 days, and its account has the activity that is left", retainedReplays},
	{"the audit log has one record for each day, and moves of deleted entries are redacted", retentionAudited},
	{"a check counts what each rule would delete, in pages", retentionChecked},
	{"rules of one tenant delete nothing of another, and tenants take turns", retentionOfTenants},
}

const days = 24 * time.Hour

// setRules sets the retention rules.
func (e *env) setRules(t tb, rules ...atrium.RetentionRule) atrium.Retention {
	t.Helper()
	r, err := e.SetRetention(t.Context(), e.change(), rules, func(atrium.Retention) error { return nil })
	if err != nil {
		t.Fatalf("set rules: %v", err)
	}
	return r
}

// applyRules runs the job until it has nothing left to do.
func (e *env) applyRules(t tb) {
	t.Helper()
	for range 1000 {
		left := false
		for next, first := atrium.TenantID(""), true; first || next != ""; first = false {
			var more bool
			var err error
			if next, more, err = e.RunRetention(t.Context(), next); err != nil {
				t.Fatalf("apply rules: %v", err)
			}
			left = left || more
		}
		if !left {
			return
		}
	}
	t.Fatalf("the job does not end")
}

// waitDays moves the clock, and runs the job every twelve hours.
func (e *env) waitDays(t tb, n float64) {
	t.Helper()
	for left := time.Duration(n * float64(days)); left > 0; left -= 12 * time.Hour {
		e.clock.step(min(left, 12*time.Hour))
		e.applyRules(t)
	}
}

// idOf returns a new identifier of an entry that was recorded at a time of the test's clock.
func idOf(at time.Time) atrium.EntryID {
	first, unique := atrium.FirstID[atrium.EntryID](at), atrium.NewID[atrium.EntryID]()
	return first[:len(first)-16] + unique[len(unique)-16:]
}

// aged returns an entry that was recorded some time ago.
func (e *env) aged(account *atrium.Account, ago time.Duration) *atrium.Entry {
	entry, at := e.newEntry(account, ""), e.clock.now().Add(-ago)
	entry.ID, entry.CreatedAt = idOf(at), atrium.At(at)
	return entry
}

// recordNow is record with an identifier of the time of the test's clock.
func (e *env) recordNow(t tb, claim atrium.Claim, changes ...draftOption) atrium.Receipt {
	t.Helper()
	d := e.draft(t, claim, changes...)
	d.ID = idOf(e.clock.now())
	return receipts(t, e.append(t, d))[0]
}

// entryIDs returns the identifiers of all entries.
func (e *env) entryIDs(t tb) map[atrium.EntryID]bool {
	t.Helper()
	all := map[atrium.EntryID]bool{}
	for _, entry := range of[*atrium.Entry](e.records(t)) {
		all[entry.ID] = true
	}
	return all
}

// keptFor is a simple form of atrium.RetentionRules.Find. It returns 0 for ever.
func keptFor(rules []atrium.RetentionRule, e *atrium.Entry) time.Duration {
	for _, try := range [][2]string{{e.Source, e.Type}, {e.Source, ""}, {"", e.Type}, {"", ""}} {
		for _, r := range rules {
			if r.Source == try[0] && r.Type == try[1] {
				return time.Duration(r.Days) * days
			}
		}
	}
	return 0
}

func retained(t *testing.T, e *env) {
	e = e.fresh(t)
	rng := rand.New(rand.NewPCG(7, 8))
	var accounts []*atrium.Account
	for i := range 3 {
		accounts = append(accounts, e.newAccount(fmt.Sprintf("a%d.example", i), ""))
		e.put(t, accounts[i])
	}
	own, foreign := map[atrium.EntryID]*atrium.Entry{}, map[atrium.EntryID]*atrium.Entry{}
	add := func(n, age int) {
		var chunk []store.Record
		for range n {
			entry := e.aged(accounts[rng.IntN(3)], time.Duration(rng.IntN(age*24+1))*time.Hour+time.Duration(rng.IntN(3600))*time.Second)
			entry.Source, entry.Type = []string{"crm", "ads", "web"}[rng.IntN(3)], []string{"webhook", "deal"}[rng.IntN(2)]
			all := own
			if rng.IntN(4) == 0 && age > 0 {
				all = foreign
				entry.ID = "prospectlog_" + []atrium.EntryID{"zzzzzzzzzz", "0000000000", "a0b0c0d0e0"}[rng.IntN(3)] + entry.ID[len(entry.ID)-16:]
			}
			all[entry.ID] = entry
			chunk = append(chunk, entry)
		}
		e.put(t, chunk...)
	}
	some := func() (rules []atrium.RetentionRule) {
		for _, source := range []string{"", "crm", "ads"} {
			for _, kind := range []string{"", "deal"} {
				if rng.IntN(3) == 0 {
					rules = append(rules, atrium.RetentionRule{Source: source, Type: kind, Days: int64(1 + rng.IntN(40))})
				}
			}
		}
		return rules
	}
	add(150, 60)
	rules := some()
	e.setRules(t, rules...)
	e.waitDays(t, 1.5)
	deletedFor := 36 * time.Hour // since rules were last changed
	for step := range 80 {
		if step%27 == 26 { // after about 12 days
			rules, deletedFor = some(), 0
			e.setRules(t, rules...)
		}
		if step%5 == 0 {
			add(10, 0) // as appended now
		}
		wait := time.Duration(1+rng.IntN(20)) * time.Hour
		e.clock.step(wait)
		deletedFor += wait
		e.applyRules(t)
		left, now := e.entryIDs(t), e.clock.now()
		for _, all := range []map[atrium.EntryID]*atrium.Entry{own, foreign} {
			for id, entry := range all {
				kept := keptFor(rules, entry)
				over := now.Sub(entry.CreatedAt.Std()) - kept
				late := 2 * time.Hour
				if foreign[id] != nil { // all are examined after a change, and then every week
					late = min(7*days+time.Hour, deletedFor)
				}
				switch {
				case !left[id] && (kept == 0 || over < 0):
					t.Fatalf("step %d: %s of %s, %s, recorded at %s, is deleted %s too early by %v", step, id, entry.Source, entry.Type, entry.CreatedAt, -over, rules)
				case left[id] && kept > 0 && over >= late:
					t.Fatalf("step %d: %s of %s, %s, recorded at %s, is left %s too long by %v", step, id, entry.Source, entry.Type, entry.CreatedAt, over, rules)
				case !left[id]:
					delete(all, id)
				}
			}
		}
	}
	if n := len(own) + len(foreign); n == 0 || n > 200 {
		t.Errorf("%d entries are left", n)
	}
	e.wantSoundGroups(t)
	e.wantSound(t, nil)
}

// old stores n entries of 40 days, and n of now.
func (e *env) old(t tb, n int) (account *atrium.Account) {
	t.Helper()
	account = e.newAccount(fmt.Sprintf("%s.example", e.tenant[len(e.tenant)-8:]), "")
	e.put(t, account)
	for left := n; left > 0; left -= 500 {
		var chunk []store.Record
		for range min(left, 500) {
			chunk = append(chunk, e.aged(account, 40*days), e.aged(account, 0))
		}
		e.put(t, chunk...)
	}
	return account
}

// steadyClock runs the job for a day, so that it trusts the clock.
func (e *env) steadyClock(t tb) { e.waitDays(t, 1.5) }

func retentionReplaced(t *testing.T, e *env) {
	none, err := e.Retention(t.Context(), e.tenant)
	if err != nil || len(none.Rules) > 0 || none.UpdatedAt != nil {
		t.Errorf("without rules: %+v, %v", none, err)
	}
	rules := []atrium.RetentionRule{{Source: "crm", Days: 30}, {Days: 365}}
	set := e.setRules(t, rules...)
	e.clock.step(time.Hour)
	same := e.setRules(t, rules...)
	found, err := e.Retention(t.Context(), e.tenant)
	if err != nil || !slices.Equal(found.Rules, rules) || *found.UpdatedAt != *set.UpdatedAt || *same.UpdatedAt != *set.UpdatedAt || found.TenantID != e.tenant {
		t.Errorf("%+v, then %+v, stored %+v, %v", set, same, found, err)
	}
	_, err = e.SetRetention(t.Context(), e.change(), nil, func(now atrium.Retention) error {
		if !slices.Equal(now.Rules, rules) {
			t.Errorf("checked %v", now.Rules)
		}
		return errOnPurpose
	})
	if !errors.Is(err, errOnPurpose) {
		t.Error(err)
	}
	parallel(t, 8, func(i int) {
		if _, err := e.SetRetention(t.Context(), e.change(), atrium.RetentionRules{{Days: int64(i + 1)}}, func(atrium.Retention) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	other := e.as(e.newTenant(t))
	parallel(t, 8, func(i int) { // the first rules
		if _, err := other.SetRetention(t.Context(), other.change(), atrium.RetentionRules{{Days: int64(i + 1)}}, func(atrium.Retention) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	e.setRules(t)
	if found, err := e.Retention(t.Context(), e.tenant); err != nil || len(found.Rules) > 0 || found.UpdatedAt == nil {
		t.Errorf("removed: %+v, %v", found, err)
	}
	if acts := e.auditLines(t, string(e.tenant)); len(acts) != 10 || acts[0] != `retention.update {"after":{"rules":[{"days":30,"source":"crm"},{"days":365}]},"before":{"rules":[]}}` {
		t.Errorf("recorded %q", acts)
	}
	e.wantSound(t, nil)
}

func retentionRemoved(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	account := e.old(t, 600)
	e.setRules(t, atrium.RetentionRule{Days: 30})
	for range 2 {
		_, _, _ = e.interrupted().RunRetention(t.Context(), "")
	}
	left := e.entriesOf(t, account.ID)
	if left == 1200 || left == 600 {
		t.Fatalf("%d entries are left", left)
	}
	e.setRules(t)
	e.waitDays(t, 3)
	if n := e.entriesOf(t, account.ID); n != left {
		t.Errorf("%d of %d entries are left", n, left)
	}
	e.wantRecorded(t, 1200-left)
}

func retainedReplays(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	first := e.recordNow(t, byDomain("a.example"), key("k"))
	e.clock.step(10 * time.Hour)
	last := e.recordNow(t, byDomain("a.example"))
	e.setRules(t, atrium.RetentionRule{Days: 2})
	e.waitDays(t, 1.75)
	if left := e.entryIDs(t); left[first.EntryID] || !left[last.EntryID] {
		t.Fatalf("left are %v", left)
	}
	if a := e.account(t, first.AccountID); a.LatestActivityAt == nil || *a.LatestActivityAt != last.CreatedAt {
		t.Errorf("the account has activity at %v", a.LatestActivityAt)
	}
	e.setRules(t)
	e.waitDays(t, 28)
	e.expireTombstones(t)
	e.wantErasedReplay(t, first, byDomain("a.example"), "k")
	e.waitDays(t, 3)
	e.expireTombstones(t)
	if again := e.record(t, byDomain("a.example"), key("k")); again.Replayed || again.EntryID == first.EntryID {
		t.Errorf("after 31 days: %+v", again)
	}
}

func (e *env) expireTombstones(t tb) {
	t.Helper()
	if next, err := e.DeleteExpiredTombstones(t.Context(), ""); err != nil || next != "" {
		t.Fatalf("expire tombstones: %v, %v", next, err)
	}
}

func retentionAudited(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	to := e.recordNow(t, byDomain("to.example")).AccountID
	e.recordNow(t, byName("Secret"))
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{To: to, Rule: atrium.MoveRule{ClaimedName: "Secret", Given: []byte(`{"claimedName":"Secret"}`)}, Limit: 10})
	if err != nil || report.Move == nil {
		t.Fatalf("move: %+v, %v", report, err)
	}
	e.clock.step(20 * time.Hour)
	e.recordNow(t, byDomain("to.example"))
	e.setRules(t, atrium.RetentionRule{Days: 1})
	for range 60 {
		e.clock.step(time.Hour)
		e.applyRules(t)
	}
	e.wantRecorded(t, 2, 1)
	if m, err := e.FindMove(t.Context(), e.tenant, report.Move.ID); err != nil || m.Rule != nil {
		t.Errorf("the move has the rule %s, %v", m.Rule, err)
	}
	if acts := e.auditLines(t, string(report.Move.ID)); len(acts) != 1 || strings.Contains(acts[0], "Secret") {
		t.Errorf("the audit log has %q", acts)
	}
}

func retentionChecked(t *testing.T, e *env) {
	account := e.old(t, 5500)
	web := e.aged(account, 10*days)
	web.Source = "web"
	e.put(t, web)
	rules := atrium.RetentionRules{{Days: 30}, {Source: "web", Days: 5}, {Type: "webhook", Source: "ads", Days: 1}}
	total, pages := make([]int, 3), 0
	examined := 0
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		check, next, err := e.CheckRetention(t.Context(), e.tenant, rules, after)
		if err != nil || check.Examined > 10_000 {
			t.Fatalf("%+v, %v", check, err)
		}
		for i, n := range check.Expired {
			total[i] += n
		}
		examined, pages, after = examined+check.Examined, pages+1, next
	}
	if !slices.Equal(total, []int{5500, 1, 0}) || pages != 2 || examined != 11_001 {
		t.Errorf("%v of %d entries on %d pages", total, examined, pages)
	}
	if n := len(e.entryIDs(t)); n != 11_001 {
		t.Errorf("%d entries are left", n)
	}
}

func retentionOfTenants(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	small := e.as(e.newTenant(t))
	if small.tenant < e.tenant {
		e, small = small, e
	}
	other := e.as(e.newTenant(t))
	e.old(t, 2000)
	account := small.old(t, 1)
	other.old(t, 5)
	before := other.dump(t)
	for _, s := range []*env{e, small} {
		s.setRules(t, atrium.RetentionRule{Days: 30})
	}
	_, _, _ = e.unpaused().interruptedAfter(4).RunRetention(t.Context(), "")
	if n := len(e.entryIDs(t)); n <= 2000 || small.entriesOf(t, account.ID) != 1 {
		t.Errorf("the small tenant has %d entries when the large one has %d", small.entriesOf(t, account.ID), n)
	}
	e.applyRules(t)
	e.waitDays(t, 2)
	if n := len(e.entryIDs(t)); n != 2000 {
		t.Errorf("%d entries are left", n)
	}
	if d := before.difference(other.dump(t)); d != "" {
		t.Errorf("another tenant has changed: %s", d)
	}
}
