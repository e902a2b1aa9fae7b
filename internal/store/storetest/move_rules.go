package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

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
	for name, origin := range map[string]struct{ source, kind string }{"call": {"phone", "call"}, "text": {"phone", "text"}, "chat": {"web", "text"}} {
		entries[name] = e.record(t, atrium.Claim{AccountID: from}, func(s *atrium.Submission) { s.Source, s.Type = origin.source, origin.kind }).EntryID
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
		{atrium.MoveRule{Source: "phone"}, []string{"call", "text"}},
		{atrium.MoveRule{Type: "text"}, []string{"text", "chat"}},
		{atrium.MoveRule{Source: "phone", Type: "text"}, []string{"text"}},
		{atrium.MoveRule{Source: "phone", ClaimedName: "Strasse"}, nil},
		{atrium.MoveRule{Source: "Phone"}, nil},
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

// Payloads are compared 1 MiB at a time. The limits end batches at every possible entry.
func ruleOnPayloads(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	var from atrium.AccountID
	text := strings.Repeat("x", 512<<10)
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

func ruleReadsBounded(t *testing.T, e *env) {
	const matchBytes, size = 4 << 20, 300 << 10
	to := e.record(t, byDomain("to.example")).AccountID
	long := func(host string) string { return "https://" + host + "/" + strings.Repeat("x", size) }
	for what, rule := range map[string]atrium.MoveRule{
		"payloads":             {Pointer: "/n", Equals: []byte("1")},
		"domains":              {ClaimedDomain: "acme.example"},
		"domains and payloads": {ClaimedDomain: "acme.example", Pointer: "/n", Equals: []byte("1")},
	} {
		e := e.as(e.newTenant(t))
		to := e.record(t, byDomain("to.example")).AccountID
		from := e.record(t, byDomain("from.example")).AccountID
		want := int64(0)
		for i := range 20 {
			e.clock.step(time.Second)
			n, host := i%2, "acme.example"
			if i%4 == 3 && rule.ClaimedDomain != "" {
				host = "bolt.example"
			}
			e.record(t, atrium.Claim{AccountID: from, Domain: long(host)}, payload(fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, strings.Repeat("x", size))))
			if (rule.Pointer == "" || n == 1) && host == "acme.example" {
				want++
			}
		}
		request, moved, calls := atrium.MoveRequest{From: from, To: to, Rule: rule, Limit: 100}, int64(0), 0
		for {
			counted, read := e.counting()
			report, err := counted.CheckMove(t.Context(), e.tenant, request)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if read.bytes > matchBytes+3*size {
				t.Errorf("%s: a request reads %d bytes", what, read.bytes)
			}
			moved, calls = moved+report.Moved, calls+1
			if request.After = report.Next; report.Next == nil {
				break
			}
		}
		if moved != want || calls < 2 {
			t.Errorf("%s: %d entries match in %d requests, want %d in several", what, moved, calls, want)
		}
	}
	from := e.recordMany(t, 2, atrium.Claim{Domain: long("acme.example")})[0].AccountID
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedDomain: long("acme.example"), Given: []byte(`{}`)}, Limit: 10})
	if err != nil || report.Moved != 2 {
		t.Fatalf("move by a long domain: %+v, %v", report, err)
	}
	rows, _, err := e.AuditRows(t.Context(), e.tenant, atrium.AuditFilter{Action: "move.create"}, 0, 1)
	if err != nil || len(rows) != 1 || len(rows[0].Detail) > 1000 {
		t.Errorf("the audit log has %d rows of the move, or all of the domain: %v", len(rows), err)
	}
}

func rulePages(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	var drafts []*atrium.Draft
	for i := range 25 {
		drafts = append(drafts, e.draft(t, byName([]string{"Acme", "Bolt"}[i%5/4]))) // every fifth is of another account
	}
	all := receipts(t, e.append(t, drafts...))
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

// Long domains are read by a second statement, short ones by the first.
func ruleInOrder(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	from := e.record(t, byDomain("from.example")).AccountID
	for i := range 6 {
		e.clock.step(time.Second)
		domain := "acme.example"
		if i%2 == 1 { // the newest domain is long
			domain = "https://acme.example/" + strings.Repeat("x", 10<<10)
		}
		e.record(t, atrium.Claim{AccountID: from, Domain: domain})
	}
	var want []atrium.EntryID // newest first
	for _, s := range e.pages(t, from, atrium.TimelineFilter{}, 50) {
		want = append(want, s.ID)
	}
	want = want[:6] // the last entry created the account
	for limit := 1; limit <= 4; limit++ {
		request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedDomain: "acme.example", Given: []byte(`{}`)}, Limit: limit}
		for taken := 0; taken < len(want); taken += limit {
			report, err := e.CheckMove(t.Context(), e.tenant, request)
			if err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
			if n := min(limit, len(want)-taken); report.Moved != int64(n) {
				t.Fatalf("limit %d: %d entries match after %d, want %d", limit, report.Moved, taken, n)
			}
			if last := min(taken+limit, len(want)) - 1; report.Next != nil && report.Next.ID != string(want[last][len(want[last].Prefix()):]) && last < len(want)-1 {
				t.Fatalf("limit %d: the request ends at %s, want %s", limit, report.Next.ID, want[last])
			}
			request.After = report.Next
		}
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
		t.Errorf("the entry that was moved again is %+v", got)
	}
	e.wantActivity(t, from, b, c)
	_, _, err = e.UndoMove(t.Context(), e.change(), report.Move.ID, accept)
	wantCode(t, err, atrium.CodeConflict)
	_, _, err = e.UndoMove(t.Context(), e.change(), atrium.NewID[atrium.MoveID](), accept)
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
	if _, err := e.EraseAccount(t.Context(), e.change(), from, accept); err != nil {
		t.Fatalf("erase: %v", err)
	}
	if r := e.undo(t, gone.ID); r.Restored != 0 || r.Skipped != 1 {
		t.Errorf("undone into an erased account: %+v", r)
	}
}
