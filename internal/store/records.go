package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"atrium"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/records"
)

// The types of records that callers of the store need.
type (
	// Record is one object of a tenant; see records.Record.
	Record = records.Record
	// Import is a record to store; see records.Import.
	Import = records.Import
	// Imported is how many records were new; see records.Imported.
	Imported = records.Imported
	// MatchBy is how a prospect is matched; see records.MatchBy.
	MatchBy = records.MatchBy
	// Matcher derives identifiers of prospects; see records.Matcher.
	Matcher = records.Matcher
	// ImportError says which record cannot be stored; see records.ImportError.
	ImportError = records.ImportError
)

// The ways to match a prospect; see records.MatchBy.
const (
	ByIdentifier = records.ByIdentifier
	ByEmail      = records.ByEmail
	ByValues     = records.ByValues
)

// ErrChunkTooLarge says that a chunk must be split before it is imported; see records.
var ErrChunkTooLarge = records.ErrChunkTooLarge

// Rows estimates how many rows a record occupies; see records.Rows.
func Rows(r Record) int { return records.Rows(r) }

// A Trial imports records without storing them; see records.Trial. Close removes its scratch
// database.
type Trial struct {
	*records.Trial
	scratch *Store
	dir     string
}

// NewTrial returns a Trial for a tenant. acquire waits until the Trial may use the CPU; the Trial
// releases it between parts of its work.
func (s *Store) NewTrial(ctx context.Context, tenant atrium.TenantID, acquire func(context.Context) (release func(), err error)) (*Trial, error) {
	release, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := os.MkdirTemp("", "atrium-trial-")
	if err != nil {
		return nil, fmt.Errorf("create a scratch directory, see TMPDIR: %w", err)
	}
	db, err := sqlite.Open(filepath.Join(dir, "scratch.db"), sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	t := &Trial{scratch: New(db, s.db.Now), dir: dir}
	if _, err := t.scratch.Migrate(ctx); err != nil {
		t.Close()
		return nil, err
	}
	if _, _, err := t.scratch.AdoptTenant(ctx, atrium.CommandLine(atrium.OperatorChain), tenant, "Trial"); err != nil { // imports require it
		t.Close()
		return nil, err
	}
	t.Trial = records.NewTrial(s.recordStore, t.scratch.recordStore, tenant, acquire)
	return t, nil
}

// Close removes the scratch database.
func (t *Trial) Close() {
	_ = t.scratch.Close()
	_ = os.RemoveAll(t.dir)
}
