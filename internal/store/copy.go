package store

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/copies"
	"atrium/internal/store/kernel"
)

// CopyReport is the result of a copy to another database; see copies.Report.
type CopyReport = copies.Report

// CopyOptions select what is copied to another database.
type CopyOptions struct {
	Tenant   atrium.TenantID  // "" for everything
	Progress func(rows int64) // see copies.Copier; nil for none
}

// CopyTo copies a tenant or everything to another database, of any engine, or continues a copy that
// was interrupted; see copies.Copier. The source must not change during the copy, except by jobs that
// delete expired rows or update the activity of accounts. Rows are stored in bounded transactions. The
// report says whether the databases are the same at the end; the copy is complete only if they are.
func (s *Store) CopyTo(ctx context.Context, to *Store, o CopyOptions) (*CopyReport, error) {
	c, err := s.copier(ctx, to, o)
	switch {
	case err != nil:
		return nil, err
	case o.Tenant != "":
		return publicReport(c.Tenant(ctx, o.Tenant))
	default:
		return publicReport(c.Everything(ctx))
	}
}

// CompareTo compares what CopyTo copies, and changes nothing.
func (s *Store) CompareTo(ctx context.Context, to *Store, o CopyOptions) (*CopyReport, error) {
	c, err := s.copier(ctx, to, o)
	switch {
	case err != nil:
		return nil, err
	case o.Tenant != "":
		return publicReport(c.CompareTenant(ctx, o.Tenant))
	default:
		return publicReport(c.CompareEverything(ctx))
	}
}

// DiscardCopy deletes what an unfinished copy of a tenant has stored in this database. It returns
// NotFound if there is none.
func (s *Store) DiscardCopy(ctx context.Context, o CopyOptions) error {
	if err := s.requireNewest(ctx, "target"); err != nil {
		return err
	}
	c := &copies.Copier{To: s.db, Progress: o.Progress}
	return kernel.Public(c.Discard(ctx, o.Tenant))
}

func (s *Store) copier(ctx context.Context, to *Store, o CopyOptions) (*copies.Copier, error) {
	if err := s.requireNewest(ctx, "source"); err != nil {
		return nil, err
	}
	if err := to.requireNewest(ctx, "target"); err != nil {
		return nil, err
	}
	return &copies.Copier{From: s.db, To: to.db, Progress: o.Progress}, nil
}

// requireNewest returns an error unless the database has exactly the schema of this binary: the
// register describes no other.
func (s *Store) requireNewest(ctx context.Context, role string) error {
	switch at, newest, err := s.Schema(ctx); {
	case err != nil:
		return fmt.Errorf("%s: %w", role, err)
	case at < newest:
		return fmt.Errorf("the %s has migration %d of %d: run atrium migrate on it", role, at, newest)
	case at > newest:
		return fmt.Errorf("the %s has migration %d and this binary knows %d: use the binary of that release", role, at, newest)
	}
	return nil
}

func publicReport(r *CopyReport, err error) (*CopyReport, error) { return r, kernel.Public(err) }

// maxUnfinished is the maximum number of results of UnfinishedCopies.
const maxUnfinished = 100

// UnfinishedCopies returns the tenants whose copy to this database is not complete, at most
// maxUnfinished, and whether a copy of everything is not complete. The schema must be up to date.
func (s *Store) UnfinishedCopies(ctx context.Context) (tenants []atrium.TenantID, everything bool, err error) {
	return copies.Unfinished(s.db.OutsideTx(ctx), maxUnfinished)
}
