package counts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Limits of the job.
const (
	maxCountTime   = 5 * time.Second // of one call of UpdateCounts
	sweptTenants   = 100             // of one call of SweepCounts
	countedPerTx   = 5000            // entries
	recountedPerTx = 500             // entries that are read again, with the row locked
	deletedPerTx   = 1000            // rows of a former pass
)

// recountInterval is how often all entries are counted again. This corrects the numbers if a node of the
// previous release has stored or deleted entries, or its clock was behind for more than a minute.
const recountInterval = 7 * 24 * time.Hour

// afterAllIDs is after the packed form of every identifier.
var afterAllIDs = bytes.Repeat([]byte{0xff}, kernel.IDBytes)

// settledBefore returns the packed identifier before which timely entries are settled.
func settledBefore(now time.Time) []byte {
	return kernel.IDArg(atrium.FirstID[atrium.EntryID](now.Add(-settleDelay))).([]byte)
}

// UpdateCounts counts the settled entries of tenants to which this process has appended, and of those
// that SweepCounts has added. Tenants take turns, with pauses (kernel.DB.InTurn). more reports whether it
// has left work to the next call. If a tenant fails, it continues with the others and returns the first
// error; the next call repeats the work.
func (s *Store) UpdateCounts(ctx context.Context) (more bool, err error) {
	deadline := s.db.Now().Add(maxCountTime)
	turnErr := s.db.InTurn(ctx, s.due.tenants(), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		now := s.db.Now()
		left, stepErr := s.step(ctx, tenant, now)
		switch {
		case stepErr != nil:
			err = cmp.Or(err, fmt.Errorf("count the entries of %s: %w", tenant, stepErr))
		case !left:
			s.due.counted(tenant, now)
		case !now.Before(deadline):
			more = true
		default:
			return true, nil
		}
		return false, nil
	})
	return more && err == nil, cmp.Or(err, turnErr)
}

// SweepCounts finds what other processes have left uncounted, which UpdateCounts then does. It adds up to
// sweptTenants tenants after the given one, starting with the first for "", and returns the tenant to
// continue after, "" at the end.
func (s *Store) SweepCounts(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, sweptTenants)
	if err != nil {
		return after, err
	}
	for _, tenant := range tenants {
		s.due.add(tenant, s.db.Now())
	}
	if len(tenants) == sweptTenants {
		next = tenants[len(tenants)-1]
	}
	return next, nil
}

// A step is the next work of a tenant, as read without locks.
type step struct {
	*state
	scan     *scan // nil for none
	begin    bool  // begin a recount
	end      bool  // the recount replaces the current pass
	leftover int64 // a former pass that has rows; 0 for none
}

// step does the next work of a tenant, in one transaction, and reports whether there may be more.
func (s *Store) step(ctx context.Context, tenant atrium.TenantID, now time.Time) (more bool, err error) {
	var w *step
	if err := s.db.Read(ctx, func(tx engine.Tx) (err error) {
		w, err = findWork(tx, tenant, now)
		return err
	}); err != nil || w == nil {
		return false, err
	}
	err = kernel.WriteLarge(ctx, s.db, atrium.Change{TenantID: tenant}, func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has counts
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		return w.do(tx, now)
	})
	if atrium.CodeOf(err) == atrium.CodeNotFound { // the tenant is being deleted
		return false, nil
	}
	return err == nil, err
}

// findWork returns the next work of a tenant, nil for none.
func findWork(tx engine.Tx, tenant atrium.TenantID, now time.Time) (*step, error) {
	state, err := findState(tx.Query, tenant)
	if err != nil {
		return nil, err
	}
	w := &step{state: state}
	for i, p := range state.passes() {
		if w.scan, err = p.nextScan(tx, tenant, i == 1, settledBefore(now)); err != nil || w.scan != nil {
			return w, err
		}
	}
	if state.next != nil {
		w.end = true
		return w, nil
	}
	if err := tx.Query("SELECT pass FROM entry_counts WHERE tenant_id = $1 AND pass < $2 LIMIT 1", engine.Args{kernel.IDArg(tenant), state.pass.number},
		func(r engine.Row) error {
			w.leftover = r.Int(0)
			return nil
		}); err != nil || w.leftover > 0 {
		return w, err
	}
	if w.begin = state.version > 0 && state.recountedAt.Std().Before(now.Add(-recountInterval)); w.begin {
		return w, nil
	}
	return nil, nil
}

