package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"atrium/internal/store/engine"
)

// selectPages reads all pages in the snapshot of this transaction, from the file or the WAL. The
// lock-byte page is returned as zeros.
const selectPages = "SELECT data FROM sqlite_dbpage ORDER BY pgno"

// copyBytes is the size of Copy's write buffer.
const copyBytes = 1 << 20

// Copy reads all pages in one read transaction. SQLite's backup API restarts whenever another
// process writes, so under steady load it never completes. The read transaction prevents WAL resets
// while it runs (docs/adr/0017).
func (db *database) Copy(ctx context.Context, w io.Writer, begin func(size int64)) error {
	return db.withReader(ctx, func(c *connection) error {
		return c.transaction(ctx, func(tx engine.Tx) error {
			var pages int64
			if err := engine.Find(tx.Query, "PRAGMA page_count", nil, func(r engine.Row) { pages = r.Int(0) }); err != nil {
				return err
			}
			begin(pages * pageBytes)
			page, buffer := make([]byte, pageBytes), bufio.NewWriterSize(w, copyBytes)
			err := tx.Query(selectPages, nil, func(r engine.Row) error {
				stmt := r.(*resultRow).stmt
				if n := stmt.ColumnLen(0); n != pageBytes {
					return fmt.Errorf("page size is %d bytes, want %d", n, pageBytes)
				}
				stmt.ColumnBytes(0, page)
				if _, err := buffer.Write(page); err != nil {
					return err
				}
				return context.Cause(ctx)
			})
			if err == nil {
				err = buffer.Flush()
			}
			return err
		})
	})
}

// Server returns nil: an embedded database has no server.
func (db *database) Server(context.Context) (*engine.Server, error) { return nil, nil }
