package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var persons = []guarantee{
	{"an erasure by rule erases what a simple comparison selects, and nothing else", personErased},
	{"a killed erasure continues where it was, and ends the same", personErasedDespiteKills},
	{"two nodes can work on an erasure", personErasedByNodes},
	{"an erasure deletes at most 1,010 rows in a transaction", personErasedInParts},
	{"the rules of moves and the audit details of an erased person are deleted", personNotAudited},
	{"the rule of an erasure is gone when it is complete", personRuleForgotten},
	{"an erasure of one account leaves others alone", personErasedFromAccount},
	{"the page of a check is bounded, and all pages have everything once", personChecked},
	{"an erasure of a missing account is NotFound, and one more than may wait is a Conflict", personRefused},
	{"erasures of several tenants take turns", personsInTurn},
}

const person = "Jane.Doe@Example.COM"

// personal returns a rule for entries with a text in their payload, and for prospects.
func personal() atrium.ErasureRule {
	return atrium.ErasureRule{Text: person, ProspectEmail: person}
}

func (e *env) startErasure(t tb, request atrium.ErasureRequest) atrium.Erasure {
	t.Helper()
	made, _, err := e.CreateErasure(t.Context(), e.change(), request)
	if err != nil {
		t.Fatalf("create an erasure: %v", err)
	}
	return made
}

// finishErasure runs the job until an erasure is complete.
func (e *env) finishErasure(t tb, id atrium.ErasureID) atrium.Erasure {
	t.Helper()
	for range 10_000 {
		if _, err := e.RunErasures(t.Context()); err != nil {
			t.Fatalf("run erasures: %v", err)
		}
		found, err := e.FindErasure(t.Context(), e.tenant, id)
		if err != nil {
			t.Fatalf("find the erasure: %v", err)
		}
		if found.CompletedAt != nil {
			return found
		}
	}
	t.Fatalf("the erasure does not complete")
	return atrium.Erasure{}
}

// hasText is a simple form of canonical.HasText.
func hasText(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.EqualFold(v, text)
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return hasText(v, text) })
	case map[string]any:
		for name, value := range v {
			if strings.EqualFold(name, text) || hasText(value, text) {
				return true
			}
		}
	}
	return false
}

// selects compares an entry with a rule that has a text, a pointer /to and a claimed name.
func selects(rule *atrium.ErasureRule, e *atrium.Entry) bool {
	var payload any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return false
	}
	to := ""
	if o, ok := payload.(map[string]any); ok {
		to, _ = o["to"].(string)
	}
	return rule.HasEntries() && (rule.Text == "" || hasText(payload, rule.Text)) && (rule.ClaimedName == "" || strings.EqualFold(e.Claim.Name, rule.ClaimedName)) &&
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
					EntryID: r.ID, AccountID: max(r.AcknowledgedID, r.AccountID), CreatedAt: r.CreatedAt, Source: r.Source, Type: r.Type,
				}))
				if r.AcknowledgedID != "" {
					want[len(want)-1] = describe(&atrium.Tombstone{EntryID: r.ID, AccountID: r.AcknowledgedID, CreatedAt: r.CreatedAt, Source: r.Source, Type: r.Type})
				}
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
	newest := map[atrium.AccountID]atrium.Time{}
	for _, r := range e.records(t) {
		if entry, ok := r.(*atrium.Entry); ok {
			newest[entry.AccountID] = max(newest[entry.AccountID], entry.CreatedAt)
		}
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

func personErased(t *testing.T, e *env) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, rule := range []atrium.ErasureRule{
		personal(),
		{Text: person},
		{ProspectEmail: person},
		{MoveRule: atrium.MoveRule{ClaimedName: "jane"}},
		{MoveRule: atrium.MoveRule{Pointer: "/to", Equals: []byte(`"jane.doe@example.com"`)}},
		{MoveRule: atrium.MoveRule{Pointer: "/to", Equals: []byte(`"jane.doe@example.com"`), ClaimedName: "Bob"}, Text: person},
		{Text: "nobody"},
	} {
		e := e.as(e.newTenant(t))
		e.somebody(t, rng, 40)
		before := copied(e.records(t))
		var matches []atrium.Match
		for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
			page, next, err := e.CheckErasure(t.Context(), e.tenant, atrium.ErasureRequest{Rule: rule}, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			matches, after = append(matches, page...), next
		}
		if after := copied(e.records(t)); !slices.Equal(describeAll(after), describeAll(before)) {
			t.Fatalf("rule %d: the check changed something", i)
		}
		done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: rule}).ID)
		e.wantErased(t, before, rule, done)
		if n := int64(len(matches)); n != done.Entries+done.Prospects {
			t.Errorf("rule %d: the check found %d, and %d entries and %d prospects were erased", i, n, done.Entries, done.Prospects)
		}
	}
}

