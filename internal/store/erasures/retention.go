package erasures

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A row of retention has the rules of a tenant, and where the job is that applies them (expire.go).

// A retention is a row of retention. Its zero value is that of a tenant without a row.
type retention struct {
	atrium.Retention
	version      int64
	scan         *scan        // nil while none runs
	appliedUntil atrium.Time  // entries are examined for expiry up to then
	sweptAt      atrium.Time  // when all entries were last examined
	deleted      int64        // entries that are not in the audit log yet
	deletedSince *atrium.Time // when the first of them was deleted; nil for none
}

const selectRetention = `SELECT rules, updated_at, version, scan_days, scan_until, scan_after, applied_until, swept_at, deleted, deleted_since
	FROM retention WHERE tenant_id = $1`

// findRetention returns the row of a tenant. query is that of a transaction, or tx.Lock.
func findRetention(query kernel.QueryFunc, tenant atrium.TenantID) (r retention, err error) {
	r.TenantID = tenant
	var decodeErr error
	err = query(selectRetention, engine.Args{kernel.IDArg(tenant)}, func(row engine.Row) error {
		decodeErr = json.Unmarshal(row.Bytes(0), &r.Rules)
		r.UpdatedAt, r.version = kernel.TimeAt(row, 1), row.Int(2)
		if !row.Null(4) {
			r.scan = &scan{days: row.Int(3), until: atrium.Time(row.Int(4)), after: append([]byte{}, row.Bytes(5)...)}
		}
		r.appliedUntil, r.sweptAt = atrium.Time(row.Int(6)), atrium.Time(row.Int(7))
		r.deleted, r.deletedSince = row.Int(8), kernel.TimeAt(row, 9)
		return nil
	})
	return r, errors.Join(err, decodeErr)
}

// save stores the row, except its rules, in a transaction. It returns errOutdated if another
// transaction has changed the row since it was read.
func (r *retention) save(tx engine.Tx) error {
	var days, until, after any
	if r.scan != nil {
		days, until, after = r.scan.days, int64(r.scan.until), r.scan.after
	}
	n, err := tx.Exec(`UPDATE retention SET version = version + 1, scan_days = $1, scan_until = $2, scan_after = $3, applied_until = $4,
			swept_at = $5, deleted = $6, deleted_since = $7 WHERE tenant_id = $8 AND version = $9`,
		days, until, after, int64(r.appliedUntil), int64(r.sweptAt), r.deleted, kernel.NullableTime(r.deletedSince), kernel.IDArg(r.TenantID), r.version)
	if err == nil && n == 0 {
		err = errOutdated
	}
	return err
}

// Retention returns the retention rules of a tenant, in their order; none if none were set.
func (s *Store) Retention(ctx context.Context, tenant atrium.TenantID) (atrium.Retention, error) {
	r, err := findRetention(s.db.OutsideTx(ctx), tenant)
	return r.Retention, err
}

// SetRetention replaces the retention rules of a tenant. It first calls check with the current rules,
// and returns its error. When it returns, no entry is deleted by a rule that it has removed.
func (s *Store) SetRetention(ctx context.Context, c atrium.Change, rules atrium.RetentionRules, check func(atrium.Retention) error) (atrium.Retention, error) {
	stored, err := json.Marshal(rules)
	if err != nil {
		return atrium.Retention{}, fmt.Errorf("encode retention rules: %w", err)
	}
	changed, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Retention, error) {
		if err := tx.CountSize(tx.Lock, "SELECT octet_length(rules) FROM retention WHERE tenant_id = $1", engine.Args{kernel.IDArg(c.TenantID)}); err != nil {
			return atrium.Retention{}, err
		}
		r, err := findRetention(tx.Lock, c.TenantID)
		if err != nil {
			return r.Retention, err
		}
		if err := check(r.Retention); err != nil || slices.Equal(r.Rules, rules) {
			return r.Retention, err
		}
		first := r.UpdatedAt == nil
		if first {
			r.UpdatedAt = &tx.At
		}
		r.UpdatedAt = tx.NotBefore(*r.UpdatedAt)
		tx.Record("retention.update", string(c.TenantID), auditedRules(r.Rules), auditedRules(rules))
		r.Rules = rules
		if first { // a concurrent insertion is a conflict, which is retried
			_, err = tx.Exec(`INSERT INTO retention (tenant_id, rules, updated_at, version, applied_until, swept_at, deleted) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				kernel.IDArg(c.TenantID), stored, int64(*r.UpdatedAt), int64(1), int64(0), int64(0), int64(0))
			return r.Retention, err
		}
		// The job examines all entries again.
		r.scan, r.appliedUntil, r.sweptAt = nil, 0, 0
		if err := r.save(tx); err != nil {
			return r.Retention, err
		}
		_, err = tx.Exec("UPDATE retention SET rules = $1, updated_at = $2 WHERE tenant_id = $3", stored, int64(*r.UpdatedAt), kernel.IDArg(c.TenantID))
		return r.Retention, err
	})
	return changed, err
}

// auditedRules returns rules for the audit log, as the API shows them.
func auditedRules(rules atrium.RetentionRules) kernel.Fields {
	all := make([]map[string]any, len(rules))
	for i, r := range rules {
		all[i] = map[string]any{"days": r.Days}
		if r.Source != "" {
			all[i]["source"] = r.Source
		}
		if r.Type != "" {
			all[i]["type"] = r.Type
		}
	}
	return kernel.Fields{"rules": all}
}

// maxCheckedEntries is how many entries one page of CheckRetention examines.
const maxCheckedEntries = 10_000

// CheckRetention examines up to maxCheckedEntries entries of a tenant, by identifier, after a position,
// nil for the first page, and counts those that each rule would delete now. next is the position to
// continue after, nil at the end.
func (s *Store) CheckRetention(ctx context.Context, tenant atrium.TenantID, rules atrium.RetentionRules, after *atrium.Position) (check atrium.RetentionCheck, next *atrium.Position, err error) {
	now, from := atrium.At(s.db.Now()), []byte{}
	if after != nil {
		from = kernel.PackID(after.ID)
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		check, next = atrium.RetentionCheck{Expired: make([]int, len(rules))}, nil
		err := tx.Query(selectAged, engine.Args{kernel.IDArg(tenant), from, afterAllIDs, int64(maxCheckedEntries)}, func(row engine.Row) error {
			e := scanAged(row)
			if i := rules.Expired(e.source, e.entryType, atrium.Time(e.At.Key), now); i >= 0 {
				check.Expired[i]++
			}
			check.Examined++
			next = &e.At
			return nil
		})
		if check.Examined < maxCheckedEntries {
			next = nil
		}
		return err
	})
	return check, next, err
}

// RetentionWaits reports whether, in the last round of the job over all tenants, rules were not applied
// because the clock has not run steadily for long enough.
func (s *Store) RetentionWaits() bool { return s.waiting.Load() }

// ExpiredEntries returns how many entries this process has deleted by retention rules.
func (s *Store) ExpiredEntries() int64 { return s.expired.Load() }
