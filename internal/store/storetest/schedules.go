package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var schedules = []guarantee{
	{"a page has its latest schedule", scheduleAsGiven},
	{"the next schedules of a tenant are those due first", nextSchedules},
	{"a scheduled action runs when it is due and is audited with the key that scheduled it", scheduleDone},
	{"an action that the state of the page does not allow is skipped and audited with the reason", scheduleSkipped},
	{concurrent + "nodes run a due action once", scheduleOnce},
	{"another node runs the action of a node that crashed", scheduleSurvives},
	{"one call runs a limited number of due actions, the earliest first", scheduleInTurn},
	{"a tenant with many due actions does not delay those of other tenants", scheduleShared},
	{"due actions run one of each tenant in turn", scheduleTakesTurns},
	{"an action that fails does not block others", scheduleGoesOn},
	{"an action that was canceled or rescheduled in the meantime does not run", scheduleCalledOff},
}

// in returns the instant after d.
func (e *env) in(d time.Duration) *atrium.Time {
	return pointer(e.clock.instant() + atrium.At(time.UnixMicro(d.Microseconds())))
}

func (e *env) schedule(t tb, id atrium.PageID, publish, unpublish *atrium.Time) atrium.ScheduledPage {
	t.Helper()
	p, err := e.SchedulePage(t.Context(), e.change(), id, atrium.Schedule{PublishAt: publish, UnpublishAt: unpublish}, accept)
	if err != nil {
		t.Fatalf("schedule: %v", err)
	}
	return p
}

// runDue runs all due actions and checks their number.
func (e *env) runDue(t tb, want int) {
	t.Helper()
	total := 0
	for done := -1; done != 0; total += done {
		var err error
		if done, _, err = e.RunDue(t.Context(), "", 100); err != nil {
			t.Fatalf("run due actions: %v", err)
		}
	}
	if total != want {
		t.Errorf("%d were due, want %d", total, want)
	}
}

func (e *env) wantStatus(t tb, id atrium.PageID, want atrium.PageStatus) {
	t.Helper()
	if got := e.page(t, id).Status; got != want {
		t.Errorf("the page is in state %s, want %s", got, want)
	}
}

func scheduleAsGiven(t *testing.T, e *env) {
	want := e.createPage(t)
	soon, later := e.in(time.Minute), e.in(time.Hour)
	for _, given := range []atrium.Schedule{
		{PublishAt: soon, UnpublishAt: later}, {PublishAt: soon, UnpublishAt: later}, {UnpublishAt: soon}, {PublishAt: later},
	} {
		want.Schedule = given
		if got := e.schedule(t, want.ID, given.PublishAt, given.UnpublishAt); !reflect.DeepEqual(got, want) {
			t.Errorf("scheduled %+v", got)
		}
		e.wantPage(t, want)
	}
	for _, past := range []atrium.Time{e.clock.instant(), e.clock.instant() - 1000} {
		_, err := e.SchedulePage(t.Context(), e.change(), want.ID, atrium.Schedule{PublishAt: &past, UnpublishAt: &past}, accept)
		wantFaultAt(t, err, "/publishAt", "/unpublishAt")
	}
	for _, notAfter := range []*atrium.Time{soon, later} {
		_, err := e.SchedulePage(t.Context(), e.change(), want.ID, atrium.Schedule{PublishAt: later, UnpublishAt: notAfter}, accept)
		wantFaultAt(t, err, "/unpublishAt")
	}
	e.wantPage(t, want)
	if _, err := e.TakePage(t.Context(), e.change(), want.ID, atrium.PagePublish, accept); err != nil {
		t.Fatal(err)
	}
	want.Status = atrium.PagePublished
	e.wantPage(t, want) // a manual transition keeps the schedule
	for range 2 {
		if err := e.UnschedulePage(t.Context(), e.change(), want.ID, accept); err != nil {
			t.Fatal(err)
		}
		want.Schedule = atrium.Schedule{}
		e.wantPage(t, want)
	}
	e.schedule(t, want.ID, soon, later)
	if err := e.DeletePage(t.Context(), e.change(), want.ID, accept); err != nil {
		t.Fatal(err)
	}
	want.DeletedAt = pointer(e.clock.instant())
	e.wantPage(t, want)
	e.wantAuditActions(t, string(want.ID), "page.create", "page.schedule", "page.schedule", "page.schedule", "page.publish",
		"page.unschedule", "page.schedule", "page.unschedule", "page.delete")
}

