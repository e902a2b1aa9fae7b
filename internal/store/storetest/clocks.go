package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// These guarantees hold even if a clock is set back or forward by an hour at any time, and if the
// clocks of two nodes differ by as much.
var clocks = []guarantee{
	{"no object is updated, deleted or revoked before it was created, whatever the clock is", nothingBeforeItWasMade},
	{"an account's latest activity never decreases with the clock", activityStays},
	{"objects that exist throughout are listed once while the clock jumps", listsWhileTheClockJumps},
	{"an idempotency key makes one entry or change, whatever the clock of the retry is", onceByAnyClock},
	{"nodes with different clocks run a scheduled action once", scheduledOnceByAnyClock},
	{"an audit log verifies after clock jumps and changes by nodes with different clocks", chainAcrossJumps},
	{"a secret rotated without grace is invalid on nodes whose clock is behind", formerSecretIsGone},
	{"an export refers to nothing that a process with a clock behind stored after it began", exportBesideAnotherClock},
}

// jumps are the steps of a clock.
var jumps = []time.Duration{-time.Hour, 2 * time.Hour, -2 * time.Hour, time.Hour}

// withClockOffset returns a node whose clock differs from the env's.
func (e *env) withClockOffset(by time.Duration) *env {
	other := e.node()
	other.clock = &clock{at: e.clock.now().Add(by)}
	other.Store = store.New(other.db, other.clock.now)
	return other
}

func nothingBeforeItWasMade(t *testing.T, e *env) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		p := e.createPage(t)
		u := e.createAudience(t, p.ID, "All")
		v, _, err := e.CreateVersion(t.Context(), e.change(), p.ID, u.ID, []byte(`1`), "")
		if err != nil {
			t.Fatalf("create a version: %v", err)
		}
		b, pr, k := e.brand(t, "Before"), e.prospect(t, "a@clock.example"), e.newKey(t, atrium.NewID[atrium.KeyID]())
		r := e.record(t, byDomain(fmt.Sprintf("from%d.example", step)))
		to := e.record(t, byDomain(fmt.Sprintf("to%d.example", step))).AccountID
		m := e.move(t, r.EntryID, to)

		e.clock.step(step)
		if b, err = e.UpdateBrand(t.Context(), e.change(), b.ID, pointer("After"), accept); err != nil {
			t.Fatalf("update a brand: %v", err)
		}
		if u = e.archiveAudience(t, u, true); u.UpdatedAt < u.CreatedAt {
			t.Errorf("the audience is %+v", u)
		}
		for what, err := range e.everyChange(t, p.ID, accept) {
			if err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := e.DeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
			t.Fatalf("delete a page: %v", err)
		}
		a := e.rename(t, to, "After")
		got, err := e.ScheduledPage(t.Context(), e.tenant, p.ID)
		if err != nil || got.UpdatedAt < got.CreatedAt || got.DeletedAt == nil || *got.DeletedAt < got.CreatedAt || *got.DeletedAt > got.UpdatedAt {
			t.Errorf("after a step of %s, the deleted page is %+v, %v", step, got, err)
		}
		undone := e.undo(t, m.ID)
		k, err = e.RevokeKey(t.Context(), e.change(), k.ID, accept)
		if err != nil || *k.RevokedAt < k.CreatedAt || k.WorksAt(k.CreatedAt) {
			t.Errorf("after a step of %s, the revoked key is %+v, %v", step, k, err)
		}
		changed, err := e.UpdateProspect(t.Context(), e.change(), pr.ID, func(p *atrium.Prospect) { p.Name = pointer("After") }, accept)
		if err != nil || changed.UpdatedAt < changed.CreatedAt || b.UpdatedAt < b.CreatedAt || a.UpdatedAt < a.CreatedAt ||
			*undone.Move.UndoneAt < undone.Move.CreatedAt || v.CreatedAt < p.CreatedAt {
			t.Errorf("after a step of %s: %v, %+v, %+v, %+v, %+v", step, err, changed, b, a, undone.Move)
		}
	}
}

func activityStays(t *testing.T, e *env) {
	ahead := e.withClockOffset(time.Hour)
	first := e.record(t, byDomain("active.example"))
	id, latest := first.AccountID, first.CreatedAt
	for i, step := range slices.Concat(jumps, jumps) {
		node := []*env{e, ahead}[i%2]
		node.clock.step(step)
		r := node.record(t, []atrium.Claim{byDomain("active.example"), byID(id)}[i/2%2])
		latest = max(latest, r.CreatedAt)
		if a := e.account(t, id); a.LatestActivityAt == nil || *a.LatestActivityAt != latest {
			t.Errorf("after an entry at %s the latest activity is %v, want %s", r.CreatedAt, a.LatestActivityAt, latest)
		}
	}
}