func personErasedDespiteKills(t *testing.T, e *env) {
	e.somebody(t, rand.New(rand.NewPCG(3, 4)), 60)
	before := copied(e.records(t))
	made := e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	for range 10 {
		if _, err := e.interrupted().RunErasures(t.Context()); err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatal(err)
		}
	}
	e.wantErased(t, before, personal(), e.finishErasure(t, made.ID))
}

func personErasedByNodes(t *testing.T, e *env) {
	e.somebody(t, rand.New(rand.NewPCG(5, 6)), 60)
	before := copied(e.records(t))
	made := e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	other := e.node()
	parallel(2, func(i int) { []*env{e, other}[i].finishErasure(t, made.ID) })
	e.wantErased(t, before, personal(), e.finishErasure(t, made.ID))
}

func personErasedInParts(t *testing.T, e *env) {
	a := e.manyMoves(t, 60, 30)
	for i := range 300 {
		e.record(t, atrium.Claim{Domain: fmt.Sprintf("d%d.example", i%70), Name: "moved"})
	}
	if n := e.entriesOf(t, a); n < 60 {
		t.Fatalf("%d entries", n)
	}
	measured, most := e.measured()
	done := measured.finishErasure(t, measured.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{MoveRule: atrium.MoveRule{ClaimedName: "Moved"}}}).ID)
	if done.Entries != 360 || most.rows > mostChanged {
		t.Errorf("%d entries were erased, at most %d rows at once", done.Entries, most.rows)
	}
	if n := e.rowsOf(t, "moved_entries"); n != 0 {
		t.Errorf("%d rows about moves are left", n)
	}
}

func personNotAudited(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	moved := func(rule atrium.MoveRule, given string) atrium.MoveID {
		rule.Given = []byte(given)
		report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{To: to, Rule: rule, Limit: 10})
		if err != nil || report.Move == nil {
			t.Fatalf("move: %+v, %v", report, err)
		}
		return report.Move.ID
	}
	e.record(t, byName("Secret"), payload(`{"to":"Jane.Doe@example.com"}`))
	byOther := moved(atrium.MoveRule{ClaimedName: "Secret"}, `{"claimedName":"Secret"}`)
	e.record(t, byName("Open"), payload(`{"to":"jane.doe@example.com","kept":true}`))
	byValue := moved(atrium.MoveRule{ClaimedName: "Open", Pointer: "/to", Equals: []byte(`"jane.doe@example.com"`)}, `{"claimedName":"Open","payload":{"pointer":"/to","equals":"jane.doe@example.com"}}`)
	e.record(t, byName("Bob"), payload(`{"to":"bob@example.com"}`))
	stays := moved(atrium.MoveRule{ClaimedName: "Bob"}, `{"claimedName":"Bob"}`)
	email := person
	p, _, err := e.CreateProspect(t.Context(), e.keyed("prospect", "it"), atrium.Prospect{Email: &email})
	if err != nil {
		t.Fatal(err)
	}
	e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID)
	for id, kept := range map[atrium.MoveID]bool{byOther: false, byValue: false, stays: true} {
		m, err := e.FindMove(t.Context(), e.tenant, id)
		if err != nil || (m.Rule != nil) != kept {
			t.Errorf("the rule is %s, %v, want it kept %v", m.Rule, err, kept)
		}
		if acts := e.auditLines(t, string(id)); len(acts) != 1 || strings.Contains(acts[0], "claimedName") != kept {
			t.Errorf("the audit log has %q", acts)
		}
	}
	if acts := e.auditLines(t, string(p.ID)); strings.Contains(strings.ToLower(strings.Join(acts, " ")), "jane") {
		t.Errorf("the audit log has %q", acts)
	}
	e.wantSound(t, nil)
}