func scheduleDone(t *testing.T, e *env) {
	e = e.fresh(t)
	p := e.createPage(t)
	publish, unpublish := e.in(time.Minute), e.in(2*time.Minute)
	e.schedule(t, p.ID, publish, unpublish)
	e.clock.step(time.Minute - time.Millisecond)
	e.runDue(t, 0)
	e.clock.step(time.Millisecond)
	e.runDue(t, 1)
	p.Status, p.UpdatedAt, p.Schedule = atrium.PagePublished, e.clock.instant(), atrium.Schedule{UnpublishAt: unpublish}
	e.wantPage(t, p)
	e.clock.step(time.Hour)
	e.runDue(t, 1)
	e.runDue(t, 0)
	p.Status, p.UpdatedAt, p.Schedule = atrium.PageDraft, e.clock.instant(), atrium.Schedule{}
	e.wantPage(t, p)
	e.wantAuditActions(t, string(p.ID), "page.create", "page.schedule", "page.publish", "page.unpublish")
	act := e.auditRecords(t, string(p.ID))[2]
	if want := fmt.Sprintf("map[after:map[status:published] before:map[status:draft] dueAt:%s scheduledBy:key_test]", publish); act.actor != atrium.ActorSchedule || fmt.Sprint(act.detail) != want {
		t.Errorf("recorded %+v, want %s", act, want)
	}
}

func scheduleSkipped(t *testing.T, e *env) {
	e = e.fresh(t)
	p := e.createPage(t)
	e.schedule(t, p.ID, e.in(time.Minute), nil)
	if _, err := e.TakePage(t.Context(), e.change(), p.ID, atrium.PageArchive, accept); err != nil {
		t.Fatal(err)
	}
	e.clock.step(time.Hour)
	e.runDue(t, 1)
	e.runDue(t, 0)
	p.Status = atrium.PageArchived
	e.wantPage(t, p)
	e.wantAuditActions(t, string(p.ID), "page.create", "page.schedule", "page.archive", "page.schedule.skipped")
	detail := e.auditRecords(t, string(p.ID))[3].detail
	if detail["action"] != "publish" || detail["scheduledBy"] != "key_test" || detail["reason"] != "The page is in the state archived, which allows: restore." {
		t.Errorf("recorded %v", detail)
	}
}

func scheduleOnce(t *testing.T, e *env) {
	e = e.fresh(t)
	var all []atrium.PageID
	for range 8 {
		p := e.createPage(t)
		e.schedule(t, p.ID, e.in(time.Minute), nil)
		all = append(all, p.ID)
	}
	e.clock.step(time.Hour)
	e.onTwoNodes(t, func(e *env, _ int) {
		if _, _, err := e.RunDue(t.Context(), "", 100); err != nil {
			t.Errorf("run due actions: %v", err)
		}
	})
	for _, id := range all {
		e.wantStatus(t, id, atrium.PagePublished)
		e.wantAuditActions(t, string(id), "page.create", "page.schedule", "page.publish")
	}
	e.runDue(t, 0)
}

var errDied = errors.New("died before the commit")

// A failingCommits is a DB whose write transactions fail before the commit if fails returns true.
type failingCommits struct {
	engine.DB
	fails func() bool
}

func (db failingCommits) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error {
		if err := f(tx); err != nil || !db.fails() {
			return err
		}
		return errDied
	})
}

