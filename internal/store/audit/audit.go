package audit

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// addFilter adds the conditions of a filter, except the subject.
func addFilter(q *kernel.SelectBuilder, f *atrium.AuditFilter) {
	if f.Actor != "" {
		q.Add(" AND actor = ", f.Actor)
	}
	if prefix, ok := strings.CutSuffix(f.Action, "."); ok {
		q.Add(" AND action >= ", f.Action)
		q.Add(" AND action < ", prefix+"/") // the character after the dot
	} else if f.Action != "" {
		q.Add(" AND action = ", f.Action)
	}
	if f.Since != nil {
		q.Add(" AND at >= ", int64(*f.Since))
	}
	if f.Until != nil {
		q.Add(" AND at < ", int64(*f.Until))
	}
}

// AuditRows returns up to limit rows of a tenant's audit log that match the filter, highest
// number first: those below a number, or from the last row if it is 0. next is the number to
// continue below, 0 at the end of the list. One call reads at most kernel.ScanLimit rows and may
// return fewer than limit before the end, or none. The error is CodeInternal if the log has rows
// outside of the range from 1 to its head, or, without a filter, if a row is missing.
func (s *Store) AuditRows(ctx context.Context, tenant atrium.TenantID, f atrium.AuditFilter, below int64, limit int) (rows []atrium.AuditRow, next int64, err error) {
	rows, next, err = s.auditRows(ctx, tenant, f, below, limit)
	return rows, next, s.orNoTenant(ctx, tenant, err)
}

// orNoTenant returns atrium.NoTenant instead of an error that says that an audit log is broken, if the
// tenant is being deleted.
func (s *Store) orNoTenant(ctx context.Context, tenant atrium.TenantID, err error) error {
	if err != nil {
		if missing := s.db.RequireTenant(ctx, tenant); errors.Is(missing, atrium.ErrNoTenant) {
			return missing
		}
	}
	return err
}

func (s *Store) auditRows(ctx context.Context, tenant atrium.TenantID, f atrium.AuditFilter, below int64, limit int) (rows []atrium.AuditRow, next int64, err error) {
	head, err := s.checkAuditEnds(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	if below == 0 {
		below = math.MaxInt64
	}
	if f.PageID != "" {
		return s.pageRows(ctx, tenant, f, below, limit)
	}
	q := kernel.Select("SELECT "+kernel.AuditColumns+" FROM audit WHERE tenant_id = ", kernel.IDArg(tenant))
	edge := "SELECT number FROM audit WHERE tenant_id = $1 AND number < $2 ORDER BY number DESC LIMIT 1 OFFSET $3"
	args := engine.Args{kernel.IDArg(tenant), below, int64(kernel.ScanLimit)}
	if f.Subject != "" {
		q.Add(" AND subject = ", f.Subject)
		edge = "SELECT number FROM audit WHERE tenant_id = $1 AND subject = $2 AND number < $3 ORDER BY number DESC LIMIT 1 OFFSET $4"
		args = engine.Args{kernel.IDArg(tenant), f.Subject, below, int64(kernel.ScanLimit)}
	}
	var least int64 // the lowest number to read; 0 if only the limit bounds the rows
	if f != (atrium.AuditFilter{Subject: f.Subject}) {
		if err := s.db.Query(ctx, edge, args, func(r engine.Row) error {
			least = r.Int(0) + 1
			return nil
		}); err != nil {
			return nil, 0, err
		}
	}
	q.Add(" AND number < ", below)
	q.Add(" AND number >= ", least)
	addFilter(q, &f)
	q.Add(" ORDER BY number DESC LIMIT ", int64(limit)+1)
	rows, more, err := kernel.List(ctx, s.db, q, limit, kernel.ScanAudit)
	if err != nil {
		return nil, 0, err
	}
	if f == (atrium.AuditFilter{}) {
		if below > head.Number {
			below = head.Number + 1
			if len(rows) > 0 { // rows may have been added since the head was read
				below = rows[0].Number + 1
			}
		}
		if err := checkConsecutive(rows, below, more); err != nil {
			return nil, 0, err
		}
	}
	if more {
		return rows, rows[len(rows)-1].Number, nil
	}
	return rows, least, nil
}

// checkConsecutive returns an error unless the rows are consecutive from the number before below,
// and reach row 1 if no more follow.
func checkConsecutive(rows []atrium.AuditRow, below int64, more bool) error {
	for i := range rows {
		if below--; rows[i].Number != below {
			return auditBroken(auditlog.Missing, below)
		}
	}
	if !more && below > 1 {
		return auditBroken(auditlog.Missing, below-1)
	}
	return nil
}

const selectAuditHead = "SELECT number, hash FROM audit_heads WHERE tenant_id = $1"

func scanAuditHead(r engine.Row) auditlog.Head {
	return auditlog.Head{Number: r.Int(0), Hash: r.Bytes(1)}
}

// AuditHead returns the head of a tenant's audit log. Its number is 0 if the log is empty.
func (s *Store) AuditHead(ctx context.Context, tenant atrium.TenantID) (head auditlog.Head, err error) {
	err = s.db.Query(ctx, selectAuditHead, engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		head = scanAuditHead(r)
		return nil
	})
	return head, err
}

// auditEnds are the first and last row of an audit log and its head, read in one transaction.
type auditEnds struct {
	first int64         // the lowest number of a row; 1 if there are no rows
	last  auditlog.Head // of the row with the highest number
	head  auditlog.Head // as stored
}

