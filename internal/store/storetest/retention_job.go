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

func retainedDespiteKills(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	account := e.old(t, 700)
	e.setRules(t, atrium.RetentionRule{Days: 30})
	for range 30 {
		if _, _, err := e.interrupted().RunRetention(t.Context(), ""); err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatal(err)
		}
	}
	if n := e.entriesOf(t, account.ID); n != 700 {
		t.Errorf("%d entries are left", n)
	}
	e.clock.step(days)
	for range 5 {
		if _, _, err := e.interrupted().RunRetention(t.Context(), ""); err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatal(err)
		}
	}
	e.applyRules(t)
	e.wantRecorded(t, 700)
}

// wantRecorded fails the test unless the audit log has one record of deleted entries for each number.
func (e *env) wantRecorded(t tb, numbers ...int) {
	t.Helper()
	got := slices.DeleteFunc(e.auditLines(t, string(e.tenant)), func(line string) bool { return !strings.HasPrefix(line, "retention.delete ") })
	for i, n := range numbers {
		if i >= len(got) || !strings.Contains(got[i], fmt.Sprintf(`"accountLogs":%d,`, n)) {
			t.Fatalf("recorded %q, want %v", got, numbers)
		}
	}
	if len(got) != len(numbers) {
		t.Errorf("recorded %q, want %v", got, numbers)
	}
	e.wantSound(t, nil)
}

func retainedAfterPurge(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	e.old(t, 10)
	e.setRules(t, atrium.RetentionRule{Days: 30})
	e.applyRules(t)
	e.clock.step(days)
	for range 2 {
		if _, _, err := e.withoutPurges().RunRetention(t.Context(), ""); !errors.Is(err, errOnPurpose) {
			t.Fatalf("without purges: %v", err)
		}
		e.wantRecorded(t)
	}
	e.applyRules(t)
	e.wantRecorded(t, 10)
}

func retainedByNodes(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	account := e.old(t, 1000)
	e.setRules(t, atrium.RetentionRule{Days: 30})
	other := e.node()
	parallel(t, 2, func(i int) { []*env{e, other}[i].applyRules(t) })
	e.applyRules(t)
	if n := e.entriesOf(t, account.ID); n != 1000 {
		t.Errorf("%d entries are left", n)
	}
	e.clock.step(days)
	parallel(t, 2, func(i int) { []*env{e, other}[i].applyRules(t) })
	e.wantRecorded(t, 1000)
}

func retainedInRounds(t *testing.T, e *env) {
	e = e.fresh(t)
	tenants := []*env{e}
	for range 101 {
		tenants = append(tenants, e.as(e.newTenant(t)))
	}
	slices.SortFunc(tenants, func(a, b *env) int { return strings.Compare(string(a.tenant), string(b.tenant)) })
	first, last := tenants[0], tenants[101]
	wantWaiting := func(what string, want ...bool) {
		t.Helper()
		var got []bool
		for next, begun := atrium.TenantID(""), false; !begun || next != ""; begun = true {
			var err error
			if next, _, err = e.RunRetention(t.Context(), next); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got = append(got, e.RetentionWaits())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: rules wait after each call: %v, want %v", what, got, want)
		}
	}
	last.setRules(t, atrium.RetentionRule{Days: 30})
	wantWaiting("first round", false, true)
	wantWaiting("second round", true, true)
	last.setRules(t)
	wantWaiting("without rules", true, false)
	first.setRules(t, atrium.RetentionRule{Days: 30})
	wantWaiting("with rules of the first tenant", true, true)
	wantWaiting("again", true, true)

	last.setRules(t, atrium.RetentionRule{Days: 30})
	first.old(t, 5)
	last.old(t, 3)
	e.steadyClock(t)
	e.clock.step(days)
	purges := 0
	e.hookedPurges(func() { purges++ }).applyRules(t)
	first.wantRecorded(t, 5)
	last.wantRecorded(t, 3)
	if purges != 1 {
		t.Errorf("%d purges, want 1", purges)
	}
}

func retainedInParts(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	a := e.manyMoves(t, 60, 30, `{}`)
	for i := range 300 {
		e.record(t, byDomain(fmt.Sprintf("d%d.example", i%70)))
	}
	e.waitDays(t, 1.5)
	measured, most := e.measured()
	measured.setRules(t, atrium.RetentionRule{Days: 1})
	measured.applyRules(t)
	if n, moves := len(e.entryIDs(t)), e.rowsOf(t, "moved_entries"); n != 0 || moves != 0 || e.entriesOf(t, a) != 0 || most.rows > mostChanged {
		t.Errorf("%d entries and %d rows about moves are left, at most %d rows changed at once", n, moves, most.rows)
	}
	e.wantSoundGroups(t)
}

func retainedCheaply(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	e.old(t, 1500) // the old ones have no rule
	e.setRules(t, atrium.RetentionRule{Source: "crm", Type: "other", Days: 30}, atrium.RetentionRule{Source: "other", Days: 400})
	counted, read := e.counting()
	counted.applyRules(t)
	if read.rows < 3000 {
		t.Errorf("%d rows were read after the rules have changed", read.rows)
	}
	for range 6 {
		*read = tally{}
		counted.clock.step(20 * time.Hour)
		counted.applyRules(t)
		if read.rows > 10 {
			t.Errorf("%d rows were read", read.rows)
		}
	}
	if n := len(e.entryIDs(t)); n != 3000 {
		t.Errorf("%d entries are left", n)
	}
}

func retainedByWrongClock(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	account := e.old(t, 20)
	e.setRules(t, atrium.RetentionRule{Days: 60})
	e.applyRules(t)
	for _, wrong := range []time.Duration{3 * 365 * days, -3 * 365 * days, 100 * days} {
		e.clock.step(wrong)
		for range 23 {
			e.applyRules(t)
			e.clock.step(time.Hour)
		}
		if !e.RetentionWaits() {
			t.Error("it does not say that rules wait")
		}
		e.clock.step(-wrong)
		e.applyRules(t)
	}
	if n := e.entriesOf(t, account.ID); n != 40 {
		t.Fatalf("%d entries are left, want 40", n)
	}
	// Nodes whose clocks disagree delete nothing, however long.
	ahead := e.withClockOffset(365 * days)
	for range 60 {
		e.applyRules(t)
		ahead.applyRules(t)
		e.clock.step(time.Hour)
		ahead.clock.step(time.Hour)
	}
	if n := e.entriesOf(t, account.ID); n != 40 {
		t.Fatalf("%d entries are left, want 40", n)
	}
	// With the right clock, rules are applied when they are due, also after a clock that was ahead for long.
	e.waitDays(t, 10)
	if n := e.entriesOf(t, account.ID); n != 40 || e.RetentionWaits() {
		t.Fatalf("%d entries are left, want 40; waits: %v", n, e.RetentionWaits())
	}
	e.waitDays(t, 10)
	if n := e.entriesOf(t, account.ID); n != 20 {
		t.Fatalf("%d entries are left, want 20", n)
	}
	e.clock.step(365 * days)
	e.waitDays(t, 0.5)
	e.clock.step(-365 * days)
	e.setRules(t, atrium.RetentionRule{Days: 61})
	e.clock.step(300 * days) // as no server ran
	e.waitDays(t, 1.5)
	if n := e.entriesOf(t, account.ID); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	e.clock.step(-200 * days)
	fresh := e.aged(account, 0)
	e.put(t, fresh)
	e.waitDays(t, 62)
	if e.entryIDs(t)[fresh.ID] {
		t.Error("an entry is left that was stored after the clock was set back")
	}
}