func scheduleSurvives(t *testing.T, e *env) {
	e = e.fresh(t)
	p := e.createPage(t)
	e.schedule(t, p.ID, e.in(time.Minute), nil)
	e.clock.step(time.Hour)
	node := store.New(failingCommits{e.open(), func() bool { return true }}, e.clock.now)
	if done, _, err := node.RunDue(t.Context(), "", 100); done != 0 || !errors.Is(err, errDied) {
		t.Fatalf("the node that died did %d, %v", done, err)
	}
	e.wantStatus(t, p.ID, atrium.PageDraft)
	e.runDue(t, 1)
	e.wantStatus(t, p.ID, atrium.PagePublished)
	e.wantAuditActions(t, string(p.ID), "page.create", "page.schedule", "page.publish")
}

func scheduleInTurn(t *testing.T, e *env) {
	e = e.fresh(t)
	var pages [3]atrium.PageID
	for i, at := range []time.Duration{2 * time.Minute, time.Minute, 3 * time.Minute} {
		pages[i] = e.createPage(t).ID
		e.schedule(t, pages[i], e.in(at), nil)
	}
	e.clock.step(time.Hour)
	if n, next, err := e.RunDue(t.Context(), "", 2); n != 1 || next != e.tenant || err != nil {
		t.Errorf("ran %d, %v, want one tenant's share", n, err)
	}
	e.wantStatus(t, pages[1], atrium.PagePublished)
	e.wantStatus(t, pages[0], atrium.PageDraft)
	e.runDue(t, 2)
	e.wantStatus(t, pages[2], atrium.PagePublished)
	e.runDue(t, 0)
}

func scheduleShared(t *testing.T, e *env) {
	e = e.fresh(t)
	busy, others := e.as(e.newTenant(t)), []*env{e.as(e.newTenant(t)), e.as(e.newTenant(t)), e.as(e.newTenant(t))}
	for range 60 {
		busy.schedule(t, busy.createPage(t).ID, e.in(time.Minute), nil)
	}
	var pages []atrium.PageID
	for _, o := range others {
		p := o.createPage(t).ID
		o.schedule(t, p, e.in(2*time.Minute), nil)
		pages = append(pages, p)
	}
	e.clock.step(time.Hour)
	var after atrium.TenantID
	total := 0
	for first := true; ; first = false {
		done, next, err := e.RunDue(t.Context(), after, 30)
		if err != nil {
			t.Fatal(err)
		}
		if first {
			for i, o := range others {
				o.wantStatus(t, pages[i], atrium.PagePublished)
			}
		}
		if total, after = total+done, next; done == 0 {
			break
		}
	}
	if total != 63 {
		t.Errorf("ran %d, want 63", total)
	}
}

// A dueOrder is a DB that records the tenants of the actions that it runs.
type dueOrder struct {
	engine.DB
	tenants *[]any
}

func (db dueOrder) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(dueOrderTx{tx, db.tenants}) })
}

type dueOrderTx struct {
	engine.Tx
	tenants *[]any
}

func (tx dueOrderTx) Exec(sql string, args ...any) (int64, error) {
	if strings.HasPrefix(sql, "DELETE FROM schedules") {
		*tx.tenants = append(*tx.tenants, args[0])
	}
	return tx.Tx.Exec(sql, args...)
}

func scheduleTakesTurns(t *testing.T, e *env) {
	e = e.fresh(t)
	busy, others := e.as(e.newTenant(t)), []*env{e.as(e.newTenant(t)), e.as(e.newTenant(t))}
	for range 6 {
		busy.schedule(t, busy.createPage(t).ID, e.in(time.Minute), nil)
	}
	for i, o := range others {
		o.schedule(t, o.createPage(t).ID, e.in(time.Duration(2+i)*time.Minute), nil)
	}
	e.clock.step(time.Hour)
	var got []any
	node := store.New(dueOrder{e.open(), &got}, e.clock.now)
	if _, next, err := node.RunDue(t.Context(), "", 100); err != nil || next != "" {
		t.Fatalf("continue after %q, %v", next, err)
	}
	want := []any{storedID(busy.tenant), storedID(others[0].tenant), storedID(others[1].tenant)}
	if len(got) < 3 || !reflect.DeepEqual(got[:3], want) {
		t.Errorf("ran actions of %x, want those of %x first", got, want)
	}
	e.runDue(t, 8-len(got))
}

