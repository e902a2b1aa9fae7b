package entries

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Accounts are listed by active_minute, the minute of their latest activity. An append does not
// update it: for each account that would change a page of the table and two of the index, at random
// places. It only adds a row to active_accounts with the accounts whose minute has changed.
// UpdateActivity applies these rows later, in the order of the accounts, so that a page is written
// once for many of them.

// Limits of UpdateActivity. Work that exceeds them is left to its next call.
const (
	maxActiveTime    = 5 * time.Second // then tenants with new activity have a turn
	maxActivePasses  = 16              // tenants with a pass in progress
	maxActiveBatches = 10_000          // rows of active_accounts that a pass applies
	maxActiveBytes   = 512 << 10       // of these rows
	accountsPerTx    = 100             // updated in one transaction
	batchesPerTx     = 500             // rows deleted in one transaction
	sweptTenants     = 100             // of one call of SweepActivity
)

// activeTenants are the tenants whose active_minute may be out of date. It is safe for concurrent use.
type activeTenants struct {
	mu      sync.Mutex
	tenants map[atrium.TenantID]bool // guarded by mu

	updating sync.Mutex                      // held by UpdateActivity
	passes   map[atrium.TenantID]*activePass // in progress; guarded by updating
}

func (a *activeTenants) add(tenant atrium.TenantID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tenants == nil {
		a.tenants = map[atrium.TenantID]bool{}
	}
	a.tenants[tenant] = true
}

// take removes and returns tenants without a pass in progress, as many as can have one, and reports
// whether it left others. The caller holds a.updating.
func (a *activeTenants) take() (tenants []atrium.TenantID, left bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for tenant := range a.tenants {
		switch {
		case a.passes[tenant] != nil: // once that has ended
		case len(a.passes)+len(tenants) == maxActivePasses:
			left = true
		default:
			tenants = append(tenants, tenant)
			delete(a.tenants, tenant)
		}
	}
	return tenants, left
}

var insertActive = engine.NewBatch(`INSERT INTO active_accounts (tenant_id, batch_id, accounts)
	SELECT batch.tenant_id, batch_id, accounts FROM batch`, "tenant_id bytea", "batch_id bytea", "accounts bytea")

// storeActive stores the accounts of an append whose active_minute has changed.
func (b *appendTx) storeActive() error {
	var order []atrium.TenantID
	accountsOf := map[atrium.TenantID][]byte{}
	for _, u := range b.minutes {
		if accountsOf[u.Tenant] == nil {
			order = append(order, u.Tenant)
		}
		accountsOf[u.Tenant] = append(accountsOf[u.Tenant], kernel.IDArg(u.Account).([]byte)...)
	}
	rows := make([]engine.Args, len(order))
	for i, tenant := range order {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(atrium.NewID[atrium.RequestID]()), accountsOf[tenant]}
	}
	return b.tx.PipelineExec(insertActive, rows)
}

// UpdateActivity brings active_minute up to date for the accounts to which this process has
// appended, and for those that SweepActivity has found. Tenants take turns, with pauses
// (kernel.DB.InTurn). more reports whether it has left work to the next call. If a tenant fails, it
// continues with the others and returns the first error; the next call repeats the work.
func (s *Store) UpdateActivity(ctx context.Context) (more bool, err error) {
	s.active.updating.Lock()
	defer s.active.updating.Unlock()
	if s.active.passes == nil {
		s.active.passes = map[atrium.TenantID]*activePass{}
	}
	passes := s.active.passes
	tenants, more := s.active.take()
	tenants = slices.AppendSeq(tenants, maps.Keys(passes))
	deadline := s.db.Now().Add(maxActiveTime)
	turnErr := s.db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		var goOn bool
		var tenantErr error
		p := passes[tenant]
		if p == nil {
			p, tenantErr = s.readActive(ctx, tenant)
			passes[tenant] = p
		}
		if tenantErr == nil && len(p.batches) > 0 {
			goOn, tenantErr = p.next(ctx, s.db)
		}
		switch {
		case tenantErr != nil:
			err = cmp.Or(err, fmt.Errorf("update the activity of %s: %w", tenant, tenantErr))
			delete(passes, tenant)
			s.active.add(tenant)
		case !goOn:
			delete(passes, tenant)
			if p.full {
				s.active.add(tenant)
				more = true
			}
		}
		return goOn && !more && s.db.Now().Before(deadline), nil // if others wait for a pass, one transaction each
	})
	for _, tenant := range tenants {
		if turnErr != nil && passes[tenant] == nil { // it may have had no turn
			s.active.add(tenant)
		}
	}
	return more || len(passes) > 0, cmp.Or(turnErr, err)
}

