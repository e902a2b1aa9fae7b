package pages

import (
	"context"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// What is scheduled is a row that is found by its time, and deleted in the
// transaction that does it: it is done once, however many nodes look for it, and
// it stays if the node dies. Whoever changes rows of a page's schedule holds the
// lock of the page.

func scheduleFields(s *atrium.Schedule) kernel.Fields {
	return kernel.Fields{"publishAt": s.PublishAt, "unpublishAt": s.UnpublishAt}
}

// SchedulePage gives a page a schedule in place of the one that it has. The page as
// it stands is first given to check, whose error ends the call. Instants that are
// not in the future, or not in their order, are faults of the request. It is NotFound if there is no such
// page, and Conflict if it is deleted. What is as it was changes nothing.
func (s *Store) SchedulePage(ctx context.Context, c atrium.Change, id atrium.PageID, schedule atrium.Schedule, check func(atrium.ScheduledPage) error) (atrium.ScheduledPage, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		if faults := misplaced(tx, schedule); len(faults) > 0 {
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

// misplaced returns the faults of instants that are not in the future, or not in
// their order.
func misplaced(tx *kernel.Mutation, s atrium.Schedule) (faults []atrium.Fault) {
	for _, moment := range []struct {
		name string
		at   *atrium.Time
	}{{"/publishAt", s.PublishAt}, {"/unpublishAt", s.UnpublishAt}} {
		if moment.at != nil && *moment.at <= tx.At {
			faults = append(faults, atrium.Fault{In: atrium.InBody, Where: moment.name, Detail: "must be in the future"})
		}
	}
	if len(faults) == 0 && s.PublishAt != nil && s.UnpublishAt != nil && *s.UnpublishAt <= *s.PublishAt {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/unpublishAt", Detail: "must be after publishAt"})
	}
	return faults
}

// A moment is what is done at a time.
type moment struct {
	Action atrium.PageTransition
	At     atrium.Time
}

// Moments returns what a schedule says.
func Moments(s *atrium.Schedule) (all []moment) {
	if s.PublishAt != nil {
		all = append(all, moment{atrium.PagePublish, *s.PublishAt})
	}
	if s.UnpublishAt != nil {
		all = append(all, moment{atrium.PageUnpublish, *s.UnpublishAt})
	}
	return all
}

// writeSchedule makes a schedule the only one of a page.
func writeSchedule(tx *kernel.Mutation, id atrium.PageID, schedule *atrium.Schedule) error {
	tenant := kernel.IDArg(tx.Change.TenantID)
	if _, err := tx.Exec("DELETE FROM schedules WHERE tenant_id = $1 AND page_id = $2", tenant, kernel.IDArg(id)); err != nil {
		return err
	}
	for _, m := range Moments(schedule) {
		if _, err := tx.Exec("INSERT INTO schedules (tenant_id, page_id, action, due_at, actor, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
			tenant, kernel.IDArg(id), string(m.Action), int64(m.At), tx.Change.Actor, int64(tx.At)); err != nil {
			return err
		}
	}
	return nil
}

// UnschedulePage takes the schedule of a page away, if it has one. The page as it
// stands is first given to check, whose error ends the call. It is NotFound if there
// is no such page.
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

// unschedule takes the schedule of a page away.
func unschedule(tx *kernel.Mutation, p *atrium.ScheduledPage) error {
	if p.Schedule == (atrium.Schedule{}) {
		return nil
	}
	none := atrium.Schedule{}
	tx.Record("page.unschedule", string(p.ID), scheduleFields(&p.Schedule), scheduleFields(&none))
	p.Schedule = none
	return writeSchedule(tx, p.ID, &none)
}

// A due is a row of a schedule whose time has come.
type due struct {
	tenant atrium.TenantID
	page   atrium.PageID
	action atrium.PageTransition
	at     atrium.Time
	actor  string // who scheduled it
}

const dueColumns = "SELECT tenant_id, page_id, action, due_at, actor FROM schedules WHERE "

func scanDue(r engine.Row) due {
	return due{
		kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.PageID](r, 1), atrium.PageTransition(r.Text(2)), atrium.Time(r.Int(3)), r.Text(4),
	}
}

// RunDue runs up to limit schedules that are due, each in a transaction of its own, and
// returns how many it ran or found done by another node. If no more than limit are due, the
// earliest run first. If more are due, tenants take turns, beginning after the tenant after,
// so that one with many does not delay those of others; next is the tenant to go on after.
// A schedule that fails remains, and does not prevent those after it, unless the database
// is unavailable.
func (s *Store) RunDue(ctx context.Context, after atrium.TenantID, limit int) (done int, next atrium.TenantID, err error) {
	var all []due
	now := int64(atrium.At(s.db.Now()))
	if err := s.db.Query(ctx, dueColumns+"due_at <= $1 ORDER BY due_at, tenant_id, page_id, action LIMIT $2",
		engine.Args{now, int64(limit) + 1}, func(r engine.Row) error {
			all = append(all, scanDue(r))
			return nil
		}); err != nil {
		return 0, after, err
	}
	next = after
	if len(all) > limit {
		if all, next, err = s.dueInTurns(ctx, now, after, limit); err != nil {
			return 0, after, err
		}
	}
	done, err = s.runAll(ctx, all)
	return done, next, err
}

// How RunDue shares its limit when more schedules are due.
const (
	dueTenants = 100 // looked at in one run
	dueShare   = 10  // a tenant gets 1/dueShare of the limit
)

// dueInTurns returns up to limit schedules that are due, of tenants after the given one, and
// from the first again, as many of each.
func (s *Store) dueInTurns(ctx context.Context, now int64, after atrium.TenantID, limit int) (all []due, next atrium.TenantID, err error) {
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

// runAll runs schedules and returns how many were run.
func (s *Store) runAll(ctx context.Context, all []due) (done int, err error) {
	var failed []error
	for _, d := range all {
		err := s.runDue(ctx, d)
		if atrium.CodeOf(err) == atrium.CodeUnavailable {
			return done, errors.Join(append(failed, err)...)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s of %s of %s: %w", d.action, d.page, d.tenant, err))
			continue
		}
		done++
	}
	return done, errors.Join(failed...)
}

// runDue does what is due, unless it was done or called off meanwhile. If the page
// does not allow it, that is recorded instead.
func (s *Store) runDue(ctx context.Context, d due) error {
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
