package store

import (
	"context"
	"io"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
)

// WriteBackup writes an embedded database to w as a database file with everything that was acknowledged
// before the call. It first calls begin with the size of the file in bytes. It returns an error
// on a database server.
func (s *Store) WriteBackup(ctx context.Context, w io.Writer, begin func(size int64)) error {
	return kernel.Public(s.db.Engine.Copy(ctx, w, begin))
}

// OpenBackup opens a file that WriteBackup has written, for reading. The file must not change while it
// is open. OpenBackup creates no files next to it.
func OpenBackup(path string) (*Store, error) {
	db, err := sqlite.Open(path, sqlite.Options{Immutable: true})
	if err != nil {
		return nil, err
	}
	return New(db, time.Now), nil
}

// Contents are the row counts of an embedded database.
type Contents struct {
	Schema int64            `json:"schema"` // number of the newest migration; 0 if there is none
	Rows   map[string]int64 `json:"rows"`   // by table
}

// Contents counts the rows of an embedded database. It reads all of them.
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
