package storetest

import (
	"fmt"
	"testing"
	"time"

	"atrium"
)

// Tests of concurrent moves on several nodes.

func moveOnce(t *testing.T, e *env) {
	r, to := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example")).AccountID
	results, first := make([]atrium.Move, 2*writers), 0
	replays := make([]bool, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		var err error
		if results[i], replays[i], err = e.MoveEntry(t.Context(), e.keyed("once", "a"), r.EntryID, to, accept); err != nil {
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
		t.Errorf("%d moves by %d requests, %v", len(all), first, err)
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
	undone, _, err := e.UndoMove(t.Context(), e.keyed("undo", "a"), one.Move.ID, accept)
	again, replayed, err2 := e.UndoMove(t.Context(), e.keyed("undo", "a"), one.Move.ID, accept)
	if err != nil || err2 != nil || !replayed || describeMove(undone.Move) != describeMove(again.Move) || again.Restored != 2 {
		t.Errorf("undone: %+v, %v, and again %+v, %v", undone, err, again, err2)
	}
}

func moveTriedAgain(t *testing.T, e *env) {
	r := e.record(t, byDomain("a.example"))
	to, into := e.record(t, byDomain("b.example")).AccountID, e.record(t, byDomain("c.example")).AccountID
	e.merge(t, to, into)
	other, want, tries := e.node(), into, 0
	m, _, err := e.MoveEntry(t.Context(), e.change(), r.EntryID, to, func(atrium.TimelineEntry) error {
		if tries++; tries == 1 && e.engine.Name != "sqlite" { // SQLite has a single writer
			other.split(t, into, to)
			other.erase(t, into)
			want = to
		}
		return nil
	})
	if err != nil || m.To != want {
		t.Errorf("in %d tries it was moved to %s, %v, want %s", tries, m.To, err, want)
	}
	if got := e.entry(t, r.EntryID); got.AccountID != want {
		t.Errorf("it is in %s, want %s", got.AccountID, want)
	}
}

func ruleOnce(t *testing.T, e *env) {
	e.recordMany(t, 6, byName("Nobody"))
	to := e.record(t, byDomain("b.example")).AccountID
	request := atrium.MoveRequest{To: to, Rule: atrium.MoveRule{ClaimedName: "nobody", Given: []byte(`{"claimedName":"nobody"}`)}, Limit: 100}
	reports, replays := make([]atrium.MoveReport, 2*writers), make([]bool, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		var err error
		if reports[i], replays[i], err = e.Move(t.Context(), e.keyed("once", "a"), request); err != nil {
			t.Error(err)
		}
	})
	first := 0
	for i := range reports {
		if !replays[i] {
			first++
		}
		if got := reports[i]; got.Move == nil || got.Moved != 6 || describeMove(*got.Move) != describeMove(*reports[0].Move) {
			t.Errorf("one result is %+v", got)
		}
	}
	if first != 1 {
		t.Errorf("it was created %d times", first)
	}
}

func moveAnswered(t *testing.T, e *env) {
	from, to := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedDomain: "a.example", Given: []byte(`{"claimedDomain":"a.example"}`)}, Limit: 100}
	one, _, err := e.Move(t.Context(), e.keyed("once", "a"), request)
	if err != nil || one.Moved != 1 {
		t.Fatalf("%+v, %v", one, err)
	}
	answered := func(after string) {
		two, replayed, err := e.Move(t.Context(), e.keyed("once", "a"), request)
		if err != nil || !replayed || two.Move == nil || describeMove(*two.Move) != describeMove(*one.Move) {
			t.Errorf("%s, the result is %+v, %v, %v", after, two, replayed, err)
		}
		_, _, err = e.Move(t.Context(), e.keyed("once", "b"), request)
		wantCode(t, err, atrium.CodeIdempotencyKeyReused)
	}
	e.merge(t, to, from)
	answered("merged")
	e.split(t, from, to)
	e.erase(t, from)
	answered("erased")
}

func moveAndAppend(t *testing.T, e *env) {
	const rounds = 6
	a, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example"))
	e.onTwoNodes(t, func(e *env, i int) {
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
					if _, _, err := e.MoveEntry(t.Context(), e.change(), all[0].ID, to, accept); err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
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
	e.sweepActivity(t) // the last append may have come after the last move
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
	e.onTwoNodes(t, func(e *env, i int) {
		if i == 0 {
			r, _, err := e.UndoMove(t.Context(), e.change(), first.Move.ID, accept)
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
			n-- // its own entry
		}
		if left += n; i == 1 {
			moved += int64(n)
		}
	}
	if left != 20 || moved != 20 {
		t.Errorf("%d entries are left in the account, and %d moves took one each", left, moved)
	}
	e.wantActivity(t, accounts...)
}