func personRuleForgotten(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`))
	made, _, err := e.CreateErasure(t.Context(), e.keyed("erase", "it"), atrium.ErasureRequest{Rule: personal()})
	if err != nil {
		t.Fatal(err)
	}
	e.finishErasure(t, made.ID)
	for _, table := range []string{"erasure_jobs", "requests", "audit", "entries", "tombstones"} {
		column := map[string]string{"erasure_jobs": "rule", "requests": "result", "audit": "detail", "entries": "payload", "tombstones": "source"}[table]
		if err := e.db.Query(t.Context(), "SELECT "+column+" FROM "+table+" WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			if strings.Contains(strings.ToLower(r.Text(0)), "jane") {
				t.Errorf("%s has %s", table, r.Text(0))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	again, replayed, err := e.CreateErasure(t.Context(), e.keyed("erase", "it"), atrium.ErasureRequest{Rule: personal()})
	if err != nil || !replayed || again.ID != made.ID {
		t.Errorf("repeated: %+v, %v, %v", again, replayed, err)
	}
	list, more, err := e.Erasures(t.Context(), e.tenant, nil, 10)
	if err != nil || more || len(list) != 1 || list[0].ID != made.ID || list[0].Entries != 1 || list[0].CompletedAt == nil {
		t.Errorf("listed %+v, %v, %v", list, more, err)
	}
}

func personErasedFromAccount(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	for _, id := range []atrium.AccountID{a.ID, b.ID, c.ID} {
		e.record(t, byID(id), payload(`{"to":"jane.doe@example.com"}`))
		email := person
		p, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: &email})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.LinkProspect(t.Context(), e.change(), id, p.ID, func(atrium.LinkedProspect) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	before := e.entriesOf(t, c.ID)
	done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{AccountID: a.ID, Rule: personal()}).ID)
	if done.Entries != 2 || done.Prospects != 2 || done.AccountID != b.ID || e.entriesOf(t, c.ID) != before {
		t.Errorf("erased %+v, the other account has %d entries, want %d", done, e.entriesOf(t, c.ID), before)
	}
}

func personChecked(t *testing.T, e *env) {
	account := e.newAccount("a.example", "")
	e.put(t, account)
	var all []store.Record
	for range 30 {
		entry := e.newEntry(account, "")
		entry.Payload = []byte(`{"to":"jane.doe@example.com","large":"` + strings.Repeat("x", 500_000) + `"}`)
		all = append(all, entry)
	}
	for _, r := range all {
		e.put(t, r)
	}
	pages, seen := 0, map[atrium.EntryID]bool{}
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		page, next, err := e.CheckErasure(t.Context(), e.tenant, atrium.ErasureRequest{Rule: personal()}, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			if seen[m.EntryID] || m.AccountID != account.ID || m.Source == "" {
				t.Errorf("found %+v, seen %v", m, seen[m.EntryID])
			}
			seen[m.EntryID] = true
		}
		pages, after = pages+1, next
	}
	if len(seen) != 30 || pages < 4 {
		t.Errorf("%d entries on %d pages", len(seen), pages)
	}
	measured, most := e.measured()
	if done := measured.finishErasure(t, measured.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID); done.Entries != 30 || most.rows > 20 {
		t.Errorf("erased %d, %d rows at once", done.Entries, most.rows)
	}
}

func personRefused(t *testing.T, e *env) {
	e = e.fresh(t) // each erasure reads the whole file of an embedded database
	unknown := atrium.ErasureRequest{AccountID: atrium.NewID[atrium.AccountID](), Rule: personal()}
	_, _, err := e.CreateErasure(t.Context(), e.change(), unknown)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = e.CheckErasure(t.Context(), e.tenant, unknown, nil, 10)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = e.as(e.newTenant(t)).FindErasure(t.Context(), e.tenant, atrium.NewID[atrium.ErasureID]())
	wantCode(t, err, atrium.CodeNotFound)
	var last atrium.Erasure
	for range atrium.MaxErasures {
		last = e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	}
	_, err = e.as(e.newTenant(t)).FindErasure(t.Context(), e.as(e.newTenant(t)).tenant, last.ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = e.CreateErasure(t.Context(), e.change(), atrium.ErasureRequest{Rule: personal()})
	wantCode(t, err, atrium.CodeConflict)
	e.finishErasure(t, last.ID)
	e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
}

func personsInTurn(t *testing.T, e *env) {
	large, small := e, e.as(e.newTenant(t))
	account := e.newAccount("a.example", "")
	large.put(t, account)
	for range 8 {
		var chunk []store.Record
		for range 500 {
			entry := e.newEntry(account, "")
			entry.Payload = []byte(`{"to":"jane.doe@example.com"}`)
			chunk = append(chunk, entry)
		}
		large.put(t, chunk...)
	}
	small.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`))
	first := large.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}})
	second := small.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}})
	for range 100 {
		if _, err := e.interrupted().RunErasures(t.Context()); err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatal(err)
		}
		now, err := small.FindErasure(t.Context(), small.tenant, second.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Entries == 1 {
			break
		}
	}
	if done := large.finishErasure(t, first.ID); done.Entries != 4000 {
		t.Errorf("erased %d", done.Entries)
	}
	small.finishErasure(t, second.ID)
}
