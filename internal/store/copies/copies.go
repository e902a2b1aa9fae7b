// Package copies copies the data of tenants, or everything in a database, to another database of
// any engine, and compares the two. The register of tables (package register) says what it copies.
//
// A copy reads each table in the order of its primary key and stores it in batches, one transaction
// each. All of its state is in the target: the rows, and a setting that marks a tenant as incomplete.
// After an interruption, each table continues after its highest key. The row of the tenant and its
// keys come after everything else was compared, so that neither requests nor jobs use an incomplete
// tenant. Once they may, a copy that continues leaves its data alone.
package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// A Copier copies from one database to another. Both must have the newest schema. It is used by one
// goroutine.
type Copier struct {
	From, To *kernel.DB

	// Progress is called after each batch with the total number of rows of the source that were copied
	// or compared, or of rows that were deleted, by one goroutine at a time. It may be nil.
	Progress func(rows int64)

	rows int64
}

// errChanged is the advice for a conflict in the target.
var errChanged error = atrium.Errorf(atrium.CodeConflict, "Another copy is running, or the source has changed: run the command again.")

// tenantArg returns a tenant as an argument.
func tenantArg(id atrium.TenantID) any { return kernel.IDArg(id) }

// Tenant copies a tenant, or continues a copy that was interrupted, and returns what it compared. It
// returns NotFound if the source does not have the tenant, and Conflict if its copy there is not
// complete, if the target has data of it that is neither from an unfinished copy nor the same, or if a copy of
// everything to the target is not complete. If the databases differ at the end, the report says so,
// and the copy is not complete.
func (c *Copier) Tenant(ctx context.Context, id atrium.TenantID) (*Report, error) {
	r := newReport()
	// A copy of everything also copies the operators' audit log. The record that this copy appends there
	// would conflict with it.
	if _, everything, err := Unfinished(c.To.OutsideTx(ctx), 1); err != nil {
		return r, err
	} else if everything {
		return r, atrium.Errorf(atrium.CodeConflict, "A copy of everything to the target is not complete: continue it, or use another target.")
	}
	if err := c.begin(ctx, id); err != nil {
		return c.reportIfComplete(ctx, err, c.compareForRerun(id))
	}
	err := c.copyTenant(ctx, id, r)
	if err != nil || r.Different() {
		return r, err
	}
	if err := c.requireTenant(ctx, id); err != nil { // it was deleted in the meantime
		return r, err
	}
	return r, c.finish(ctx, id, r)
}

// begin marks a tenant as incomplete in the target.
func (c *Copier) begin(ctx context.Context, id atrium.TenantID) error {
	if err := c.requireTenant(ctx, id); err != nil {
		return err
	}
	value, marked, err := readMark(c.To.OutsideTx(ctx), register.Unfinished+string(id))
	switch {
	case err != nil:
		return err
	case value == discarding:
		return atrium.Errorf(atrium.CodeConflict, "The copy of %s is being discarded: run atrium copy --discard again.", id)
	case marked:
		return nil
	}
	for _, t := range tables() {
		if found, err := exists(c.To.OutsideTx(ctx), t.forTenant.last, tenantArg(id)); err != nil {
			return err
		} else if found {
			return occupiedError{atrium.Errorf(atrium.CodeConflict, "The target has data of %s already.", id)}
		}
	}
	return c.mark(ctx, register.Unfinished+string(id))
}

// requireTenant returns NotFound or Conflict unless the source has a complete tenant, which
// is not being deleted.
func (c *Copier) requireTenant(ctx context.Context, id atrium.TenantID) error {
	if incomplete, err := exists(c.From.OutsideTx(ctx), hasSetting, register.Unfinished+string(id)); err != nil {
		return err
	} else if incomplete {
		return errSourceIncomplete(id)
	}
	found, err := exists(c.From.OutsideTx(ctx), hasTenantToCopy, tenantArg(id))
	if err == nil && !found {
		err = atrium.Errorf(atrium.CodeNotFound, "The source has no tenant %s.", id)
	}
	return err
}

func errSourceIncomplete(id atrium.TenantID) error {
	return atrium.Errorf(atrium.CodeConflict, "The copy of %s in the source is not complete.", id)
}

