package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

// How many bytes one move rewrites: an engine may write the payload of an entry again when its
// account changes.

var moveBounds = []guarantee{
	{"a move rewrites a bounded number of bytes and continues in the next", moveBytesBounded},
	{"a move of a large entry, and its undo, are large changes", largeMoves},
}

// sizedPayload returns a payload of a size.
func sizedPayload(bytes int) draftOption {
	return payload(`"` + strings.Repeat("x", bytes-2) + `"`)
}

func moveBytesBounded(t *testing.T, e *env) {
	const large = 900 << 10
	text := strings.Repeat("x", large)
	for _, c := range []struct {
		what  string
		sizes []int // of payloads, newest first
		rule  atrium.MoveRule
		want  []int64
	}{
		{
			"by name", []int{large, 10, 5 << 20, large, large, large, large, large, 10, large},
			atrium.MoveRule{ClaimedName: "acme", Given: []byte(`{}`)},
			[]int64{2, 1, 4, 3},
		},
		{
			"by payload", slices.Repeat([]int{large}, 9),
			atrium.MoveRule{Pointer: "/n", Equals: []byte("1"), Given: []byte(`{}`)},
			[]int64{4, 4, 1},
		},
	} {
		e := e.as(e.newTenant(t))
		to := e.record(t, byDomain("to.example")).AccountID
		from := e.record(t, byDomain("from.example")).AccountID
		for _, bytes := range slices.Backward(c.sizes) {
			e.clock.step(time.Second)
			content := strings.Repeat(text, bytes/large+1)[:bytes]
			e.record(t, atrium.Claim{AccountID: from, Name: "Acme"}, payload(`{"n":1,"text":"`+content+`"}`))
		}
		for _, check := range []bool{true, false} {
			request := atrium.MoveRequest{From: from, To: to, Rule: c.rule, Limit: 100}
			var counts []int64
			var made []atrium.MoveID
			var admitted admissions
			for {
				var report atrium.MoveReport
				var err error
				if check {
					report, err = e.CheckMove(t.Context(), e.tenant, request)
				} else {
					report, _, err = e.Move(t.Context(), admitted.of(e.change()), request)
				}
				if err != nil {
					t.Fatalf("%s: %v", c.what, err)
				}
				if counts = append(counts, report.Moved); report.Move != nil {
					admitted.want(t, c.what, true)
					made = append(made, report.Move.ID)
				}
				if request.After = report.Next; report.Next == nil {
					break
				}
			}
			if !slices.Equal(counts, c.want) {
				t.Errorf("%s, check %v: moved %v, want %v", c.what, check, counts, c.want)
			}
			for i, id := range made {
				report, _, err := e.UndoMove(t.Context(), admitted.of(e.change()), id, accept)
				if err != nil || report.Restored != counts[i] || report.Skipped != 0 {
					t.Errorf("%s: undone as %+v, %v, want %d", c.what, report, err, counts[i])
				}
				admitted.want(t, "undo "+c.what, true)
			}
		}
	}
}

func largeMoves(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	small := e.record(t, byDomain("from.example"))
	e.clock.step(time.Second)
	large := e.record(t, byDomain("from.example"), sizedPayload(20<<10))
	domain := "https://long.example/" + strings.Repeat("x", 20<<10)
	long := e.record(t, atrium.Claim{AccountID: small.AccountID, Domain: domain})
	var admitted admissions
	move := func(what string, id atrium.EntryID, isLarge bool) {
		t.Helper()
		m, _, err := e.MoveEntry(t.Context(), admitted.of(e.change()), id, to, accept)
		if err != nil {
			t.Fatalf("move %s: %v", what, err)
		}
		admitted.want(t, "move "+what, isLarge)
		if _, _, err := e.UndoMove(t.Context(), admitted.of(e.change()), m.ID, accept); err != nil {
			t.Fatalf("undo the move of %s: %v", what, err)
		}
		admitted.want(t, "undo the move of "+what, isLarge)
	}
	move("a small entry", small.EntryID, false)
	move("a large entry", large.EntryID, true)
	move("an entry with a long domain", long.EntryID, true)
	request := atrium.MoveRequest{From: small.AccountID, To: to, Rule: atrium.MoveRule{ClaimedDomain: "from.example", Given: []byte(`{}`)}, Limit: 1}
	for _, isLarge := range []bool{true, false} { // newest first
		report, _, err := e.Move(t.Context(), admitted.of(e.change()), request)
		if err != nil || report.Moved != 1 {
			t.Fatalf("move one entry: %+v, %v", report, err)
		}
		admitted.want(t, "move one entry by a rule", isLarge)
		request.After = report.Next
	}
	request = atrium.MoveRequest{From: small.AccountID, To: to, Limit: 1, Rule: atrium.MoveRule{
		ClaimedDomain: domain, Given: []byte(`{"claimedDomain":"` + domain + `"}`),
	}}
	report, _, err := e.Move(t.Context(), admitted.of(e.change()), request)
	if err != nil || report.Moved != 1 {
		t.Fatalf("move by a long rule: %+v, %v", report, err)
	}
	admitted.want(t, "move by a long rule", true)
}
