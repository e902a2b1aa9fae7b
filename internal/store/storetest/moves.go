package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

var moves = []guarantee{
	{"a moved entry is in the other account, and both know their newest activity", entryMoved},
	{"a replay answers what was acknowledged, wherever the entry is", replayAfterMove},
	{"what was undone is as if it had never been moved", moveUndone},
	{"a move that cannot be made changes nothing", moveRefused},
	{"a rule takes the entries of which all holds that it says", ruleMatches},
	{"a rule looks into payloads a batch at a time", ruleOnPayloads},
	{"a rule's moves go on where the last one ended, and check moves nothing", rulePages},
	{"undoing leaves what was moved again", undoSkips},
	{"a move reads what was merged, and stores under what survives", moveOfMerged},
	{"a move with its key is made once", moveOnce},
	{"moves are listed, the last one first", movesListed},
	{"the audit log has no payload", moveAudited},
	{"another tenant's moves are not there", moveOfAnother},
	{"entries that come while others are moved are not lost", moveAndAppend},
	{"an entry that many move at once is in one account", movesTogether},
}

// move moves an entry, which must be possible.
func (e *env) move(t tb, id atrium.EntryID, to atrium.AccountID) atrium.Move {
	t.Helper()
	m, _, err := e.MoveEntry(t.Context(), e.change(), id, to, agree)
	if err != nil {
		t.Fatalf("move an entry: %v", err)
	}
	return m
}

func (e *env) undo(t tb, id atrium.MoveID) atrium.UndoReport {
	t.Helper()
	r, _, err := e.UndoMove(t.Context(), e.change(), id, agree)
	if err != nil {
		t.Fatalf("undo a move: %v", err)
	}
	return r
}

func (e *env) entry(t tb, id atrium.EntryID) atrium.TimelineEntry {
	t.Helper()
	entry, err := e.TimelineEntry(t.Context(), e.tenant, id)
	if err != nil {
		t.Fatalf("read an entry: %v", err)
	}
	return entry
}

// wantActivity holds that the newest activity of accounts is that of their entries,
// and so is the minute that they are listed by.
func (e *env) wantActivity(t tb, accounts ...atrium.AccountID) {
	t.Helper()
	for _, id := range accounts {
		var want *atrium.Time
		if all := e.pages(t, id, atrium.TimelineFilter{}, 1); len(all) > 0 {
			want = &all[0].CreatedAt
		}
		got := e.account(t, id).LatestActivityAt
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("the newest activity of %s is %v, want %v", id, got, want)
		}
		minute, wanted := int64(0), int64(-2_000_000_000)
		if want != nil {
			wanted = int64(*want) / 60_000_000
		}
		if err := e.db.Query(t.Context(), "SELECT active_minute FROM accounts WHERE tenant_id = $1 AND account_id = $2",
			engine.Args{storedID(e.tenant), storedID(id)}, func(r engine.Row) error {
				minute = r.Int(0)
				return nil
			}); err != nil || minute != wanted {
			t.Errorf("%s is listed by the minute %d, want %d, %v", id, minute, wanted, err)
		}
	}
}

func entryMoved(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example"))
	e.clock.step(time.Hour)
	second := e.record(t, byDomain("a.example"), payload(`{"n":2}`))
	before := e.account(t, a.AccountID)
	e.clock.step(time.Hour)
	m := e.move(t, second.EntryID, b.AccountID)
	if m.From != a.AccountID || m.To != b.AccountID || m.Moved != 1 || m.CreatedAt != e.clock.shows() || m.UndoneAt != nil || m.Rule != nil {
		t.Errorf("the move is %+v", m)
	}
	got := e.entry(t, second.EntryID)
	if got.AccountID != b.AccountID || got.AcknowledgedID != a.AccountID || got.MoveID != m.ID || string(got.Payload) != `{"n":2}` {
		t.Errorf("the entry is %+v", got)
	}
	e.wantActivity(t, a.AccountID, b.AccountID)
	if after := e.account(t, a.AccountID); *after.LatestActivityAt != a.CreatedAt || after.UpdatedAt != before.UpdatedAt {
		t.Errorf("the account was %+v and is %+v", before, after)
	}
	e.move(t, a.EntryID, b.AccountID)
	if after := e.account(t, a.AccountID); after.LatestActivityAt != nil {
		t.Errorf("an account without entries has its newest activity at %s", after.LatestActivityAt)
	}
	if got := idsOf(e.pages(t, b.AccountID, atrium.TimelineFilter{}, 10)); !slices.Equal(got, []atrium.EntryID{second.EntryID, b.EntryID, a.EntryID}) {
		t.Errorf("the timeline is %v", got)
	}
	e.wantActivity(t, a.AccountID, b.AccountID)
	if back := e.move(t, second.EntryID, a.AccountID); e.entry(t, second.EntryID).AcknowledgedID != "" || back.From != b.AccountID {
		t.Errorf("moved back by %+v, it is %+v", back, e.entry(t, second.EntryID))
	}
	e.wantActivity(t, a.AccountID, b.AccountID)
}