// Statements for exists.
const (
	hasTenant       = "SELECT 1 FROM tenants WHERE tenant_id = $1"
	hasTenantToCopy = hasTenant + " AND deleting_at IS NULL"
	hasSetting      = "SELECT 1 FROM settings WHERE name = $1"
)

// exists reports whether a query returns a row.
func exists(query kernel.QueryFunc, sql string, args ...any) (found bool, err error) {
	err = query(sql, args, func(engine.Row) error {
		found = true
		return nil
	})
	return found, err
}

// The values of a setting that marks a copy as incomplete.
const (
	copying    = ""
	discarding = "discard"
)

// mark stores a setting that marks a copy as incomplete.
func (c *Copier) mark(ctx context.Context, name string) error {
	return c.To.Write(ctx, func(tx engine.Tx) error {
		n, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, []byte(copying))
		if err == nil && n == 0 {
			err = errChanged
		}
		return err
	})
}

// readMark returns the value of a setting that marks a copy as incomplete. query is a method Query or
// Lock.
func readMark(query kernel.QueryFunc, name string) (value string, found bool, err error) {
	err = query(readSetting, engine.Args{name}, func(r engine.Row) error {
		value, found = string(r.View(0)), true
		return nil
	})
	return value, found, err
}

// requireMark locks a mark until the end of the transaction. It returns Conflict unless it has the
// value: another run has completed the copy, or discards it.
func requireMark(tx engine.Tx, name, value string) error {
	now, found, err := readMark(tx.Lock, name)
	if err == nil && (!found || now != value) {
		err = errChanged
	}
	return err
}

// unmark deletes a mark. It returns Conflict unless it has the value.
func unmark(tx engine.Tx, name, value string) error {
	n, err := tx.Exec("DELETE FROM settings WHERE name = $1 AND value = $2", name, []byte(value))
	if err == nil && n == 0 {
		err = errChanged
	}
	return err
}

// copyTenant copies all tables of a tenant, and compares them. Jobs run schedules and erasures as
// soon as these are stored, so they come last, and their batches are only counted. If the target has
// the tenant already, an earlier run has compared the data, and jobs and requests may have changed it
// since: rows that the target has deleted must not be stored again.
func (c *Copier) copyTenant(ctx context.Context, id atrium.TenantID, r *Report) error {
	data, access, jobs := stages()
	continues, err := exists(c.To.OutsideTx(ctx), hasTenant, tenantArg(id))
	if err != nil {
		return err
	}
	if continues {
		r.Skipped++
	} else if err := c.copyStage(ctx, data, id, r); err != nil || r.Different() {
		return err
	}
	if err := c.requireTenant(ctx, id); err != nil { // it was deleted in the meantime
		return err
	}
	if err := c.copyStage(ctx, access, id, r); err != nil || r.Different() {
		return err
	}
	if !continues {
		r.Tenants++
	}
	for _, t := range jobs {
		if err := c.copyTable(ctx, t, id, tenantArg(id)); err != nil {
			return err
		}
	}
	return nil
}

// copyStage copies tables of a tenant, and then compares them.
func (c *Copier) copyStage(ctx context.Context, stage []*table, id atrium.TenantID, r *Report) error {
	for _, t := range stage {
		if err := c.copyTable(ctx, t, id, tenantArg(id)); err != nil {
			return err
		}
	}
	for _, t := range stage {
		if err := c.compareTable(ctx, t, id, tenantArg(id), r); err != nil {
			return err
		}
	}
	return nil
}

// stages returns the tables in the order in which they are copied: the data of a tenant, what lets
// requests use it, and what lets jobs change it.
func stages() (data, access, jobs []*table) {
	for _, t := range tables() {
		switch {
		case t.Kind == register.Distributed:
			data = append(data, t)
		case t.Name == "tenants" || t.Name == "api_keys" || t.Name == "users" || t.Name == "group_mappings" || t.Name == "receiver_tenants":
			access = append(access, t)
		default:
			jobs = append(jobs, t)
		}
	}
	return data, access, jobs
}

// finish removes the mark of a tenant, and records the copy in the audit log of the operators.
func (c *Copier) finish(ctx context.Context, id atrium.TenantID, r *Report) error {
	_, _, err := kernel.Mutate(ctx, c.To, atrium.CommandLine(atrium.OperatorChain), func(tx *kernel.Mutation) (struct{}, error) {
		detail := map[string]any{}
		if r.Skipped == 0 { // otherwise an earlier run has counted the rows
			detail["rows"] = r.Rows()
		}
		tx.RecordDetail("tenant.copy", string(id), detail)
		return struct{}{}, unmark(tx, register.Unfinished+string(id), copying)
	})
	return err
}

