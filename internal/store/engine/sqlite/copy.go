package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"atrium/internal/store/engine"
)

// selectPages reads every page as this transaction sees it, whether it is in the file
// or in the log. The page with the bytes that locks are on comes as zeros.
const selectPages = "SELECT data FROM sqlite_dbpage ORDER BY pgno"

// copyBytes is how much Copy writes at once.
const copyBytes = 1 << 20

// Copy reads all pages in one read transaction. SQLite's own backup begins anew whenever
// another process has written: under steady load it never ends. This one holds the
// write-ahead log back while it runs (docs/adr/0017).
func (db *database) Copy(ctx context.Context, w io.Writer, begin func(size int64)) error {
	return db.reading(ctx, func(c *connection) error {
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
					return fmt.Errorf("a page has %d bytes", n)
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

// Server is nil: there is none.
func (db *database) Server(context.Context) (*engine.Server, error) { return nil, nil }
