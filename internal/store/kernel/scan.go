package kernel

import (
	"cmp"
	"errors"

	"atrium"
)

// This file pages through lists with conditions that no index has: rows are read in
// the order of an index and judged here, ScanLimit of them for one page at most. A page may
// come back short, and even empty, with a position from which the list goes on.

// firstScan is how many rows are read at once at first, if not for a larger page.
const firstScan = 25

// A ListRow is one of a list, with the position behind it.
type ListRow[T any] struct {
	Thing T
	At    atrium.Position
	Bytes int // that it has in the list
}

// Scan returns up to limit, and about ListBytes, of the things that judge lets pass, in
// the order in which read returns their rows, and the position from which the list goes
// on; nil at its end. read returns up to n rows behind a position, with ErrFull if there
// would be more of these n but for their bytes. judge says of each of the first rows, one
// at least, whether it belongs to the list, and how many other rows it has read to tell;
// nil for all.
func Scan[T any](after *atrium.Position, limit int, read func(after *atrium.Position, n int) ([]ListRow[T], error),
	judge func([]ListRow[T]) (passes []bool, others int, err error),
) (found []T, next *atrium.Position, err error) {
	n := limit + 1
	if judge != nil {
		n = max(n, firstScan)
	}
	listed, looked := 0, 0 // bytes
	for seen := 0; ; n = min(2*n, ScanLimit-seen) {
		rows, err := read(after, n)
		cut := errors.Is(err, ErrFull)
		if err != nil && !cut {
			return nil, nil, err
		}
		var passes []bool
		if judge != nil && len(rows) > 0 {
			var others int
			if passes, others, err = judge(rows); err != nil {
				return nil, nil, err
			}
			cut = cut || len(passes) < len(rows)
			rows, seen = rows[:len(passes)], seen+others
		}
		for i := range rows {
			looked += rows[i].Bytes
			if judge != nil && !passes[i] {
				after = &rows[i].At
				continue
			}
			if len(found) == limit || listed >= ListBytes {
				return found, after, nil
			}
			found = append(found, rows[i].Thing)
			listed += rows[i].Bytes
			after = &rows[i].At
		}
		if len(rows) < n && !cut {
			return found, nil, nil
		}
		if seen += len(rows); seen >= ScanLimit || looked >= ListBytes {
			return found, after, nil
		}
	}
}

// Halve calls f with things, and as long as that returns ErrFull with half of them. It
// returns those that f took, and ErrFull if these are not all.
func Halve[T any](things []T, f func([]T) error) ([]T, error) {
	var cut error
	for {
		err := f(things)
		if !errors.Is(err, ErrFull) || len(things) < 2 {
			return things, cmp.Or(err, cut)
		}
		things, cut = things[:len(things)/2], ErrFull
	}
}
