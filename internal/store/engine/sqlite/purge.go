package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"atrium/internal/store/engine"
)

// Removal of deleted content.
//
// SQLite keeps deleted content in four places:
//
//   - Freed cells and free pages. secure_delete=ON zeroes both in the transaction that frees them.
//     FAST would leave the content of free pages
//     (https://www.sqlite.org/pragma.html#pragma_secure_delete).
//   - The unallocated space of b-tree pages. When SQLite splits or merges pages, it copies cells to
//     sibling pages and leaves the old copies in place (rebuildPage and copyNodeContent in
//     btree.c), whatever secure_delete says. scrub zeroes that space. SQLite never copies it to
//     another page, so one pass over the file is enough.
//   - The database file, until a checkpoint backfills the new version of a page.
//   - The WAL, whose frames stay in the file until it is truncated.
//
// scrub writes pages through sqlite_dbpage (https://www.sqlite.org/dbpage.html), in ordinary
// transactions. It recognizes a b-tree page by its first byte, 2, 5, 10 or 13. Overflow pages and
// pages of the freelist begin with a page number instead, whose first byte is 0 or 1 in a file of
// fewer than maxScrubPages, so no other page is ever changed.
const (
	scrubBatch    = 256     // pages per transaction
	maxScrubPages = 2 << 24 // 128 GiB

	maxTruncateTries = 10
	truncateWait     = 5 * time.Millisecond // maximum wait for readers; blocks writes
	truncatePause    = 20 * time.Millisecond
	checkpointWait   = time.Second // maximum wait for another process's checkpoint

	// When readers block a purge, long reads must end for readersEnd, unless it succeeds before: the purge
	// is tried again within seconds. They are asked at most once in readersEndEvery, because a backup
	// does not end.
	readersEnd      = 15 * time.Second
	readersEndEvery = time.Minute
)

var (
	errPurgeSize = &engine.Error{
		Class: engine.Unavailable, Err: errors.New("the database is larger than the limit for a purge"),
	}
	errScrubSize = &engine.Error{
		Class: engine.Unavailable, Err: errors.New("a database of 128 GiB or more cannot be purged: move it to PostgreSQL"),
	}
	errReadersActive = &engine.Error{
		Class: engine.Unavailable, Err: errors.New("a read transaction prevents truncation of the WAL"),
	}
)

// Purge truncates the WAL, zeroes the unallocated space of all b-tree pages, and truncates
// the WAL again. The first truncation finds a long read, such as a backup, before the whole
// file is read in vain.
func (db *database) Purge(ctx context.Context, maxBytes int64) error {
	if db.options.Immutable || db.options.ReadOnly {
		return errReadOnly
	}
	var pages int64
	if err := db.Query(ctx, "PRAGMA page_count", nil, func(r engine.Row) error {
		pages = r.Int(0)
		return nil
	}); err != nil {
		return err
	}
	switch {
	case maxBytes > 0 && pages*pageBytes > maxBytes:
		return errPurgeSize
	case pages >= maxScrubPages:
		return errScrubSize
	}
	if err := db.truncateWAL(ctx); err != nil {
		return err
	}
	for first := int64(1); first <= pages; first += scrubBatch {
		if err := db.scrub(ctx, first, min(first+scrubBatch-1, pages)); err != nil {
			return fmt.Errorf("zero unallocated space: %w", err)
		}
	}
	return db.truncateWAL(ctx)
}

const (
	selectRange = `WITH RECURSIVE n(p) AS (SELECT $1 UNION ALL SELECT p + 1 FROM n WHERE p < $2)
		SELECT pgno, data FROM n CROSS JOIN sqlite_dbpage ON pgno = p`
	selectPage = "SELECT pgno, data FROM sqlite_dbpage WHERE pgno = $1"
	updatePage = "UPDATE sqlite_dbpage SET data = $1 WHERE pgno = $2"
)