func scheduleGoesOn(t *testing.T, e *env) {
	e = e.fresh(t)
	first, second := e.createPage(t), e.createPage(t)
	e.schedule(t, first.ID, e.in(time.Minute), nil)
	e.schedule(t, second.ID, e.in(2*time.Minute), nil)
	e.clock.step(time.Hour)
	times := 0
	node := store.New(failingCommits{e.open(), func() bool { times++; return times == 1 }}, e.clock.now)
	if done, _, err := node.RunDue(t.Context(), "", 100); done != 1 || !errors.Is(err, errDied) {
		t.Errorf("did %d, %v, want one and the error of the other", done, err)
	}
	e.wantStatus(t, first.ID, atrium.PageDraft)
	e.wantStatus(t, second.ID, atrium.PagePublished)
}

func scheduleCalledOff(t *testing.T, e *env) {
	e = e.fresh(t)
	off, moved := e.createPage(t), e.createPage(t)
	e.schedule(t, off.ID, e.in(time.Minute), nil)
	e.schedule(t, moved.ID, e.in(time.Minute), nil)
	e.clock.step(time.Hour)
	cancel := func() {
		if err := e.UnschedulePage(t.Context(), e.change(), off.ID, accept); err != nil {
			t.Error(err)
		}
		e.schedule(t, moved.ID, e.in(time.Minute), nil)
	}
	node := store.New(afterQuery{e.open(), cancel}, e.clock.now)
	if _, _, err := node.RunDue(t.Context(), "", 100); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, off.ID, atrium.PageDraft)
	e.wantStatus(t, moved.ID, atrium.PageDraft)
	e.clock.step(time.Hour)
	e.runDue(t, 1)
	e.wantStatus(t, moved.ID, atrium.PagePublished)
}

func nextSchedules(t *testing.T, e *env) {
	next := func(limit int) (all []string) {
		t.Helper()
		found, err := e.NextSchedules(t.Context(), e.tenant, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			all = append(all, fmt.Sprint(s.PageID, " ", s.Name, " ", s.Action, " ", s.DueAt))
		}
		return all
	}
	if got := next(10); len(got) != 0 {
		t.Errorf("a new tenant has %v", got)
	}
	late, soon := e.createPage(t), e.createPage(t)
	e.schedule(t, late.ID, e.in(3*time.Hour), e.in(5*time.Hour))
	e.schedule(t, soon.ID, e.in(time.Hour), nil)
	// Without effect: to publish what is published, to unpublish a draft, and any schedule of an archived page.
	published, draft, archived := e.createPage(t), e.createPage(t), e.createPage(t)
	e.schedule(t, published.ID, e.in(time.Minute), e.in(6*time.Hour))
	e.schedule(t, draft.ID, nil, e.in(time.Minute))
	e.schedule(t, archived.ID, e.in(time.Minute), e.in(2*time.Minute))
	e.transition(t, published.ID, atrium.PagePublish)
	e.transition(t, archived.ID, atrium.PageArchive)
	other := e.as(e.newTenant(t))
	other.schedule(t, other.createPage(t).ID, e.in(time.Minute), nil)
	want := []string{
		fmt.Sprint(soon.ID, " ", soon.Name, " publish ", *e.in(time.Hour)), fmt.Sprint(late.ID, " ", late.Name, " publish ", *e.in(3 * time.Hour)),
		fmt.Sprint(late.ID, " ", late.Name, " unpublish ", *e.in(5 * time.Hour)), fmt.Sprint(published.ID, " ", published.Name, " unpublish ", *e.in(6 * time.Hour)),
	}
	if got := next(10); !slices.Equal(got, want) {
		t.Errorf("next are %v, want %v", got, want)
	}
	if got := next(2); !slices.Equal(got, want[:2]) {
		t.Errorf("the next two are %v, want %v", got, want[:2])
	}
}

// An afterQuery is a DB that calls a function after each of its queries.
type afterQuery struct {
	engine.DB
	then func()
}

func (db afterQuery) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	err := db.DB.Query(ctx, sql, args, each)
	db.then()
	return err
}
