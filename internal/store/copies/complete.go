package copies

import (
	"context"
	"crypto/rand"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// An occupiedError says that the target has data that is not from an unfinished copy. It may be from a complete one: a process that
// is killed after the end of a copy cannot report it.
type occupiedError struct{ error }

// Unwrap returns the error for the user.
func (e occupiedError) Unwrap() error { return e.error }

// errDiffers ends a comparison at the first difference.
var errDiffers = errors.New("the databases differ")

// reportIfComplete returns the report of a comparison if err says that the target is occupied, and it has the same data. Otherwise
// it returns err. A finished copy leaves no mark, which would not say what has changed since: only the comparison does.
func (c *Copier) reportIfComplete(ctx context.Context, err error, compare func(context.Context, *Report) error) (*Report, error) {
	occupied, ok := errors.AsType[occupiedError](err)
	if !ok {
		return newReport(), err
	}
	r := newReport()
	r.stopAtFirst = true
	switch err := compare(ctx, r); {
	case errors.Is(err, errDiffers):
		return newReport(), occupied.error
	case err != nil:
		return r, err
	case r.Different():
		return newReport(), occupied.error
	}
	if same, err := c.sameDatabase(ctx); err != nil {
		return r, err
	} else if same {
		return newReport(), atrium.Errorf(atrium.CodeConflict, "The source and the target are the same database.")
	}
	r.AlreadyCopied = true
	return r, nil
}

// compareForRerun returns a comparison of all of a tenant. It begins with the tenant and its keys: these are few rows, and most
// likely to differ.
func (c *Copier) compareForRerun(id atrium.TenantID) func(context.Context, *Report) error {
	return func(ctx context.Context, r *Report) error {
		first := newReport()
		first.stopAtFirst = true
		_, access, _ := stages()
		for _, t := range access {
			if err := c.compareTable(ctx, t, id, tenantArg(id), first); err != nil {
				return err
			}
		}
		return c.compareTenant(ctx, id, r)
	}
}

// compareEverythingForRerun compares everything. It begins with the settings, one of which is random.
func (c *Copier) compareEverythingForRerun(ctx context.Context, r *Report) error {
	first := newReport()
	if err := c.compareSettings(ctx, first); err != nil {
		return err
	}
	if first.Different() {
		return errDiffers
	}
	return c.compareEverything(ctx, r)
}

// sameDatabase reports whether the source and the target are one database, which two URLs can name. It stores a
// setting in the target for this.
func (c *Copier) sameDatabase(ctx context.Context) (same bool, err error) {
	value := []byte(rand.Text())
	if err := c.To.Write(ctx, func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", register.Probe, value)
		return err
	}); err != nil {
		return false, err
	}
	err = c.From.Query(ctx, readSetting, engine.Args{register.Probe}, func(r engine.Row) error {
		same = string(r.View(0)) == string(value)
		return nil
	})
	return same, errors.Join(err, c.To.Write(ctx, func(tx engine.Tx) error {
		_, err := tx.Exec("DELETE FROM settings WHERE name = $1", register.Probe)
		return err
	}))
}
