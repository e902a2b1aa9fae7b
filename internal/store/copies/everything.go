package copies

import (
	"context"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

const readSetting = "SELECT value FROM settings WHERE name = $1"

// tenantsPerPage is how many tenants are listed by one query.
const tenantsPerPage = 100

// Everything copies all tenants, the keys and audit log of operators, and the settings that belong
// to the data, or continues a copy that was interrupted. It returns Conflict if a copy to the source
// is not complete, or if the target has data that is neither from an unfinished copy of everything nor
// the same. If the databases differ at the end, the report says so, and the copy is not complete.
func (c *Copier) Everything(ctx context.Context) (*Report, error) {
	r := newReport()
	if err := c.requireAll(ctx); err != nil {
		return r, err
	}
	if err := c.beginAll(ctx); err != nil {
		return c.reportIfComplete(ctx, err, c.compareEverythingForRerun)
	}
	err := eachTenant(ctx, c.From, func(id atrium.TenantID) error {
		if done, err := c.isComplete(ctx, id); err != nil {
			return err
		} else if done {
			r.Skipped++
			return nil
		}
		if err := c.begin(ctx, id); err != nil {
			return err
		}
		if err := c.copyTenant(ctx, id, r); err != nil || r.Different() {
			return err
		}
		return c.To.Write(ctx, func(tx engine.Tx) error { return unmark(tx, register.Unfinished+string(id), copying) })
	})
	if err != nil || r.Different() {
		return r, err
	}
	if err := c.copyOperators(ctx); err != nil {
		return r, err
	}
	if err := c.compareOperators(ctx, r); err != nil || r.Different() {
		return r, err
	}
	return r, c.To.Write(ctx, func(tx engine.Tx) error { return unmark(tx, register.UnfinishedAll, copying) })
}

// Unfinished returns tenants whose copy to a database is not complete, up to limit, and whether a copy
// of everything is not complete. With a limit of 1, there are no tenants in the latter case.
func Unfinished(query kernel.QueryFunc, limit int) (tenants []atrium.TenantID, everything bool, err error) {
	const after = "copy0" // the next text after all that begin with register.Unfinished
	err = query("SELECT name FROM settings WHERE name >= $1 AND name < $2 ORDER BY name LIMIT $3",
		engine.Args{register.UnfinishedAll, after, int64(limit)}, func(r engine.Row) error {
			if id, ok := strings.CutPrefix(r.Text(0), register.Unfinished); ok {
				tenants = append(tenants, atrium.TenantID(id))
			} else if r.Text(0) == register.UnfinishedAll {
				everything = true
			}
			return nil
		})
	return tenants, everything, err
}

// requireAll returns Conflict if a copy to the source is not complete: the source has no row of a
// tenant of which it lacks data.
func (c *Copier) requireAll(ctx context.Context) error {
	tenants, everything, err := Unfinished(c.From.OutsideTx(ctx), 1)
	switch {
	case err != nil:
		return err
	case everything:
		return atrium.Errorf(atrium.CodeConflict, "The copy of everything in the source is not complete.")
	case len(tenants) > 0:
		return errSourceIncomplete(tenants[0])
	}
	return nil
}

// beginAll marks the target as incomplete.
func (c *Copier) beginAll(ctx context.Context) error {
	unfinished, everything, err := Unfinished(c.To.OutsideTx(ctx), 1)
	switch {
	case err != nil || everything:
		return err
	case len(unfinished) > 0:
		return atrium.Errorf(atrium.CodeConflict, "The target has an unfinished copy of %s: run atrium copy --discard --tenant %s.", unfinished[0], unfinished[0])
	}
	if tenants, err := c.To.TenantsAfter(ctx, "", 1); err != nil {
		return err
	} else if len(tenants) > 0 {
		return occupiedError{atrium.Errorf(atrium.CodeConflict, "The target has the tenant %s already: "+
			"copy everything to an empty database, or one tenant with --tenant.", tenants[0])}
	}
	for _, t := range operatorTables() {
		s, args := t.statementsFor(t.operator())
		if found, err := exists(c.To.OutsideTx(ctx), s.last, args...); err != nil {
			return err
		} else if found {
			return occupiedError{atrium.Errorf(atrium.CodeConflict, "The target has data of operators in %s already: copy everything to an empty database.", t.Name)}
		}
	}
	return c.mark(ctx, register.UnfinishedAll)
}

// isComplete reports whether an earlier run has completed a tenant.
func (c *Copier) isComplete(ctx context.Context, id atrium.TenantID) (bool, error) {
	marked, err := exists(c.To.OutsideTx(ctx), hasSetting, register.Unfinished+string(id))
	if err != nil || marked {
		return false, err
	}
	return exists(c.To.OutsideTx(ctx), hasTenant, tenantArg(id))
}

// eachTenant calls f for every tenant that is not being deleted, by identifier.
func eachTenant(ctx context.Context, db *kernel.DB, f func(atrium.TenantID) error) error {
	for after := atrium.TenantID(""); ; {
		ids, err := db.TenantsAfter(ctx, after, tenantsPerPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := f(id); err != nil {
				return err
			}
		}
		after = ids[len(ids)-1]
	}
}

// operatorTables returns the tables that have data of operators: the keys without a tenant, and the
// users, groups and data of the tenant that stands for operators.
func operatorTables() (some []*table) {
	data, _, _ := stages()
	for _, t := range tables() {
		if t.Name == "api_keys" || t.Name == "users" || t.Name == "group_mappings" {
			data = append(data, t)
		}
	}
	return data
}

// operator returns the tenant of operators in a table, nil for none.
func (t *table) operator() any {
	if t.Name == "api_keys" {
		return nil
	}
	return tenantArg(atrium.OperatorChain)
}

func (c *Copier) copyOperators(ctx context.Context) error {
	for _, t := range operatorTables() {
		if err := c.copyTable(ctx, t, atrium.OperatorChain, t.operator()); err != nil {
			return err
		}
	}
	for name, copying := range register.Settings {
		if copying != register.Copied {
			continue
		}
		var value []byte
		if err := c.From.Query(ctx, readSetting, engine.Args{name}, func(row engine.Row) error {
			value = row.Bytes(0)
			return nil
		}); err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := c.To.Write(ctx, func(tx engine.Tx) error { // a server may have created it
			_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Copier) compareOperators(ctx context.Context, r *Report) error {
	for _, t := range operatorTables() {
		if err := c.compareTable(ctx, t, "", t.operator(), r); err != nil {
			return err
		}
	}
	return c.compareSettings(ctx, r)
}

// CompareEverything compares all that Everything copies. A tenant that only the target has, or that the
// source is deleting, is a difference in the table tenants. It returns Conflict if a copy to the source is
// not complete.
func (c *Copier) CompareEverything(ctx context.Context) (*Report, error) {
	r := newReport()
	if err := c.requireAll(ctx); err != nil {
		return r, err
	}
	return r, c.compareEverything(ctx, r)
}

func (c *Copier) compareEverything(ctx context.Context, r *Report) error {
	if err := eachTenant(ctx, c.From, func(id atrium.TenantID) error { return c.compareTenant(ctx, id, r) }); err != nil {
		return err
	}
	if err := eachTenant(ctx, c.To, func(id atrium.TenantID) error {
		if found, err := exists(c.From.OutsideTx(ctx), hasTenantToCopy, tenantArg(id)); err != nil || found {
			return err
		}
		return c.addMissing(ctx, id, r)
	}); err != nil {
		return err
	}
	return c.compareOperators(ctx, r)
}

// addMissing adds a tenant of the target that the source does not have, or is deleting, to the
// differences. While the source is deleting it, its other rows may still be equal.
func (c *Copier) addMissing(ctx context.Context, id atrium.TenantID, r *Report) error {
	all := tables()
	t := all[slices.IndexFunc(all, func(t *table) bool { return t.Name == "tenants" })]
	none, err := (&reader{table: t, done: true}).sum(0, c.progressed)
	if err != nil {
		return err
	}
	found, err := t.read(c.To.OutsideTx(ctx), tenantArg(id)).sum(0, c.progressed)
	if err != nil {
		return err
	}
	r.add(id, t.Name, none, found)
	return nil
}