// SweepActivity finds what other processes have left behind, which UpdateActivity then does. It looks
// at up to sweptTenants tenants after the given one, starting with the first for "", and returns the
// tenant to continue after, "" at the end.
func (s *Store) SweepActivity(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, sweptTenants)
	if err != nil {
		return after, err
	}
	for _, tenant := range tenants {
		if err := s.db.Query(ctx, "SELECT batch_id FROM active_accounts WHERE tenant_id = $1 LIMIT 1", engine.Args{kernel.IDArg(tenant)},
			func(engine.Row) error {
				s.active.add(tenant)
				return nil
			}); err != nil {
			return after, err
		}
	}
	if len(tenants) == sweptTenants {
		next = tenants[len(tenants)-1]
	}
	return next, nil
}

// An activePass applies rows of active_accounts of one tenant.
type activePass struct {
	tenant   atrium.TenantID
	batches  [][]byte // the batch_id of the rows that are not deleted yet, sorted
	accounts [][]byte // stored identifiers, sorted, without duplicates
	updated  int      // number of accounts that are up to date
	full     bool     // there may be more rows
}

func (s *Store) readActive(ctx context.Context, tenant atrium.TenantID) (*activePass, error) {
	p, size := &activePass{tenant: tenant}, 0
	err := s.db.Query(ctx, "SELECT batch_id, accounts FROM active_accounts WHERE tenant_id = $1 ORDER BY batch_id LIMIT $2",
		engine.Args{kernel.IDArg(tenant), int64(maxActiveBatches)}, func(r engine.Row) error {
			if size > maxActiveBytes {
				return kernel.ErrPageFull
			}
			p.batches = append(p.batches, r.Bytes(0))
			ids := r.Bytes(1)
			size += len(ids)
			p.accounts = slices.AppendSeq(p.accounts, slices.Chunk(ids, kernel.IDBytes))
			return nil
		})
	p.full = len(p.batches) == maxActiveBatches || errors.Is(err, kernel.ErrPageFull)
	if errors.Is(err, kernel.ErrPageFull) {
		err = nil
	}
	slices.SortFunc(p.accounts, bytes.Compare)
	p.accounts = slices.CompactFunc(p.accounts, bytes.Equal)
	return p, err
}

// next updates some accounts in one transaction, which also deletes some rows once all accounts are up
// to date. It reports whether there are more.
func (p *activePass) next(ctx context.Context, db *kernel.DB) (more bool, err error) {
	some := p.accounts[p.updated:min(p.updated+accountsPerTx, len(p.accounts))]
	deletes := 0
	if p.updated+len(some) == len(p.accounts) {
		deletes = min(batchesPerTx, len(p.batches))
	}
	err = kernel.WriteLarge(ctx, db, atrium.Change{TenantID: p.tenant}, func(tx engine.Tx) error {
		tx.Invalidate() // no response contains active_minute
		update := some
		if deletes > 0 {
			late, err := p.delete(tx, p.batches[:deletes])
			if err != nil {
				return err
			}
			update = slices.Concat(some, late)
			slices.SortFunc(update, bytes.Compare)
		}
		rows := make([]engine.Args, len(update))
		for i, id := range update {
			rows[i] = engine.Args{kernel.IDArg(p.tenant), id}
		}
		return accounts.UpdateMinutes(tx, rows)
	})
	if err == nil {
		p.updated += len(some)
		p.batches = p.batches[deletes:]
	}
	return len(p.batches) > 0, err
}

// delete deletes the rows with the given identifiers, which are sorted, and all rows between them. It
// returns the accounts of the latter, which have been committed since the pass began.
func (p *activePass) delete(tx engine.Tx, batches [][]byte) (late [][]byte, err error) {
	err = tx.Query("DELETE FROM active_accounts WHERE tenant_id = $1 AND batch_id <= $2 RETURNING batch_id, accounts",
		engine.Args{kernel.IDArg(p.tenant), batches[len(batches)-1]}, func(r engine.Row) error {
			if _, read := slices.BinarySearchFunc(batches, r.View(0), bytes.Compare); !read {
				late = slices.AppendSeq(late, slices.Chunk(r.Bytes(1), kernel.IDBytes)) // may have duplicates, which change nothing
			}
			return nil
		})
	return late, err
}