func replayAfterMove(t *testing.T, e *env) {
	first := e.record(t, byDomain("a.example"), key("k"))
	b, c := e.record(t, byDomain("b.example")).AccountID, e.record(t, byDomain("c.example")).AccountID
	e.clock.step(time.Hour)
	for _, to := range []atrium.AccountID{b, c, first.AccountID} {
		e.move(t, first.EntryID, to)
		wantReplay(t, e.record(t, byDomain("a.example"), key("k")), first)
		e.wantActivity(t, first.AccountID, b, c)
	}
	e.move(t, first.EntryID, b)
	e.merged(t, b, c)
	wantReplay(t, e.record(t, byDomain("a.example"), key("k")), first)
	if got := e.entry(t, first.EntryID); got.AccountID != c || got.AcknowledgedID != first.AccountID {
		t.Errorf("moved and merged, the entry is %+v", got)
	}
}

// state is all that there is to see of a tenant's accounts and entries.
func (e *env) state(t tb) []string {
	t.Helper()
	all := describeAll(e.records(t))
	for _, a := range e.accounts(t) {
		all = append(all, fmt.Sprint(a.ID, a.LatestActivityAt))
		for _, entry := range e.pages(t, a.ID, atrium.TimelineFilter{}, 50) {
			all = append(all, fmt.Sprintf("%s %s %s %q", a.ID, entry.ID, entry.MoveID, entry.AcknowledgedID))
		}
	}
	return all
}

func moveUndone(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example"), key("a")), e.record(t, byDomain("b.example"))
	for i := range 5 {
		e.clock.step(time.Second)
		e.record(t, byName("Acme"), payload(fmt.Sprintf(`{"n":%d}`, i)))
	}
	before := e.state(t)
	e.clock.step(time.Hour)
	one := e.move(t, a.EntryID, b.AccountID)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{
		To: a.AccountID, Rule: atrium.MoveRule{ClaimedName: "acme", Given: []byte(`{"claimedName":"acme"}`)}, Limit: 100,
	})
	if err != nil || report.Moved != 5 || report.Next != nil || slices.Equal(e.state(t), before) {
		t.Fatalf("moved %+v, %v", report, err)
	}
	again := e.move(t, a.EntryID, a.AccountID)
	e.clock.step(time.Hour)
	for _, m := range []atrium.Move{again, *report.Move, one} {
		if r := e.undo(t, m.ID); r.Restored != m.Moved || r.Skipped != 0 || r.Move.UndoneAt == nil || *r.Move.UndoneAt != e.clock.shows() {
			t.Errorf("undone: %+v", r)
		}
		got, err := e.FindMove(t.Context(), e.tenant, m.ID)
		if m.UndoneAt = pointer(e.clock.shows()); err != nil || describeMove(got) != describeMove(m) {
			t.Errorf("the move is %s, %v, want %s", describeMove(got), err, describeMove(m))
		}
	}
	if after := e.state(t); !slices.Equal(after, before) {
		t.Errorf("the tenant has\n%q\nwant\n%q", after, before)
	}
}

