package pages

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A scheduled action is a row that is found by its time and deleted in the transaction that runs
// the action: the action runs once, however many nodes look for it, and a crash of a node leaves
// it to the others. A transaction that changes the rows of a page's schedule holds the lock of
// the page.

func scheduleFields(s *atrium.Schedule) kernel.Fields {
	return kernel.Fields{"publishAt": s.PublishAt, "unpublishAt": s.UnpublishAt}
}

// SchedulePage replaces the schedule of a page. It first calls check with the current page; an
// error of check ends the call. Instants in the past or in the wrong order are faults of the
// request. If the schedule is the same, nothing changes. It returns NotFound if the page does not
// exist, and Conflict if it is deleted.
func (s *Store) SchedulePage(ctx context.Context, c atrium.Change, id atrium.PageID, schedule atrium.Schedule, check func(atrium.ScheduledPage) error) (atrium.ScheduledPage, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		if faults := instantFaults(tx, schedule); len(faults) > 0 {
			return atrium.ScheduledPage{}, atrium.Invalid(faults...)
		}
		p, err := lockPage(tx, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		if p.DeletedAt != nil {
			return p, deleted()
		}
		if sameTime(p.Schedule.PublishAt, schedule.PublishAt) && sameTime(p.Schedule.UnpublishAt, schedule.UnpublishAt) {
			return p, nil
		}
		tx.Record("page.schedule", string(id), scheduleFields(&p.Schedule), scheduleFields(&schedule))
		p.Schedule = schedule
		return p, writeSchedule(tx, id, &schedule)
	})
	return p, err
}

func sameTime(a, b *atrium.Time) bool { return a == b || a != nil && b != nil && *a == *b }

// instantFaults returns the faults of instants that are not in the future or in the wrong order.
func instantFaults(tx *kernel.Mutation, s atrium.Schedule) (faults []atrium.Fault) {
	for _, instant := range []struct {
		name string
		at   *atrium.Time
	}{{"/publishAt", s.PublishAt}, {"/unpublishAt", s.UnpublishAt}} {
		if instant.at != nil && *instant.at <= tx.At {
			faults = append(faults, atrium.Fault{In: atrium.InBody, Where: instant.name, Detail: "must be in the future"})
		}
	}
	if len(faults) == 0 && s.PublishAt != nil && s.UnpublishAt != nil && *s.UnpublishAt <= *s.PublishAt {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/unpublishAt", Detail: "must be after publishAt"})
	}
	return faults
}

// A scheduledAction is an action of a schedule and its time.
type scheduledAction struct {
	Action atrium.PageTransition
	At     atrium.Time
}

// ScheduledActions returns the actions of a schedule.
func ScheduledActions(s *atrium.Schedule) (all []scheduledAction) {
	if s.PublishAt != nil {
		all = append(all, scheduledAction{atrium.PagePublish, *s.PublishAt})
	}
	if s.UnpublishAt != nil {
		all = append(all, scheduledAction{atrium.PageUnpublish, *s.UnpublishAt})
	}
	return all
}

// writeSchedule replaces the schedule of a page.
func writeSchedule(tx *kernel.Mutation, id atrium.PageID, schedule *atrium.Schedule) error {
	tenant := kernel.IDArg(tx.Change.TenantID)
	if _, err := tx.Exec("DELETE FROM schedules WHERE tenant_id = $1 AND page_id = $2", tenant, kernel.IDArg(id)); err != nil {
		return err
	}
	for _, m := range ScheduledActions(schedule) {
		if _, err := tx.Exec("INSERT INTO schedules (tenant_id, page_id, action, due_at, actor, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
			tenant, kernel.IDArg(id), string(m.Action), int64(m.At), tx.Change.Actor, int64(tx.At)); err != nil {
			return err
		}
	}
	return nil
}

// UnschedulePage removes the schedule of a page, if it has one. It first calls check with the
// current page; an error of check ends the call. It returns NotFound if the page does not exist.
func (s *Store) UnschedulePage(ctx context.Context, c atrium.Change, id atrium.PageID, check func(atrium.ScheduledPage) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		p, err := lockPage(tx, id)
		if err != nil {
			return none, err
		}
		if err := check(p); err != nil {
			return none, err
		}
		return none, unschedule(tx, &p)
	})
	return err
}

