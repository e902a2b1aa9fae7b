package store

import (
	"context"
	"io"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
)

// Copy writes an embedded database to w as a file that can be opened, with all that was
// acknowledged before the call. begin is told first how many bytes that will be. It is
// an error on a database server.
func (s *Store) Copy(ctx context.Context, w io.Writer, begin func(size int64)) error {
	return kernel.Public(s.db.Engine.Copy(ctx, w, begin))
}

// OpenCopy returns the store at a file that Copy has written and that nobody changes.
// It can only be read, and nothing is made beside it.
func OpenCopy(path string) (*Store, error) {
	db, err := sqlite.Open(path, sqlite.Options{Immutable: true})
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
	names, err := s.db.Engine.Tables(ctx)
	if err != nil {
		return c, kernel.Public(err)
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		for _, name := range names {
			if err := engine.Find(tx.Query, `SELECT COUNT(*) FROM "`+name+`"`, nil, func(r engine.Row) { c.Rows[name] = r.Int(0) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.Schema, _, err = s.Schema(ctx)
	}
	return c, err
}
