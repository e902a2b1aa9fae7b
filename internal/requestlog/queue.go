package requestlog

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"atrium"
)

// Limits of the rows that wait to be written: those of one second, unless the database is unavailable.
const (
	maxRows         = 2000 // of all tenants
	maxRowsOfTenant = 50
	generalRows     = 10 // of them, the last ones
)

// A row is what a queue holds.
type row interface {
	tenant() atrium.TenantID
	requests() int64 // that the row stands for
}

// A rowKey is the hash of everything that makes rows of a tenant equal.
type rowKey [32]byte

// A queue holds rows until they are written. A row that equals a waiting one is merged into it. The queue is
// bounded: a tenant with many different rows loses new ones, and when there are many tenants, the one with
// the most rows loses some. It is safe for concurrent use.
type queue[R row] struct {
	merge   func(into *R, row R)
	general func(R) (rowKey, R) // returns what stands for a row when a tenant has many others; nil for no such rows
	dropped atomic.Int64        // requests of rows that were lost

	mu      sync.Mutex
	rows    int                               // guarded by mu
	tenants map[atrium.TenantID]map[rowKey]*R // guarded by mu; none is empty
	sizes   [maxRowsOfTenant + 1]int          // guarded by mu: how many tenants have how many rows
}

// A queued is a row that was taken from a queue.
type queued[R row] struct {
	key rowKey
	row R
}

// add adds a row.
func (q *queue[R]) add(key rowKey, r R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.tenants[r.tenant()]
	if waiting := own[key]; waiting != nil {
		q.merge(waiting, r)
		return
	}
	if q.general != nil && len(own) >= maxRowsOfTenant-generalRows {
		key, r = q.general(r)
		if waiting := own[key]; waiting != nil {
			q.merge(waiting, r)
			return
		}
	}
	if len(own) == maxRowsOfTenant || q.rows == maxRows && !q.makeRoom(len(own)) {
		q.dropped.Add(r.requests())
		return
	}
	if own == nil {
		own = map[rowKey]*R{}
		if q.tenants == nil {
			q.tenants = map[atrium.TenantID]map[rowKey]*R{}
		}
		q.tenants[r.tenant()] = own
	}
	own[key] = &r
	q.rows++
	q.resize(len(own)-1, len(own))
}

func (q *queue[R]) resize(from, to int) {
	q.sizes[from]--
	q.sizes[to]++
}

// makeRoom removes a row of a tenant with the most rows, for one of a tenant with own rows. It returns false if
// none has more than that tenant will have.
func (q *queue[R]) makeRoom(own int) bool {
	most := maxRowsOfTenant
	for q.sizes[most] == 0 {
		most--
	}
	if most <= own+1 {
		return false
	}
	for _, rows := range q.tenants {
		if len(rows) != most {
			continue
		}
		for key, r := range rows {
			q.dropped.Add((*r).requests())
			delete(rows, key)
			break
		}
		q.rows--
		q.resize(most, most-1)
		return true
	}
	return false
}

// take removes all rows and returns them, those of a tenant together.
func (q *queue[R]) take() (all []queued[R]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, tenant := range slices.SortedFunc(maps.Keys(q.tenants), func(a, b atrium.TenantID) int { return strings.Compare(string(a), string(b)) }) {
		for key, r := range q.tenants[tenant] {
			all = append(all, queued[R]{key, *r})
		}
	}
	q.tenants, q.rows, q.sizes = nil, 0, [maxRowsOfTenant + 1]int{}
	return all
}

// write takes all rows, and calls store with up to maxBatch at a time. Rows that could not be stored are back
// in the queue afterwards.
func (q *queue[R]) write(store func([]R) error) error {
	all := q.take()
	for len(all) > 0 {
		n := min(maxBatch, len(all))
		batch := make([]R, n)
		for i := range batch {
			batch[i] = all[i].row
		}
		if err := store(batch); err != nil {
			for _, lost := range all {
				q.add(lost.key, lost.row)
			}
			return err
		}
		all = all[n:]
	}
	return nil
}

// maxBatch is how many rows a transaction stores. It is short, because an embedded database has one writer.
const maxBatch = 200
