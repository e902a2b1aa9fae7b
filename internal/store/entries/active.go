package entries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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

// Limits of UpdateActivity, for each tenant.
const (
	maxActiveBatches = 10_000  // rows of active_accounts that are applied together
	maxActiveBytes   = 2 << 20 // of these rows
	accountsPerTx    = 100     // updated in one transaction
	batchesPerTx     = 500     // rows deleted in one transaction
	sweptTenants     = 100     // of one call of SweepActivity
)

// activeTenants are the tenants to which this process has appended since the last UpdateActivity. It
// is safe for concurrent use.
type activeTenants struct {
	mu      sync.Mutex
	tenants map[atrium.TenantID]bool // guarded by mu
}

func (a *activeTenants) add(tenant atrium.TenantID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tenants == nil {
		a.tenants = map[atrium.TenantID]bool{}
	}
	a.tenants[tenant] = true
}

// take removes and returns all tenants.
func (a *activeTenants) take() (tenants []atrium.TenantID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for tenant := range a.tenants {
		tenants = append(tenants, tenant)
	}
	a.tenants = nil
	return tenants
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
// appended. Tenants take turns, with pauses (kernel.DB.InTurn). If a tenant fails, it continues with
// the others and returns the first error; the next call repeats the work.
func (s *Store) UpdateActivity(ctx context.Context) error {
	return s.updateActivity(ctx, s.active.take())
}

// SweepActivity does the same for what other processes have left behind: up to sweptTenants tenants
// after the given one, starting with the first for "". It returns the tenant to continue after, "" at
// the end.
func (s *Store) SweepActivity(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, sweptTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == sweptTenants {
		next = tenants[len(tenants)-1]
	}
	return next, s.updateActivity(ctx, tenants)
}

func (s *Store) updateActivity(ctx context.Context, tenants []atrium.TenantID) (err error) {
	passes := map[atrium.TenantID]*activePass{}
	turnErr := s.db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (more bool, _ error) {
		var tenantErr error
		p := passes[tenant]
		if p == nil {
			if p, tenantErr = s.readActive(ctx, tenant); tenantErr == nil && len(p.batches) == 0 {
				return false, nil
			}
			passes[tenant] = p
		}
		if tenantErr == nil {
			more, tenantErr = p.next(ctx, s.db)
		}
		switch {
		case tenantErr != nil:
			s.active.add(tenant)
			if err == nil {
				err = fmt.Errorf("update the activity of %s: %w", tenant, tenantErr)
			}
			return false, nil
		case !more:
			delete(passes, tenant)
			return p.full, nil
		}
		return true, nil
	})
	if turnErr != nil {
		for _, tenant := range tenants {
			s.active.add(tenant)
		}
		return turnErr
	}
	return err
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
			late, err := p.delete(tx, p.batches[deletes-1])
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

// delete deletes the rows up to the given batch_id. It returns the accounts of rows with smaller
// identifiers that other processes have committed since the pass began.
func (p *activePass) delete(tx engine.Tx, last []byte) (late [][]byte, err error) {
	err = tx.Query("DELETE FROM active_accounts WHERE tenant_id = $1 AND batch_id <= $2 RETURNING accounts",
		engine.Args{kernel.IDArg(p.tenant), last}, func(r engine.Row) error {
			for id := range slices.Chunk(r.Bytes(0), kernel.IDBytes) {
				if _, found := slices.BinarySearchFunc(p.accounts, id, bytes.Compare); !found {
					late = append(late, id) // may have duplicates, which change nothing
				}
			}
			return nil
		})
	return late, err
}