func describeMove(m atrium.Move) string {
	b, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func moveRefused(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example"))
	before := e.state(t)
	_, _, err := e.MoveEntry(t.Context(), e.change(), a.EntryID, a.AccountID, agree)
	wantCode(t, err, atrium.CodeConflict)
	_, _, err = e.MoveEntry(t.Context(), e.change(), a.EntryID, atrium.NewID[atrium.AccountID](), agree)
	wantCode(t, err, atrium.CodeNotFound)
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	if _, _, err = e.MoveEntry(t.Context(), e.change(), a.EntryID, b.AccountID, func(got atrium.TimelineEntry) error {
		if got.ID != a.EntryID || got.Payload == nil {
			t.Errorf("asked about %+v", got)
		}
		return no
	}); !errors.Is(err, no) {
		t.Errorf("refused: %v", err)
	}
	rule := atrium.MoveRule{ClaimedDomain: "a.example"}
	for _, request := range []atrium.MoveRequest{{From: a.AccountID, To: a.AccountID}, {From: a.AccountID}, {From: atrium.NewID[atrium.AccountID](), To: a.AccountID}} {
		code := atrium.CodeNotFound
		if request.From == request.To {
			code = atrium.CodeConflict
		}
		if request.To == "" {
			request.To = atrium.NewID[atrium.AccountID]()
		}
		request.Rule, request.Limit = rule, 10
		_, _, err = e.Move(t.Context(), e.change(), request)
		wantCode(t, err, code)
		_, err = e.CheckMove(t.Context(), e.tenant, request)
		wantCode(t, err, code)
	}
	nothing, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{To: a.AccountID, Rule: rule, Limit: 10}) // nothing is unattributed
	if err != nil || nothing.Move != nil || nothing.Moved != 0 || nothing.Next != nil {
		t.Errorf("nothing was moved by %+v, %v", nothing, err)
	}
	nothing, _, err = e.Move(t.Context(), e.change(), atrium.MoveRequest{From: a.AccountID, To: b.AccountID, Rule: atrium.MoveRule{ClaimedName: "x"}, Limit: 10})
	if err != nil || nothing.Move != nil || nothing.Moved != 0 || nothing.Next != nil {
		t.Errorf("nothing was moved by %+v, %v", nothing, err)
	}
	if after := e.state(t); !slices.Equal(after, before) {
		t.Errorf("the tenant has\n%q\nwant\n%q", after, before)
	}
	if all, _, err := e.Moves(t.Context(), e.tenant, nil, 10); err != nil || len(all) > 0 || e.audited(t) != "" {
		t.Errorf("there are moves %+v, %v, and audited %s", all, err, e.audited(t))
	}
}

// audited returns all that the audit log says of the tenant.
func (e *env) audited(t tb) string {
	t.Helper()
	var b strings.Builder
	if err := e.db.Query(t.Context(), "SELECT action, subject, detail FROM audit WHERE tenant_id = $1 ORDER BY number", engine.Args{storedID(e.tenant)},
		func(r engine.Row) error {
			fmt.Fprintf(&b, "%s %s %s\n", r.Text(0), r.Text(1), r.Bytes(2))
			return nil
		}); err != nil {
		t.Fatalf("read the audit log: %v", err)
	}
	return b.String()
}

