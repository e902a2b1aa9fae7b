package kernel

import (
	"cmp"
	"errors"

	"atrium"
)

// This file paginates lists with filters that no index serves: it reads rows in index order and
// filters them in Go, at most ScanLimit rows per page. A page may therefore be short, or even
// empty, and still have a position to continue from.

// firstScan is the minimum number of rows in the first read of a filtered page.
const firstScan = 25

// A ScannedRow is a row of a list with its position.
type ScannedRow[T any] struct {
	Value    T
	Position atrium.Position
	Bytes    int // counted against ListBytes
}

// ScanPage returns a page of up to limit rows and about ListBytes that pass filter, in the order in
// which read returns them, and the position to continue after, nil at the end.
//
// read returns up to n rows after a position. It returns ErrPageFull, together with the rows, if a
// byte limit cut them short. filter reports for a non-empty prefix of the rows which ones pass,
// and how many extra rows it read to decide. A nil filter passes all rows.
func ScanPage[T any](after *atrium.Position, limit int, read func(after *atrium.Position, n int) ([]ScannedRow[T], error),
	filter func([]ScannedRow[T]) (keep []bool, extra int, err error),
) (page []T, next *atrium.Position, err error) {
	n := limit + 1
	if filter != nil {
		n = max(n, firstScan)
	}
	pageBytes, scannedBytes := 0, 0
	for scanned := 0; ; n = min(2*n, ScanLimit-scanned) {
		rows, err := read(after, n)
		cut := errors.Is(err, ErrPageFull)
		if err != nil && !cut {
			return nil, nil, err
		}
		var keep []bool
		if filter != nil && len(rows) > 0 {
			var extra int
			if keep, extra, err = filter(rows); err != nil {
				return nil, nil, err
			}
			cut = cut || len(keep) < len(rows)
			rows, scanned = rows[:len(keep)], scanned+extra
		}
		for i := range rows {
			scannedBytes += rows[i].Bytes
			if filter != nil && !keep[i] {
				after = &rows[i].Position
				continue
			}
			if len(page) == limit || pageBytes >= ListBytes {
				return page, after, nil
			}
			page = append(page, rows[i].Value)
			pageBytes += rows[i].Bytes
			after = &rows[i].Position
		}
		if len(rows) < n && !cut {
			return page, nil, nil
		}
		if scanned += len(rows); scanned >= ScanLimit || scannedBytes >= ListBytes {
			return page, after, nil
		}
	}
}

// HalveUntilFits calls f with items, and again with the first half as long as f returns
// ErrPageFull. It returns the items of the last call, and ErrPageFull if these are not all.
func HalveUntilFits[T any](items []T, f func([]T) error) ([]T, error) {
	var cut error
	for {
		err := f(items)
		if !errors.Is(err, ErrPageFull) || len(items) < 2 {
			return items, cmp.Or(err, cut)
		}
		items, cut = items[:len(items)/2], ErrPageFull
	}
}