// scrub zeroes the unallocated space of the b-tree pages from first to last.
func (db *database) scrub(ctx context.Context, first, last int64) error {
	var dirty []int64
	page := make([]byte, pageBytes)
	if err := db.Query(ctx, selectRange, engine.Args{first, last}, func(r engine.Row) error {
		if number := readPage(r, page); isDirty(unallocated(page, number)) {
			dirty = append(dirty, number)
		}
		return nil
	}); err != nil || len(dirty) == 0 {
		return err
	}
	return db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // no cached response changes
		for _, number := range dirty {
			err := engine.Find(tx.Query, selectPage, engine.Args{number}, func(r engine.Row) { readPage(r, page) })
			if err != nil {
				return err
			}
			space := unallocated(page, number) // the page may have changed
			if !isDirty(space) {
				continue
			}
			clear(space)
			if _, err := tx.Exec(updatePage, page, number); err != nil {
				return err
			}
		}
		return nil
	})
}

// readPage copies a page of sqlite_dbpage and returns its number.
func readPage(r engine.Row, page []byte) (number int64) {
	r.(*resultRow).stmt.ColumnBytes(1, page)
	return r.Int(0)
}

// unallocated returns the space between the cell pointers and the cells of a b-tree page
// (https://www.sqlite.org/fileformat2.html#b_tree_pages), and nil for any other page.
func unallocated(page []byte, number int64) []byte {
	header := 0
	if number == 1 {
		header = 100 // after the database header
	}
	pointers := header + 8
	switch page[header] {
	case 2, 5: // interior pages
		pointers = header + 12
	case 10, 13: // leaf pages
	default:
		return nil
	}
	from := pointers + 2*int(binary.BigEndian.Uint16(page[header+3:]))
	to := int(binary.BigEndian.Uint16(page[header+5:]))
	if from > to || to > len(page) {
		return nil // not a valid b-tree page
	}
	return page[from:to]
}

var zeros [pageBytes]byte

func isDirty(space []byte) bool { return !bytes.Equal(space, zeros[:len(space)]) }

// truncateWAL requests that checkpointLoop backfill and truncate the WAL. It gives up after
// maxTruncateTries attempts that a read transaction blocked, each of which blocks writes for up to
// truncateWait, or when another process's checkpoint has not ended within checkpointWait.
func (db *database) truncateWAL(ctx context.Context) error {
	for tries, deadline := 0, time.Now().Add(checkpointWait); ; {
		truncated := make(chan error, 1)
		select {
		case db.truncateRequests <- truncated:
		case <-db.closing:
			return errClosed
		case <-ctx.Done():
			return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("truncate the WAL: %w", context.Cause(ctx))}
		}
		err := <-truncated
		if errors.Is(err, errReadersActive) {
			tries++
			if now := time.Now().UnixNano(); now-db.purgeBlockedAt.Load() > int64(readersEndEvery) {
				db.purgeBlockedAt.Store(now)
			}
		} else if err == nil {
			db.purgedAt.Store(time.Now().UnixNano())
		}
		if !isBlocked(err) || tries == maxTruncateTries || time.Now().After(deadline) {
			return err
		}
		time.Sleep(truncatePause)
	}
}

// purgeBlocked reports whether reads must end because they block a purge.
func (db *database) purgeBlocked() bool {
	at := db.purgeBlockedAt.Load()
	return at > db.purgedAt.Load() && time.Now().UnixNano()-at < int64(readersEnd)
}

// isBlocked reports whether readers or another process blocked a checkpoint.
func isBlocked(err error) bool {
	return errors.Is(err, errCheckpointing) || errors.Is(err, errReadersActive)
}

// truncate backfills most of the WAL concurrently with writes. It then takes the write lock,
// backfills the rest, and truncates the WAL.
func (db *database) truncate() error {
	if err := db.checkpoint(db.checkpointer, "passive", "PASSIVE"); err != nil {
		return err
	}
	if err := db.lockWriter(context.Background()); err != nil {
		return err
	}
	defer db.unlockWriter()
	db.commit()
	if !db.canCheckpoint() {
		return cmp.Or(db.refusal(), error(errClosed))
	}
	db.writer.conn.SetBusyTimeout(truncateWait)
	defer db.writer.conn.SetBusyTimeout(0)
	return db.checkpoint(db.writer, "truncate", "TRUNCATE")
}