func ruleMatches(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	from := e.record(t, byDomain("from.example")).AccountID
	entries := map[string]atrium.EntryID{}
	for name, sent := range map[string]struct {
		claim   atrium.Claim
		payload string
	}{
		"bare":   {atrium.Claim{AccountID: from}, `{"a":{"b":1.0}}`},
		"name":   {atrium.Claim{AccountID: from, Name: "STRASSE"}, `{"a":{"b":"1"}}`},
		"domain": {atrium.Claim{AccountID: from, Domain: "https://WWW.Acme.example/x"}, `{"a":{"b":[1]}}`},
		"both":   {atrium.Claim{AccountID: from, Name: "straße", Domain: "acme.example"}, ` { "a" : { "b" : 10e-1 } } `},
		"other":  {atrium.Claim{AccountID: from, Name: "Strasse ", Domain: "sub.acme.example"}, `{"a":{"b":null}}`},
		"none":   {atrium.Claim{AccountID: from, Name: "x"}, `{"a":{"B":1},"b":true}`},
	} {
		e.clock.step(time.Second)
		entries[name] = e.record(t, sent.claim, payload(sent.payload)).EntryID
	}
	at := func(pointer, equals string) atrium.MoveRule {
		return atrium.MoveRule{Pointer: pointer, Equals: []byte(equals)}
	}
	for _, c := range []struct {
		rule atrium.MoveRule
		want []string
	}{
		{atrium.MoveRule{ClaimedName: "Straße"}, []string{"name", "both"}},
		{atrium.MoveRule{ClaimedDomain: "acme.example."}, []string{"domain", "both"}},
		{atrium.MoveRule{ClaimedName: "strasse", ClaimedDomain: "acme.example"}, []string{"both"}},
		{at("/a/b", "1"), []string{"bare", "both"}},
		{at("/a/b", "1.00"), []string{"bare", "both"}},
		{at("/a/b", `"1"`), []string{"name"}},
		{at("/a/b", "null"), []string{"other"}},
		{at("/b", "true"), []string{"none"}},
		{at("/a/b/0", "1"), []string{"domain"}},
		{at("/a/b", "2"), nil},
		{at("/a", "1"), nil},
		{atrium.MoveRule{ClaimedName: "STRASSE", Pointer: "/a/b", Equals: []byte("1")}, []string{"both"}},
		{atrium.MoveRule{ClaimedName: "Nobody"}, nil},
	} {
		var want []atrium.EntryID
		for _, name := range c.want {
			want = append(want, entries[name])
		}
		slices.Sort(want)
		request := atrium.MoveRequest{From: from, To: to, Rule: c.rule, Limit: 100}
		checked, err := e.CheckMove(t.Context(), e.tenant, request)
		if err != nil || checked.Moved != int64(len(want)) || checked.Move != nil || checked.Next != nil {
			t.Errorf("%+v: checked as %+v, %v", c.rule, checked, err)
		}
		report, _, err := e.Move(t.Context(), e.change(), request)
		if err != nil || report.Moved != int64(len(want)) || report.Next != nil {
			t.Errorf("%+v: %+v, %v", c.rule, report, err)
			continue
		}
		var got []atrium.EntryID
		for _, entry := range e.pages(t, to, atrium.TimelineFilter{}, 50) {
			if entry.MoveID != "" {
				got = append(got, entry.ID)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%+v took %v, want %v", c.rule, got, want)
		}
		e.wantActivity(t, from, to)
		if report.Move != nil {
			e.undo(t, report.Move.ID)
		}
	}
}

// Payloads of 2 MiB are read one at a time or two, and 64 MiB are the most that one
// call reads; so many are not made here, but all ways to end a batch are.
func ruleOnPayloads(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	var from atrium.AccountID
	text := strings.Repeat("x", 2<<20)
	for i := range 6 {
		e.clock.step(time.Second)
		from = e.record(t, byDomain("from.example"), payload(fmt.Sprintf(`{"n":%d,"text":"%s"}`, i/2%2, text[:len(text)/(i%2+1)]))).AccountID
	}
	for limit, want := range map[int][]int64{1: {1, 1, 1, 1}, 2: {2, 2}, 3: {3, 1}, 9: {4}} {
		request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{Pointer: "/n", Equals: []byte("0")}, Limit: limit}
		var got []int64
		for {
			report, err := e.CheckMove(t.Context(), e.tenant, request)
			if err != nil {
				t.Fatal(err)
			}
			if report.Moved > 0 {
				got = append(got, report.Moved)
			}
			if request.After = report.Next; report.Next == nil {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time: %v, want %v", limit, got, want)
		}
	}
}

func rulePages(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	var drafts []*atrium.Draft
	for i := range 25 {
		drafts = append(drafts, e.draft(t, byName([]string{"Acme", "Bolt"}[i%5/4]))) // each fifth is another's
	}
	all := recorded(t, e.append(t, drafts...))
	before := e.state(t)
	request := atrium.MoveRequest{To: to, Rule: atrium.MoveRule{ClaimedName: "ACME", Given: []byte(`{}`)}, Limit: 8}
	for _, move := range []bool{false, true} {
		request.After = nil
		var counts []int64
		for {
			var report atrium.MoveReport
			var err error
			if move {
				report, _, err = e.Move(t.Context(), e.change(), request)
			} else {
				report, err = e.CheckMove(t.Context(), e.tenant, request)
			}
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, report.Moved)
			if request.After = report.Next; report.Next == nil {
				break
			}
		}
		if !slices.Equal(counts, []int64{8, 8, 4}) {
			t.Errorf("moved %v by %v", counts, move)
		}
		if same := slices.Equal(e.state(t), before); same == move {
			t.Errorf("after move %v the state is the same: %v", move, same)
		}
	}
	left := e.pages(t, all[0].AccountID, atrium.TimelineFilter{}, 50)
	if len(left) != 5 || len(e.pages(t, to, atrium.TimelineFilter{}, 50)) != 21 {
		t.Errorf("%d entries are left", len(left))
	}
}