// unschedule removes the schedule of a page.
func unschedule(tx *kernel.Mutation, p *atrium.ScheduledPage) error {
	if p.Schedule == (atrium.Schedule{}) {
		return nil
	}
	none := atrium.Schedule{}
	tx.Record("page.unschedule", string(p.ID), scheduleFields(&p.Schedule), scheduleFields(&none))
	p.Schedule = none
	return writeSchedule(tx, p.ID, &none)
}

// maxNextSchedules is how many schedules of a tenant NextSchedules looks at.
const maxNextSchedules = 1000

// selectNextSchedules leaves out schedules that have no effect unless the status of the page changes first: to publish
// what is no draft, and to unpublish what is neither published nor published by its schedule before.
var selectNextSchedules = `SELECT s.page_id, p.name, s.action, s.due_at
	FROM (SELECT page_id, action, due_at FROM schedules WHERE tenant_id = $1 ORDER BY due_at, page_id, action LIMIT ` + strconv.Itoa(maxNextSchedules) + `) s
	JOIN pages p ON p.tenant_id = $1 AND p.page_id = s.page_id
	WHERE CASE WHEN s.action = 'publish' THEN p.status = 'draft'
		ELSE p.status = 'published' OR p.status = 'draft' AND EXISTS (
			SELECT 1 FROM schedules f WHERE f.tenant_id = $1 AND f.page_id = s.page_id AND f.action = 'publish') END
	ORDER BY s.due_at, s.page_id, s.action LIMIT $2`

// NextSchedules returns up to limit schedules of a tenant that have an effect, the first one that is due first.
func (s *Store) NextSchedules(ctx context.Context, tenant atrium.TenantID, limit int) (next []atrium.DueSchedule, err error) {
	err = s.db.Query(ctx, selectNextSchedules,
		engine.Args{kernel.IDArg(tenant), int64(limit)}, func(r engine.Row) error {
			next = append(next, atrium.DueSchedule{PageID: kernel.IDAt[atrium.PageID](r, 0), Name: r.Text(1), Action: r.Text(2), DueAt: atrium.Time(r.Int(3))})
			return nil
		})
	return next, err
}

// A dueAction is a scheduled action whose time has come.
type dueAction struct {
	tenant atrium.TenantID
	page   atrium.PageID
	action atrium.PageTransition
	at     atrium.Time
	actor  string // that scheduled it
}

const dueColumns = "SELECT tenant_id, page_id, action, due_at, actor FROM schedules WHERE "

func scanDue(r engine.Row) dueAction {
	return dueAction{
		kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.PageID](r, 1), atrium.PageTransition(r.Text(2)), atrium.Time(r.Int(3)), r.Text(4),
	}
}

// RunDue runs up to limit actions that are due, each in its own transaction, and returns how many
// it ran or found run by another node. It runs one action of each tenant in turn, the earliest
// first, with pauses (kernel.DB.InTurn), and leaves the rest to the next call after some time. If
// more than limit are due, it finds them tenant by tenant, starting after the tenant after, so that
// one tenant with many does not delay the others; next is the tenant to continue after, "" if no
// more are due. An action that fails stays due and does not prevent the others, unless the database is
// unavailable.
func (s *Store) RunDue(ctx context.Context, after atrium.TenantID, limit int) (done int, next atrium.TenantID, err error) {
	var all []dueAction
	now := int64(atrium.At(s.db.Now()))
	if err := s.db.Query(ctx, dueColumns+"due_at <= $1 ORDER BY due_at, tenant_id, page_id, action LIMIT $2",
		engine.Args{now, int64(limit) + 1}, func(r engine.Row) error {
			all = append(all, scanDue(r))
			return nil
		}); err != nil {
		return 0, after, err
	}
	if len(all) > limit {
		if all, next, err = s.dueInTurns(ctx, now, after, limit); err != nil {
			return 0, after, err
		}
	}
	done, err = s.runAll(ctx, all)
	return done, next, err
}

// How RunDue divides its limit among tenants when more actions are due.
const (
	dueTenants = 100 // tenants in one run
	dueShare   = 10  // a tenant gets 1/dueShare of the limit
)