func (s *Store) auditEnds(ctx context.Context, tenant atrium.TenantID) (ends auditEnds, err error) {
	args := engine.Args{kernel.IDArg(tenant)}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		ends = auditEnds{first: 1}
		if err := tx.Query(selectAuditHead, args, func(r engine.Row) error {
			ends.head = scanAuditHead(r)
			return nil
		}); err != nil {
			return err
		}
		if err := tx.Query("SELECT number, hash FROM audit WHERE tenant_id = $1 ORDER BY number DESC LIMIT 1", args, func(r engine.Row) error {
			ends.last = scanAuditHead(r)
			return nil
		}); err != nil {
			return err
		}
		return tx.Query("SELECT number FROM audit WHERE tenant_id = $1 ORDER BY number LIMIT 1", args, func(r engine.Row) error {
			ends.first = r.Int(0)
			return nil
		})
	})
	return ends, err
}

// checkAuditEnds returns the head of a tenant's audit log, and an error of CodeInternal if a row
// has a number below 1 or above the head.
func (s *Store) checkAuditEnds(ctx context.Context, tenant atrium.TenantID) (auditlog.Head, error) {
	ends, err := s.auditEnds(ctx, tenant)
	switch {
	case err != nil:
	case ends.first < 1:
		err = auditBroken(auditlog.Misplaced, ends.first)
	case ends.last.Number != ends.head.Number, !bytes.Equal(ends.last.Hash, ends.head.Hash):
		err = auditBroken(auditlog.OtherHead, ends.head.Number)
	}
	return ends.head, err
}

// auditBroken returns the error that reports a fault of an audit log to a caller.
func auditBroken(flaw auditlog.Flaw, number int64) error {
	return atrium.Errorf(atrium.CodeInternal, "The audit log is broken: %s. Run atrium audit verify on the database.",
		auditlog.Fault{Flaw: flaw, Number: number})
}

// auditChunk is how many rows of an audit log one query reads.
const auditChunk = 200

// ExportAudit calls emit with the rows of a tenant's audit log from a number to the last row when
// it begins, lowest number first. It holds a few rows in memory, and no transaction while emit
// runs. The error is CodeInternal, and nothing is emitted, if there are rows outside of the range
// from 1 to the head or if the last rows are missing: the exported rows alone would not show
// this. It returns NotFound if the tenant is deleted while it runs.
func (s *Store) ExportAudit(ctx context.Context, tenant atrium.TenantID, from int64, emit func(*atrium.AuditRow) error) error {
	head, err := s.checkAuditEnds(ctx, tenant)
	if err != nil {
		return s.orNoTenant(ctx, tenant, err)
	}
	if err := s.eachAudit(ctx, tenant, from, head.Number, emit); err != nil {
		return err
	}
	return s.db.RequireTenant(ctx, tenant)
}

// eachAudit calls emit with the rows numbered first to last.
func (s *Store) eachAudit(ctx context.Context, tenant atrium.TenantID, first, last int64, emit func(*atrium.AuditRow) error) error {
	for first <= last {
		var rows []atrium.AuditRow
		err := s.db.Query(ctx, "SELECT "+kernel.AuditColumns+" FROM audit WHERE tenant_id = $1 AND number >= $2 AND number <= $3 ORDER BY number LIMIT $4",
			engine.Args{kernel.IDArg(tenant), first, last, int64(auditChunk)}, func(r engine.Row) error {
				rows = append(rows, kernel.ScanAudit(r))
				return nil
			})
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			if err := emit(&rows[i]); err != nil {
				return err
			}
		}
		read := rows[len(rows)-1].Number
		if read == last { // which may be the maximum int64
			return nil
		}
		first = read + 1
	}
	return nil
}

// errBroken stops reading a chain at its first fault.
var errBroken = errors.New("the chain is broken")

// VerifyAudit verifies the hash chain of a tenant's audit log: all rows, the stored head, and
// that the chain contains the known head, unless it is nil. Rows may be added while it runs.
func (s *Store) VerifyAudit(ctx context.Context, tenant atrium.TenantID, known *auditlog.Head) (auditlog.Report, error) {
	v := auditlog.NewVerifier(tenant, known)
	for first, right := int64(math.MinInt64), true; ; { // forged rows may have any number
		ends, err := s.auditEnds(ctx, tenant)
		if err != nil {
			return auditlog.Report{}, err
		}
		last := ends.last.Number
		if err := s.eachAudit(ctx, tenant, first, last, func(row *atrium.AuditRow) error {
			if right = v.Add(row); !right {
				return errBroken
			}
			return nil
		}); err != nil && !errors.Is(err, errBroken) {
			return auditlog.Report{}, err
		}
		// A row may have been redacted by a row that was added after the first chunk was read.
		if !right || v.Explained() || last < first {
			return v.End(&ends.head), nil
		}
		first = last + 1
	}
}

// VerifyAudits verifies the audit logs of all tenants, except those that are being deleted, and of the
// operators, and calls broken with
// each that has a fault. The schema must have audit logs.
func (s *Store) VerifyAudits(ctx context.Context, broken func(atrium.TenantID, auditlog.Fault)) error {
	verify := func(chain atrium.TenantID) error {
		report, err := s.VerifyAudit(ctx, chain, nil)
		if err == nil && report.Fault != nil {
			if err := s.db.RequireTenant(ctx, chain); err != nil { // it is being deleted
				if errors.Is(err, atrium.ErrNoTenant) {
					return nil
				}
				return err
			}
			broken(chain, *report.Fault)
		}
		return err
	}
	if err := verify(atrium.OperatorChain); err != nil {
		return err
	}
	const chunk = 100
	for after := atrium.TenantID(""); ; {
		tenants, err := s.db.TenantsAfter(ctx, after, chunk)
		if err != nil {
			return err
		}
		for _, after = range tenants {
			if err := verify(after); err != nil {
				return err
			}
		}
		if len(tenants) < chunk {
			return nil
		}
	}
}