func undoSkips(t *testing.T, e *env) {
	a := e.recordMany(t, 4, byDomain("a.example"))
	b, c := e.record(t, byDomain("b.example")).AccountID, e.record(t, byDomain("c.example")).AccountID
	from := a[0].AccountID
	e.clock.step(time.Hour)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: from, To: b, Rule: atrium.MoveRule{ClaimedDomain: "a.example"}, Limit: 10})
	if err != nil || report.Moved != 4 {
		t.Fatalf("%+v, %v", report, err)
	}
	second := e.move(t, a[0].EntryID, c)
	if r := e.undo(t, report.Move.ID); r.Restored != 3 || r.Skipped != 1 {
		t.Errorf("undone: %+v", r)
	}
	if got := e.entry(t, a[0].EntryID); got.AccountID != c || got.MoveID != second.ID {
		t.Errorf("what was moved again is %+v", got)
	}
	e.wantActivity(t, from, b, c)
	_, _, err = e.UndoMove(t.Context(), e.change(), report.Move.ID, agree)
	wantCode(t, err, atrium.CodeConflict)
	_, _, err = e.UndoMove(t.Context(), e.change(), atrium.NewID[atrium.MoveID](), agree)
	wantCode(t, err, atrium.CodeNotFound)
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	if _, _, err = e.UndoMove(t.Context(), e.change(), second.ID, func(atrium.Move) error { return no }); !errors.Is(err, no) {
		t.Errorf("refused: %v", err)
	}
	if r := e.undo(t, second.ID); r.Restored != 1 || r.Skipped != 0 {
		t.Errorf("undone: %+v", r)
	}
	if got := e.entry(t, a[0].EntryID); got.AccountID != b || got.MoveID != report.Move.ID {
		t.Errorf("it went back to %+v", got)
	}

	gone := e.move(t, a[1].EntryID, c)
	if _, err := e.EraseAccount(t.Context(), e.change(), from, agree); err != nil {
		t.Fatalf("erase: %v", err)
	}
	if r := e.undo(t, gone.ID); r.Restored != 0 || r.Skipped != 1 {
		t.Errorf("undone into an account that is gone: %+v", r)
	}
}

func moveOfMerged(t *testing.T, e *env) {
	a := e.recordMany(t, 2, byDomain("a.example"))
	b, c, d := e.record(t, byDomain("b.example")), e.record(t, byDomain("c.example")), e.record(t, byDomain("d.example"))
	e.clock.step(time.Hour)
	late := e.record(t, byDomain("a.example"))
	e.merged(t, a[0].AccountID, b.AccountID)
	e.merged(t, c.AccountID, d.AccountID)
	_, _, err := e.MoveEntry(t.Context(), e.change(), a[0].EntryID, b.AccountID, agree)
	wantCode(t, err, atrium.CodeConflict)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{
		From: a[0].AccountID, To: c.AccountID, Rule: atrium.MoveRule{ClaimedDomain: "a.example"}, Limit: 10,
	})
	if err != nil || report.Moved != 3 || report.Move.From != b.AccountID || report.Move.To != d.AccountID {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := e.entry(t, late.EntryID); got.AccountID != d.AccountID || got.AcknowledgedID != a[0].AccountID {
		t.Errorf("it is %+v", got)
	}
	e.wantActivity(t, b.AccountID, d.AccountID)
	for _, entry := range e.entries(t) {
		if entry.ID == late.EntryID && entry.AccountID != d.AccountID {
			t.Errorf("it is kept under %s, want %s", entry.AccountID, d.AccountID)
		}
	}
	e.undo(t, report.Move.ID)
	e.wantActivity(t, b.AccountID, d.AccountID)
	for _, entry := range e.entries(t) {
		if entry.ID == late.EntryID && (entry.AccountID != a[0].AccountID || entry.AcknowledgedID != "") {
			t.Errorf("it went back to %+v", entry)
		}
	}
}