// dueInTurns returns up to limit due actions of tenants after the given one, wrapping around to
// the first, with an equal share for each.
func (s *Store) dueInTurns(ctx context.Context, now int64, after atrium.TenantID, limit int) (all []dueAction, next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, dueTenants)
	if err == nil && len(tenants) < dueTenants && after != "" {
		var first []atrium.TenantID
		first, err = s.db.TenantsAfter(ctx, "", dueTenants-len(tenants))
		for _, tenant := range first {
			if tenant <= after {
				tenants = append(tenants, tenant)
			}
		}
	}
	if err != nil {
		return nil, "", err
	}
	for _, tenant := range tenants {
		if len(all) == limit {
			break
		}
		next = tenant
		share := min(max(1, limit/dueShare), limit-len(all))
		if err := s.db.Query(ctx, dueColumns+"tenant_id = $1 AND due_at <= $2 ORDER BY due_at, page_id, action LIMIT $3",
			engine.Args{kernel.IDArg(tenant), now, int64(share)}, func(r engine.Row) error {
				all = append(all, scanDue(r))
				return nil
			}); err != nil {
			return nil, "", err
		}
	}
	return all, next, nil
}

// maxTimePerRun is how long RunDue runs actions, apart from one of each tenant. The next call finds
// actions of other tenants that became due in the meantime.
const maxTimePerRun = 250 * time.Millisecond

// runAll runs due actions, one of each tenant in turn, and returns how many it ran.
func (s *Store) runAll(ctx context.Context, all []dueAction) (done int, err error) {
	var failed []error
	var tenants []atrium.TenantID
	ofTenant := map[atrium.TenantID][]dueAction{}
	for _, d := range all {
		if ofTenant[d.tenant] == nil {
			tenants = append(tenants, d.tenant)
		}
		ofTenant[d.tenant] = append(ofTenant[d.tenant], d)
	}
	deadline := s.db.Now().Add(maxTimePerRun)
	err = s.db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (more bool, err error) {
		d := ofTenant[tenant][0]
		ofTenant[tenant] = ofTenant[tenant][1:]
		err = s.runDue(ctx, d)
		switch {
		case atrium.CodeOf(err) == atrium.CodeUnavailable:
			return false, err
		case errors.Is(err, atrium.ErrNoTenant): // another job deletes its schedules
			return false, nil
		case err != nil:
			failed = append(failed, fmt.Errorf("%s of %s of %s: %w", d.action, d.page, d.tenant, err))
		default:
			done++
		}
		return len(ofTenant[tenant]) > 0 && s.db.Now().Before(deadline), nil
	})
	return done, errors.Join(append(failed, err)...)
}

// runDue runs an action unless it was run or canceled since it was found. If the state of the
// page does not allow it, the audit log gets the reason instead.
func (s *Store) runDue(ctx context.Context, d dueAction) error {
	c := atrium.Change{TenantID: d.tenant, Actor: atrium.ActorSchedule}
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		p, err := lockPage(tx, d.page)
		if err != nil {
			return none, err
		}
		deleted, err := tx.Exec("DELETE FROM schedules WHERE tenant_id = $1 AND page_id = $2 AND action = $3 AND due_at = $4",
			kernel.IDArg(d.tenant), kernel.IDArg(d.page), string(d.action), int64(d.at))
		if err != nil || deleted == 0 {
			return none, err
		}
		detail := map[string]any{"scheduledBy": d.actor, "dueAt": d.at}
		before := p.Page
		to, err := transition(&before, d.action)
		if err != nil {
			refused, _ := errors.AsType[*atrium.Error](err)
			detail["action"], detail["reason"] = d.action, refused.Detail
			tx.RecordDetail("page.schedule.skipped", string(d.page), detail)
			return none, nil
		}
		p.Status, p.UpdatedAt = to, max(p.UpdatedAt, tx.At)
		detail["before"], detail["after"] = map[string]any{"status": before.Status}, map[string]any{"status": p.Status}
		tx.RecordDetail("page."+string(d.action), string(d.page), detail)
		return none, writePage(tx, &p.Page)
	})
	return err
}