// do does the work in a transaction, unless another one has changed the state: the caller then looks for
// work again.
func (w *step) do(tx engine.Tx, now time.Time) error {
	state, err := lockState(tx, w.tenant)
	if err != nil {
		return err
	}
	changed := state.version != max(w.version, 1) // lockState adds version 1
	switch {
	case w.scan != nil:
		if state.recountedAt == 0 {
			state.recountedAt = atrium.At(now)
		}
		if err := w.count(tx, state, changed); err != nil {
			return err
		}
	case changed:
		return nil
	case w.end:
		if err := deleteTypes(tx, state); err != nil {
			return err
		}
		state.pass, state.next = *state.next, nil
	case w.begin:
		state.next = &pass{number: state.pass.number + 1, untimelyAfter: []byte{}, timelyAfter: []byte{}}
		state.recountedAt = atrium.At(now)
	default:
		return deleteLeftover(tx, w.tenant, w.leftover)
	}
	return state.save(tx)
}

// A scan counts entries of a pass in the order of their identifiers.
type scan struct {
	recount  bool // of state.next
	untimely bool // or timely
	until    []byte
	found    numbers
	last     []byte // the last entry that was read
}

// nextScan returns the next scan of a pass, with the numbers of its entries; nil if it has counted
// everything up to settled.
func (p *pass) nextScan(tx engine.Tx, tenant atrium.TenantID, recount bool, settled []byte) (*scan, error) {
	if !bytes.Equal(p.untimelyAfter, afterAllIDs) {
		sc := &scan{recount: recount, untimely: true, until: afterAllIDs}
		return sc, sc.read(tx.Query, tenant, p.untimelyAfter, countedPerTx)
	}
	sc := &scan{recount: recount, until: settled}
	err := sc.read(tx.Query, tenant, p.timelyAfter, countedPerTx)
	if err != nil || sc.last == nil {
		return nil, err
	}
	return sc, nil
}

const selectUncounted = `SELECT e.entry_id, e.created_at, e.source, e.type FROM entries e
	WHERE tenant_id = $1 AND entry_id > $2 AND entry_id < $3 ORDER BY entry_id LIMIT $4`

// read counts up to limit entries after a position.
func (sc *scan) read(query kernel.QueryFunc, tenant atrium.TenantID, after []byte, limit int) error {
	sc.found, sc.last = numbers{}, nil
	n := 0
	err := query(selectUncounted, engine.Args{kernel.IDArg(tenant), after, sc.until, int64(limit)}, func(r engine.Row) error {
		e := Entry{kernel.IDAt[atrium.EntryID](r, 0), atrium.Time(r.Int(1)), r.Text(2), r.Text(3)}
		n, sc.last = n+1, r.Bytes(0)
		if e.timely() != sc.untimely {
			sc.found.add(&e, 1)
		}
		return nil
	})
	if sc.untimely && n < limit {
		sc.last = afterAllIDs
	}
	return err
}

// count stores the numbers of a scan, and its position. If the state has changed since the entries were
// read, it reads some of them again.
func (w *step) count(tx engine.Tx, state *state, changed bool) error {
	p := &state.pass
	if w.scan.recount {
		p = state.next
	}
	if p == nil || p.number != w.passNumber() {
		return nil // another node has ended the pass
	}
	after := &p.timelyAfter
	if w.scan.untimely {
		after = &p.untimelyAfter
	}
	if changed {
		if err := w.scan.read(tx.Query, w.tenant, *after, recountedPerTx); err != nil || w.scan.last == nil {
			return err
		}
	}
	*after = w.scan.last
	return p.write(tx, w.tenant, w.scan.found)
}

// passNumber returns the number of the pass that is scanned.
func (w *step) passNumber() int64 {
	if w.scan.recount {
		return w.next.number
	}
	return w.pass.number
}

// deleteTypes deletes what is counted separately in the current pass.
func deleteTypes(tx engine.Tx, state *state) error {
	_, err := tx.Exec("DELETE FROM entry_count_types WHERE tenant_id = $1 AND pass = $2", kernel.IDArg(state.tenant), state.pass.number)
	return err
}

// deleteLeftover deletes some numbers of a former pass.
func deleteLeftover(tx engine.Tx, tenant atrium.TenantID, former int64) error {
	args := engine.Args{kernel.IDArg(tenant), former}
	sql := "DELETE FROM entry_counts WHERE tenant_id = $1 AND pass = $2"
	if err := tx.Query("SELECT hours, starts_at FROM entry_counts WHERE tenant_id = $1 AND pass = $2 ORDER BY hours, starts_at LIMIT 1 OFFSET $3",
		append(args, int64(deletedPerTx-1)), func(r engine.Row) error {
			sql += " AND (hours, starts_at) <= ($3, $4)"
			args = append(args, r.Int(0), r.Int(1))
			return nil
		}); err != nil {
		return err
	}
	_, err := tx.Exec(sql, args...)
	return err
}