func moveOnce(t *testing.T, e *env) {
	r, to := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example")).AccountID
	results, first := make([]atrium.Move, 2*writers), 0
	replays := make([]bool, 2*writers)
	e.both(func(e *env, i int) {
		var err error
		if results[i], replays[i], err = e.MoveEntry(t.Context(), e.keyed("once", "a"), r.EntryID, to, agree); err != nil {
			t.Error(err)
		}
	})
	for i := range results {
		if !replays[i] {
			first++
		}
		if describeMove(results[i]) != describeMove(results[0]) {
			t.Errorf("got %+v and %+v", results[i], results[0])
		}
	}
	if all, _, err := e.Moves(t.Context(), e.tenant, nil, 10); err != nil || len(all) != 1 || first != 1 {
		t.Errorf("%d moves were made by %d, %v", len(all), first, err)
	}

	unnamed := e.recordMany(t, 3, byName("Nobody"))
	request := atrium.MoveRequest{To: to, Rule: atrium.MoveRule{ClaimedName: "nobody", Given: []byte(`{"claimedName":"nobody"}`)}, Limit: 2}
	one, replayed, err := e.Move(t.Context(), e.keyed("rule", "a"), request)
	if err != nil || replayed || one.Moved != 2 || one.Next == nil {
		t.Fatalf("%+v, %v, %v", one, replayed, err)
	}
	two, replayed, err := e.Move(t.Context(), e.keyed("rule", "a"), request)
	if err != nil || !replayed || describeMove(*two.Move) != describeMove(*one.Move) || two.Moved != 2 || *two.Next != *one.Next {
		t.Errorf("replayed as %+v, %v, %v", two, replayed, err)
	}
	if left := e.pages(t, unnamed[0].AccountID, atrium.TimelineFilter{}, 10); len(left) != 1 {
		t.Errorf("%d entries are left", len(left))
	}
	undone, _, err := e.UndoMove(t.Context(), e.keyed("undo", "a"), one.Move.ID, agree)
	again, replayed, err2 := e.UndoMove(t.Context(), e.keyed("undo", "a"), one.Move.ID, agree)
	if err != nil || err2 != nil || !replayed || describeMove(undone.Move) != describeMove(again.Move) || again.Restored != 2 {
		t.Errorf("undone: %+v, %v, and again %+v, %v", undone, err, again, err2)
	}
}

