package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var persons = []guarantee{
	{"an erasure by rule erases what a simple comparison selects, and nothing else", personErased},
	{"a killed erasure continues where it was, and ends the same", personErasedDespiteKills},
	{concurrent + "two nodes can work on an erasure", personErasedByNodes},
	{"an erasure deletes at most 1,010 rows in a transaction", personErasedInParts},
	{"an erasure deletes at most 2 MiB of rules in a transaction", personRulesErasedInParts},
	{"an erasure with a condition of a newer release erases nothing", personOfNewerRelease},
	{"the rules of moves and the audit details of an erased person are deleted", personNotAudited},
	{"an erasure deletes other rules of moves that contain its domain or number in any spelling", personInOtherRules},
	{"the rule of an erasure is gone when it is complete", personRuleForgotten},
	{"an erasure of one account leaves others alone, and is checked the same", personErasedFromAccount},
	{"an erasure of an account that is merged while it runs is of all accounts of the group", personErasedWhileMerged},
	{"an erasure of an account that is erased while it runs completes and deletes nothing", personErasedWithAccount},
	{"a prospect that no longer matches when its turn comes is not erased", prospectNoLongerMatches},
	{"an entry that was moved before it could be deleted is erased exactly if it still matches", entryMovedBeforeErased},
	{"the page of a check is bounded, and all pages have everything once", personChecked},
	{"an erasure of a missing account is NotFound, and one more than may wait is a Conflict", personRefused},
	{"erasures of several tenants take turns", personsInTurn},
	{"erasures that are ready share a purge, and one that waits for it delays no other", personsPurgedTogether},
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

// checkErasure returns what an erasure would erase.
func (e *env) checkErasure(t tb, request atrium.ErasureRequest) (matches []atrium.Match) {
	t.Helper()
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		page, next, err := e.CheckErasure(t.Context(), e.tenant, request, after, 7)
		if err != nil {
			t.Fatalf("check an erasure: %v", err)
		}
		matches, after = append(matches, page...), next
	}
	return matches
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
		{TextContains: "Jane.DOE@"},
		{TextContains: "mail jane", MoveRule: atrium.MoveRule{ClaimedName: "jane"}},
		{TextContains: "nobody"},
		{EntryIDs: []atrium.EntryID{atrium.NewID[atrium.EntryID]()}}, // the test adds stored ones below
	} {
		e := e.as(e.newTenant(t))
		e.somebody(t, rng, 40)
		before := copied(e.records(t))
		if rule.EntryIDs != nil {
			for j, r := range before {
				if entry, ok := r.(*atrium.Entry); ok && j%2 == 0 {
					rule.EntryIDs = append(rule.EntryIDs, entry.ID, entry.ID)
				}
			}
		}
		matches := e.checkErasure(t, atrium.ErasureRequest{Rule: rule})
		for _, m := range matches {
			if m.ProspectID == "" {
				continue
			}
			if p, err := e.Prospect(t.Context(), e.tenant, m.ProspectID); err != nil || !reflect.DeepEqual([]*string{m.Name, m.Email}, []*string{p.Name, p.Email}) {
				t.Errorf("the check shows %+v of the prospect %+v: %v", m, p, err)
			}
		}
		if after := copied(e.records(t)); !slices.Equal(describeAll(after), describeAll(before)) {
			t.Fatalf("rule %d: the check changed something", i)
		}
		done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: rule}).ID)
		e.wantErased(t, before, rule, done)
		if rule.EntryIDs != nil && done.Entries < 8 {
			t.Errorf("rule %d: %d entries were erased", i, done.Entries)
		}
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
	parallel(t, 2, func(i int) { []*env{e, other}[i].finishErasure(t, made.ID) })
	e.wantErased(t, before, personal(), e.finishErasure(t, made.ID))
}

func personErasedInParts(t *testing.T, e *env) {
	a := e.manyMoves(t, 60, 30, `{}`)
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

func personRulesErasedInParts(t *testing.T, e *env) {
	const moves = 7
	e.manyMoves(t, 2, moves, fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 900<<10)))
	most, before := 0, moves
	hooked := e.hooked(func(int) error {
		n := 0
		if err := e.db.Query(t.Context(), "SELECT COUNT(rule) FROM moves WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			n = int(r.Int(0))
			return nil
		}); err != nil {
			t.Error(err)
		}
		most, before = max(most, before-n), n
		return nil
	})
	request := atrium.ErasureRequest{Rule: atrium.ErasureRule{MoveRule: atrium.MoveRule{ClaimedName: "Moved"}}}
	if done := hooked.finishErasure(t, hooked.startErasure(t, request).ID); done.Entries != 2 {
		t.Errorf("%d entries were erased", done.Entries)
	}
	if most > 2 || before > 0 {
		t.Errorf("a transaction deleted %d rules of 900 KiB, and %d are left", most, before)
	}
}