func listsWhileTheClockJumps(t *testing.T, e *env) {
	other := e.withClockOffset(time.Hour)
	at := 0
	// more creates one more object of every kind, with clocks that jump.
	more := func() (atrium.PageID, atrium.EntryID, string, string) {
		node := []*env{e, other}[at%2]
		node.clock.step(jumps[at%len(jumps)] + time.Duration(at%3)*time.Millisecond)
		at++
		email, domain := fmt.Sprintf("p%d@jumps.example", at), fmt.Sprintf("jumps%d.example", at)
		node.prospect(t, email)
		node.record(t, byDomain(domain))
		return node.createPage(t).ID, node.record(t, byDomain("timeline.example")).EntryID, email, domain
	}
	var pages []atrium.PageID
	var entries []atrium.EntryID
	var emails, domains []string
	for range 12 {
		p, r, email, domain := more()
		pages, entries, emails, domains = append(pages, p), append(entries, r), append(emails, email), append(domains, domain)
	}
	timeline := e.record(t, byDomain("timeline.example")).AccountID
	between := func() { more() }
	seenPages := e.list(t, "", 2, between)
	var seenEntries []atrium.EntryID
	for after, first := (*atrium.Position)(nil), true; first || after != nil; first = false {
		part, next, err := e.Timeline(t.Context(), e.tenant, timeline, atrium.TimelineFilter{}, after, 2, false)
		if err != nil {
			t.Fatalf("read a timeline: %v", err)
		}
		seenEntries, after = append(seenEntries, idsOf(part)...), next
		if at < 60 {
			more()
		}
	}
	var seenEmails, seenDomains []string
	for after, first := (*atrium.Position)(nil), true; first || after != nil; first = false {
		part, next, err := e.Prospects(t.Context(), e.tenant, atrium.ProspectFilter{}, after, 3)
		if err != nil {
			t.Fatalf("list prospects: %v", err)
		}
		for _, p := range part {
			seenEmails = append(seenEmails, *p.Email)
		}
		if after = next; at < 90 {
			more()
		}
	}
	for after, first := (*atrium.Position)(nil), true; first || after != nil; first = false {
		part, next, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{}, atrium.AccountsActivity, after, 3)
		if err != nil {
			t.Fatalf("list accounts: %v", err)
		}
		seenDomains = append(seenDomains, domainsOf(part)...)
		if after = next; at < 120 {
			more()
		}
	}
	wantEachOnce(t, "pages", pages, seenPages)
	wantEachOnce(t, "entries", entries, seenEntries)
	wantEachOnce(t, "prospects", emails, seenEmails)
	wantEachOnce(t, "accounts", domains, seenDomains)
}

// wantEachOnce fails the test unless a list returned each of the wanted items once, and no item
// twice.
func wantEachOnce[T comparable](t tb, what string, want, met []T) {
	t.Helper()
	times := map[T]int{}
	for _, v := range met {
		times[v]++
	}
	for _, v := range want {
		if times[v] != 1 {
			t.Errorf("the list of %s returned %v %d times", what, v, times[v])
		}
	}
	for v, n := range times {
		if n > 1 {
			t.Errorf("the list of %s returned %v %d times", what, v, n)
		}
	}
}

func onceByAnyClock(t *testing.T, e *env) {
	first := e.record(t, byDomain("once.example"), key("k"))
	b, _, err := e.CreateBrand(t.Context(), e.keyed("brand", "same"), "Once")
	if err != nil {
		t.Fatalf("create a brand: %v", err)
	}
	for _, by := range jumps {
		other := e.withClockOffset(by)
		if again := other.record(t, byDomain("once.example"), key("k")); !again.Replayed || again.EntryID != first.EntryID || again.CreatedAt != first.CreatedAt {
			t.Errorf("by a clock that differs by %s: %+v", by, again)
		}
		if again, replayed, err := other.CreateBrand(t.Context(), e.keyed("brand", "same"), "Once"); err != nil || !replayed || again != b {
			t.Errorf("by a clock that differs by %s: %+v, %v, %v", by, again, replayed, err)
		}
	}
	if n := len(e.entries(t)); n != 1 {
		t.Errorf("%d entries are stored", n)
	}
}

func scheduledOnceByAnyClock(t *testing.T, fresh *env) {
	e := fresh.fresh(t) // RunDue runs the actions of all tenants
	p := e.createPage(t)
	e.schedule(t, p.ID, e.in(30*time.Minute), e.in(3*time.Hour))
	ahead, behind := e.withClockOffset(time.Hour), e.withClockOffset(-time.Hour)
	behind.runDue(t, 0)
	e.runDue(t, 0)
	ahead.runDue(t, 1)
	e.clock.step(time.Hour)
	e.runDue(t, 0)
	behind.runDue(t, 0)
	e.wantStatus(t, p.ID, atrium.PagePublished)
	e.clock.step(-2 * time.Hour)
	e.runDue(t, 0)
	e.clock.step(5 * time.Hour)
	e.runDue(t, 1)
	ahead.clock.step(5 * time.Hour)
	ahead.runDue(t, 0)
	e.wantStatus(t, p.ID, atrium.PageDraft)
	if got := e.page(t, p.ID); got.UpdatedAt < got.CreatedAt {
		t.Errorf("the page is %+v", got)
	}
}

func chainAcrossJumps(t *testing.T, e *env) {
	other := e.withClockOffset(time.Hour)
	for i, step := range slices.Concat(jumps, jumps) {
		node := []*env{e, other}[i%2]
		node.clock.step(step)
		head := e.head(t)
		node.brand(t, fmt.Sprint("Brand ", i))
		e.wantSound(t, &head)
	}
	numbers := numbersOf(e.auditRows(t, atrium.AuditFilter{}, 3))
	for i, n := range numbers {
		if n != int64(len(numbers)-i) {
			t.Fatalf("the list has the rows %v", numbers)
		}
	}
	if want := 2 * len(jumps); len(numbers) != want {
		t.Errorf("%d rows, want %d", len(numbers), want)
	}
}

func formerSecretIsGone(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	k = e.rotate(t, k.ID, secretHash(2), 0)
	e.withClockOffset(-time.Hour).wantKey(t, k, secretHash(2), nil)
}

func exportBesideAnotherClock(t *testing.T, e *env) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			e := e.as(e.newTenant(t))
			e.exportBeside(t, e.withClockOffset(by), func() {})
		})
	}
}