func movesListed(t *testing.T, e *env) {
	r, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example")).AccountID
	var want []string
	for i := range 6 {
		e.clock.step(time.Second)
		m := e.move(t, r.EntryID, []atrium.AccountID{b, r.AccountID}[i%2])
		want = append(want, describeMove(m))
	}
	slices.Reverse(want)
	for limit := 1; limit <= 7; limit++ {
		var got []string
		var after *atrium.Position
		for more := true; more; {
			var part []atrium.Move
			var err error
			if part, more, err = e.Moves(t.Context(), e.tenant, after, limit); err != nil {
				t.Fatal(err)
			}
			for _, m := range part {
				got, after = append(got, describeMove(m)), atrium.PositionAt(m.CreatedAt, m.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
	}
}

func moveAudited(t *testing.T, e *env) {
	a, b := e.recordMany(t, 2, byDomain("a.example"), payload(`{"secret":"hunter2"}`)), e.record(t, byDomain("b.example")).AccountID
	one := e.move(t, a[0].EntryID, b)
	given := []byte(`{"payload":{"pointer":"/secret","equals":"hunter2"}}`)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{
		From: a[0].AccountID, To: b, Rule: atrium.MoveRule{Pointer: "/secret", Equals: []byte(`"hunter2"`), Given: given}, Limit: 10,
	})
	if err != nil || report.Moved != 1 || !bytes.Equal(report.Move.Rule, given) {
		t.Fatalf("%+v, %v", report, err)
	}
	e.undo(t, one.ID)
	log := e.audited(t)
	for _, part := range []string{
		"account_log.move " + string(a[0].EntryID), "move.create " + string(report.Move.ID), "move.undo " + string(one.ID), string(a[0].AccountID), string(b),
		`"pointer":"/secret"`, fmt.Sprintf(`"equalsSha256":"%x"`, sha256.Sum256([]byte(`"hunter2"`))),
	} {
		if !strings.Contains(log, part) {
			t.Errorf("the audit log has no %s:\n%s", part, log)
		}
	}
	if strings.Contains(log, "hunter2") || strings.Count(log, "\n") != 3 {
		t.Errorf("the audit log is\n%s", log)
	}
}

func moveOfAnother(t *testing.T, e *env) {
	m := e.move(t, e.record(t, byDomain("a.example")).EntryID, e.record(t, byDomain("b.example")).AccountID)
	other := e.as(e.newTenant(t))
	_, err := other.FindMove(t.Context(), other.tenant, m.ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = other.UndoMove(t.Context(), other.change(), m.ID, agree)
	wantCode(t, err, atrium.CodeNotFound)
	if all, _, err := other.Moves(t.Context(), other.tenant, nil, 10); err != nil || len(all) > 0 {
		t.Errorf("list: %v, %v", all, err)
	}
}

func moveAndAppend(t *testing.T, e *env) {
	const rounds = 6
	a, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example"))
	e.both(func(e *env, i int) {
		for range rounds {
			switch i % 4 {
			case 0:
				e.clock.step(time.Millisecond)
				e.record(t, byID(a.AccountID))
			case 1:
				e.record(t, byDomain("b.example"))
			default:
				from, to := a.AccountID, b.AccountID
				if i%4 == 3 {
					from, to = to, from
				}
				if all, _, err := e.Timeline(t.Context(), e.tenant, from, atrium.TimelineFilter{}, nil, 1, false); err == nil && len(all) > 0 {
					if _, _, err := e.MoveEntry(t.Context(), e.change(), all[0].ID, to, agree); err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
						t.Errorf("move: %v", err)
					}
				}
			}
		}
	})
	n := len(e.pages(t, a.AccountID, atrium.TimelineFilter{}, 100)) + len(e.pages(t, b.AccountID, atrium.TimelineFilter{}, 100))
	if want := 2 + 2*writers/4*2*rounds; n != want {
		t.Errorf("there are %d entries, want %d", n, want)
	}
	e.wantActivity(t, a.AccountID, b.AccountID)
}

func movesTogether(t *testing.T, e *env) {
	all := e.recordMany(t, 20, byDomain("a.example"))
	accounts := []atrium.AccountID{all[0].AccountID}
	for i := range 3 {
		accounts = append(accounts, e.record(t, byDomain(fmt.Sprintf("b%d.example", i))).AccountID)
	}
	first, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: accounts[0], To: accounts[1], Rule: atrium.MoveRule{ClaimedDomain: "a.example"}, Limit: 100})
	if err != nil || first.Moved != 20 {
		t.Fatal(first, err)
	}
	reports := make([]int64, 2*writers)
	e.both(func(e *env, i int) {
		if i == 0 {
			r, _, err := e.UndoMove(t.Context(), e.change(), first.Move.ID, agree)
			if err != nil || r.Restored+r.Skipped != 20 {
				t.Errorf("undone: %+v, %v", r, err)
			}
			reports[i] = r.Restored
			return
		}
		r, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{
			From: accounts[1], To: accounts[2+i%2], Rule: atrium.MoveRule{ClaimedDomain: "a.example"}, Limit: 5,
		})
		if err != nil {
			t.Errorf("move: %v", err)
		}
		reports[i] = r.Moved
	})
	moved := int64(0)
	for _, n := range reports {
		moved += n
	}
	left := 0
	for i, id := range accounts {
		n := len(e.pages(t, id, atrium.TimelineFilter{}, 100))
		if i > 0 {
			n-- // its own
		}
		if left += n; i == 1 {
			moved += int64(n)
		}
	}
	if left != 20 || moved != 20 {
		t.Errorf("there are %d entries, and %d were taken from one account, once each", left, moved)
	}
	e.wantActivity(t, accounts...)
}