func personOfNewerRelease(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`))
	made := e.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}})
	store := func(rule string) {
		t.Helper()
		e.sql(t, "UPDATE erasure_jobs SET rule = $1 WHERE tenant_id = $2", []byte(rule), storedID(e.tenant))
	}
	store(`{"Text":"jane.doe@example.com","Newer":"x"}`)
	if more, err := e.RunErasures(t.Context()); err == nil || more {
		t.Errorf("the job reports %t, %v", more, err)
	}
	if found, err := e.FindErasure(t.Context(), e.tenant, made.ID); err != nil || found.Entries > 0 || found.CompletedAt != nil {
		t.Errorf("the erasure is %+v, %v", found, err)
	}
	store(`{"Text":"jane.doe@example.com"}`)
	if done := e.finishErasure(t, made.ID); done.Entries != 1 {
		t.Errorf("%d entries were erased", done.Entries)
	}
}

func personNotAudited(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	moved := func(rule atrium.MoveRule, given string) atrium.MoveID { return e.movedByRule(t, "", to, rule, given) }
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
	e.wantRules(t, map[atrium.MoveID]bool{byOther: false, byValue: false, stays: true})
	if acts := e.auditLines(t, string(p.ID)); strings.Contains(strings.ToLower(strings.Join(acts, " ")), "jane") {
		t.Errorf("the audit log has %q", acts)
	}
	e.wantSound(t, nil)
}

// movedByRule moves entries from an account, "" for the unattributed one.
func (e *env) movedByRule(t tb, from, to atrium.AccountID, rule atrium.MoveRule, given string) atrium.MoveID {
	t.Helper()
	rule.Given = []byte(given)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: from, To: to, Rule: rule, Limit: 10})
	if err != nil || report.Move == nil {
		t.Fatalf("move: %+v, %v", report, err)
	}
	return report.Move.ID
}

// wantRules fails the test unless exactly some moves have kept their rules and the audit details of them.
func (e *env) wantRules(t tb, kept map[atrium.MoveID]bool) {
	t.Helper()
	for id, kept := range kept {
		m, err := e.FindMove(t.Context(), e.tenant, id)
		if err != nil || (m.Rule != nil) != kept {
			t.Errorf("the rule is %s, %v, want it kept %v", m.Rule, err, kept)
		}
		if acts := e.auditLines(t, string(id)); len(acts) != 1 || strings.Contains(acts[0], "rule") != kept {
			t.Errorf("the audit log has %q, want details %v", acts, kept)
		}
	}
}

func personInOtherRules(t *testing.T, e *env) {
	from, to := e.record(t, byDomain("jane.example"), payload(`{"id":4711,"vip":true}`)).AccountID, e.record(t, byDomain("to.example")).AccountID
	moved := func(domain string, given string) atrium.MoveID {
		return e.movedByRule(t, e.record(t, byDomain(domain)).AccountID, to, atrium.MoveRule{ClaimedDomain: domain}, given)
	}
	kept := map[atrium.MoveID]bool{
		moved("a.example", `{"claimedDomain":"https://WWW.Jane.example/"}`):                            false,
		moved("b.example", `{"payload":{"pointer":"/customer","equals":4.711e3}}`):                     false,
		moved("c.example", `{"claimedDomain":"jane.example.org"}`):                                     true,
		moved("d.example", `{"payload":{"pointer":"/id","equals":471}}`):                               true,
		moved("e.example", `{"payload":{"pointer":"/id","equals":"4.711e3"}}`):                         true,
		moved("f.example", `{"claimedDomain":"f.example","payload":{"pointer":"/vip","equals":true}}`): true,
	}
	var last atrium.Erasure
	for _, rule := range []atrium.MoveRule{
		{ClaimedDomain: "jane.example"}, {Pointer: "/id", Equals: []byte("4711")}, {Pointer: "/vip", Equals: []byte("true")},
	} {
		last = e.startErasure(t, atrium.ErasureRequest{AccountID: from, Rule: atrium.ErasureRule{MoveRule: rule}})
	}
	e.finishErasure(t, last.ID)
	e.wantRules(t, kept)
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
	unknown.Rule = atrium.ErasureRule{ProspectEmail: "ann@example.com"} // of prospects only
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
