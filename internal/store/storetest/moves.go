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
	{"a moved entry belongs to the other account, and both accounts have the right latest activity", entryMoved},
	{"a replay returns the original receipt after the entry was moved", replayAfterMove},
	{"undoing a move restores the former state", moveUndone},
	{"an invalid move is refused and changes nothing", moveRefused},
	{"a rule moves the entries that match all its conditions", ruleMatches},
	{"a rule reads payloads in batches", ruleOnPayloads},
	{"a rule compares a bounded number of bytes per request and continues in the next", ruleReadsBounded},
	{"a rule continues after its last request, and a dry run moves nothing", rulePages},
	{"a rule moves entries in order, whatever the length of their domains", ruleInOrder},
	{"undoing a move leaves entries that were moved again", undoSkips},
	{"a move of a merged account reads the group and stores under the survivor", moveOfMerged},
	{concurrent + "a move with an idempotency key is made once", moveOnce},
	{"a retried move uses the current survivor of its target", moveTriedAgain},
	{concurrent + "moves by a rule with one idempotency key return the same result", ruleOnce},
	{"a repeated move returns its result whatever happened to its accounts", moveAnswered},
	{"stored results of idempotency keys keep no rule after an erasure", moveKeepsNoRule},
	{"moves are listed newest first", movesListed},
	{"the audit log of a move has no payload", moveAudited},
	{"a move of another tenant is NotFound", moveOfAnother},
	{concurrent + "entries appended during moves are not lost", moveAndAppend},
	{concurrent + "an entry moved concurrently belongs to one account", movesTogether},
}

// move moves an entry.
func (e *env) move(t tb, id atrium.EntryID, to atrium.AccountID) atrium.Move {
	t.Helper()
	m, _, err := e.MoveEntry(t.Context(), e.change(), id, to, accept)
	if err != nil {
		t.Fatalf("move an entry: %v", err)
	}
	return m
}

func (e *env) undo(t tb, id atrium.MoveID) atrium.UndoReport {
	t.Helper()
	r, _, err := e.UndoMove(t.Context(), e.change(), id, accept)
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

// wantActivity checks that the latest activity of accounts, and the minute that they are sorted
// by, are those of their entries.
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
	if m.From != a.AccountID || m.To != b.AccountID || m.Moved != 1 || m.CreatedAt != e.clock.instant() || m.UndoneAt != nil || m.Rule != nil {
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
	e.merge(t, b, c)
	wantReplay(t, e.record(t, byDomain("a.example"), key("k")), first)
	if got := e.entry(t, first.EntryID); got.AccountID != c || got.AcknowledgedID != first.AccountID {
		t.Errorf("moved and merged, the entry is %+v", got)
	}
}

// state returns all visible members of a tenant's accounts and entries that moves change.
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
		if r := e.undo(t, m.ID); r.Restored != m.Moved || r.Skipped != 0 || r.Move.UndoneAt == nil || *r.Move.UndoneAt != e.clock.instant() {
			t.Errorf("undone: %+v", r)
		}
		got, err := e.FindMove(t.Context(), e.tenant, m.ID)
		if m.UndoneAt = pointer(e.clock.instant()); err != nil || describeMove(got) != describeMove(m) {
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
	_, _, err := e.MoveEntry(t.Context(), e.change(), a.EntryID, a.AccountID, accept)
	wantCode(t, err, atrium.CodeConflict)
	_, _, err = e.MoveEntry(t.Context(), e.change(), a.EntryID, atrium.NewID[atrium.AccountID](), accept)
	wantCode(t, err, atrium.CodeNotFound)
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	if _, _, err = e.MoveEntry(t.Context(), e.change(), a.EntryID, b.AccountID, func(got atrium.TimelineEntry) error {
		if got.ID != a.EntryID || got.Payload == nil {
			t.Errorf("check was given %+v", got)
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
	nothing, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{To: a.AccountID, Rule: rule, Limit: 10}) // no entry is unattributed
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
	if all, _, err := e.Moves(t.Context(), e.tenant, nil, 10); err != nil || len(all) > 0 || e.auditText(t) != "" {
		t.Errorf("there are moves %+v, %v, audit log %s", all, err, e.auditText(t))
	}
}

// auditText returns all actions and details in the tenant's audit log.
func (e *env) auditText(t tb) string {
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

func moveOfMerged(t *testing.T, e *env) {
	a := e.recordMany(t, 2, byDomain("a.example"))
	b, c, d := e.record(t, byDomain("b.example")), e.record(t, byDomain("c.example")), e.record(t, byDomain("d.example"))
	e.clock.step(time.Hour)
	late := e.record(t, byDomain("a.example"))
	e.merge(t, a[0].AccountID, b.AccountID)
	e.merge(t, c.AccountID, d.AccountID)
	_, _, err := e.MoveEntry(t.Context(), e.change(), a[0].EntryID, b.AccountID, accept)
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
			t.Errorf("it is stored under %s, want %s", entry.AccountID, d.AccountID)
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
	log := e.auditText(t)
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
	_, _, err = other.UndoMove(t.Context(), other.change(), m.ID, accept)
	wantCode(t, err, atrium.CodeNotFound)
	if all, _, err := other.Moves(t.Context(), other.tenant, nil, 10); err != nil || len(all) > 0 {
		t.Errorf("list: %v, %v", all, err)
	}
}