// copyTable copies the rows of a tenant, or of operators, that the target does not have. It reads a
// batch while it stores the previous one. id is the tenant, or the one that stands for operators.
func (c *Copier) copyTable(ctx context.Context, t *table, id atrium.TenantID, tenant any) error {
	if !t.Copied() {
		return nil
	}
	group, ctx := errgroup.WithContext(engine.ForTenant(ctx, string(id)))
	read := t.read(c.From.OutsideTx(ctx), tenant)
	if err := read.resume(c.To.OutsideTx(ctx)); err != nil {
		return err
	}
	batches := make(chan []engine.Args)
	group.Go(func() error {
		defer close(batches)
		for {
			rows, err := read.next()
			if err != nil || len(rows) == 0 {
				return err
			}
			select {
			case batches <- rows:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	group.Go(func() error {
		for rows := range batches {
			if err := c.store(ctx, t, id, rows); err != nil {
				return err
			}
			c.progressed(len(rows))
		}
		return nil
	})
	return group.Wait()
}

// store stores a batch unless another run has completed the copy, or discards it. Once the target has
// the tenant, it stores no more data.
func (c *Copier) store(ctx context.Context, t *table, tenant atrium.TenantID, rows []engine.Args) error {
	name := register.Unfinished + string(tenant)
	if tenant == atrium.OperatorChain {
		name = register.UnfinishedAll
	}
	keys, err := c.resealFor(t, tenant, rows)
	if err != nil {
		return err
	}
	err = c.To.Engine.Write(ctx, func(tx engine.Tx) error {
		if err := requireMark(tx, name, copying); err != nil {
			return err
		}
		if t.Kind == register.Distributed && tenant != atrium.OperatorChain {
			if usable, err := exists(tx.Query, hasTenant, tenantArg(tenant)); err != nil || usable {
				return cmp.Or(err, errChanged)
			}
		}
		for id := range keys {
			if err := kernel.RecordSecretKey(tx, id); err != nil {
				return err
			}
		}
		n, err := tx.Batch(t.insert, rows, nil)
		if err == nil && n != int64(len(rows)) {
			err = fmt.Errorf("%d of %d rows were stored", n, len(rows))
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case engine.ClassOf(err) == engine.Conflict, errors.Is(err, errChanged):
		return errChanged
	}
	return fmt.Errorf("store in %s: %w", t.Name, kernel.Public(err))
}

func (c *Copier) progressed(rows int) {
	c.rows += int64(rows)
	if c.Progress != nil {
		c.Progress(c.rows)
	}
}

// Discard deletes what an unfinished copy of a tenant has stored in the target. It first changes the
// mark, so that a copy that is still running stores nothing more. It returns NotFound if there is no such
// copy. It can be repeated after an interruption, and until it has succeeded, no copy of the tenant begins.
func (c *Copier) Discard(ctx context.Context, id atrium.TenantID) error {
	ctx = engine.ForTenant(ctx, string(id))
	name := register.Unfinished + string(id)
	if err := c.To.Write(ctx, func(tx engine.Tx) error {
		n, err := tx.Exec("UPDATE settings SET value = $1 WHERE name = $2", []byte(discarding), name)
		if err == nil && n == 0 {
			err = atrium.Errorf(atrium.CodeNotFound, "The target has no unfinished copy of %s.", id)
		}
		return err
	}); err != nil {
		return err
	}
	for d := NewDeletion(id); ; {
		rows, err := d.Next(c.To.OutsideTx(ctx))
		if err != nil {
			return err
		}
		if rows == nil {
			break
		}
		var n int64
		if err := c.To.Write(ctx, func(tx engine.Tx) (err error) {
			if err := requireMark(tx, name, discarding); err != nil {
				return err
			}
			n, err = rows.Delete(tx)
			return err
		}); err != nil {
			return fmt.Errorf("delete from %s: %w", rows.Table, err)
		}
		d.Done(rows)
		c.progressed(int(n))
	}
	return c.To.Write(ctx, func(tx engine.Tx) error { return unmark(tx, name, discarding) })
}
