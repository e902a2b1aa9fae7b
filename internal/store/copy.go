package store

import (
	"context"
	"io"
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store/engine"
	"atrium/internal/store/migrations"
)

// Copy writes an embedded database to w as a file that can be opened, with all that was
// acknowledged before the call. begin is told first how many bytes that will be. It is
// an error on a database server.
func (s *Store) Copy(ctx context.Context, w io.Writer, begin func(size int64)) error {
	return public(s.db.Copy(ctx, w, begin))
}

// OpenCopy returns the store at a file that Copy has written and that nobody changes.
// It can only be read, and nothing is made beside it.
func OpenCopy(path string) (*Store, error) {
	db, err := engine.OpenSQLite(path, engine.SQLiteOptions{Immutable: true})
	if err != nil {
		return nil, err
	}
	return New(db, time.Now), nil
}

// Contents are what an embedded database holds, in numbers.
type Contents struct {
	Schema int64            `json:"schema"` // the newest migration it has; 0 for none
	Rows   map[string]int64 `json:"rows"`   // by table
}

// Contents counts what an embedded database holds. It reads all of it.
func (s *Store) Contents(ctx context.Context) (Contents, error) {
	c := Contents{Rows: map[string]int64{}}
	err := s.read(ctx, func(tx engine.Tx) error {
		var names []string
		if err := tx.Query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name", nil, func(r engine.Row) error {
			names = append(names, r.Text(0))
			return nil
		}); err != nil {
			return err
		}
		for _, name := range names {
			if err := engine.Find(tx.Query, `SELECT COUNT(*) FROM "`+name+`"`, nil, func(r engine.Row) { c.Rows[name] = r.Int(0) }); err != nil {
				return err
			}
		}
		if _, ok := c.Rows["schema_migrations"]; !ok {
			return nil
		}
		return engine.Find(tx.Query, "SELECT COALESCE(MAX(number), 0) FROM schema_migrations", nil, func(r engine.Row) { c.Schema = r.Int(0) })
	})
	return c, err
}

// Schema returns the newest migration that the database has, 0 for none, and the newest
// that this binary has for it.
func (s *Store) Schema(ctx context.Context) (at, newest int64, err error) {
	all, err := migrations.For(s.db.Name())
	if err != nil {
		return 0, 0, err
	}
	err = s.find(ctx, "SELECT COALESCE(MAX(number), 0) FROM schema_migrations", nil, func(r engine.Row) { at = r.Int(0) })
	if err != nil && !isPublic(err) && engine.ClassOf(err) == engine.Internal {
		err = nil // there is no such table before the first migration
	}
	return at, int64(len(all)), err
}

// VerifyAudits verifies the audit logs of all tenants and of the operators, and calls
// broken with each that has a fault. The schema has audit logs.
func (s *Store) VerifyAudits(ctx context.Context, broken func(atrium.TenantID, auditlog.Fault)) error {
	verify := func(chain atrium.TenantID) error {
		report, err := s.VerifyAudit(ctx, chain, nil)
		if err == nil && report.Fault != nil {
			broken(chain, *report.Fault)
		}
		return err
	}
	if err := verify(atrium.OperatorChain); err != nil {
		return err
	}
	const chunk = 100
	for after := (*atrium.Position)(nil); ; {
		tenants, more, err := s.Tenants(ctx, after, chunk)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if err := verify(t.ID); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		after = atrium.PositionAt(tenants[len(tenants)-1].CreatedAt, tenants[len(tenants)-1].ID)
	}
}
