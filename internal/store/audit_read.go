package store

import (
	"context"
	"errors"
	"math"
	"strings"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store/engine"
)

// An AuditFilter says which rows of an audit log are listed. What is left out does
// not matter.
type AuditFilter struct {
	Subject      string
	Actor        string
	Action       string // exactly, or all that begin with it if it ends in a dot
	Since, Until *atrium.Time
}

// add appends the conditions but that of the subject.
func (f *AuditFilter) add(q *selection) {
	if f.Actor != "" {
		q.add(" AND actor = ", f.Actor)
	}
	if prefix, ok := strings.CutSuffix(f.Action, "."); ok {
		q.add(" AND action >= ", f.Action)
		q.add(" AND action < ", prefix+"/") // which comes after the dot
	} else if f.Action != "" {
		q.add(" AND action = ", f.Action)
	}
	if f.Since != nil {
		q.add(" AND at >= ", int64(*f.Since))
	}
	if f.Until != nil {
		q.add(" AND at < ", int64(*f.Until))
	}
}

// AuditRows returns up to limit rows of a tenant's audit log that the filter takes,
// highest number first: those below a number, or from the last for 0. It returns the
// number below which the list goes on, 0 at its end: it reads scanLimit rows at most
// and may find fewer than there are, or none.
func (s *Store) AuditRows(ctx context.Context, tenant atrium.TenantID, f AuditFilter, below int64, limit int) (rows []atrium.AuditRow, next int64, err error) {
	if below == 0 {
		below = math.MaxInt64
	}
	q := selecting("SELECT "+auditColumns+" FROM audit WHERE tenant_id = ", idArg(tenant))
	edge := "SELECT number FROM audit WHERE tenant_id = $1 AND number < $2 ORDER BY number DESC LIMIT 1 OFFSET $3"
	args := engine.Args{idArg(tenant), below, int64(scanLimit)}
	if f.Subject != "" {
		q.add(" AND subject = ", f.Subject)
		edge = "SELECT number FROM audit WHERE tenant_id = $1 AND subject = $2 AND number < $3 ORDER BY number DESC LIMIT 1 OFFSET $4"
		args = engine.Args{idArg(tenant), f.Subject, below, int64(scanLimit)}
	}
	var least int64 // that is read; 0 if the limit alone bounds what is
	if f != (AuditFilter{Subject: f.Subject}) {
		if err := s.query(ctx, edge, args, func(r engine.Row) error {
			least = r.Int(0) + 1
			return nil
		}); err != nil {
			return nil, 0, err
		}
	}
	q.add(" AND number < ", below)
	q.add(" AND number >= ", least)
	f.add(q)
	q.add(" ORDER BY number DESC LIMIT ", int64(limit)+1)
	rows, more, err := list(ctx, s, q, limit, scanAudit)
	switch {
	case err != nil:
		return nil, 0, err
	case more:
		return rows, rows[len(rows)-1].Number, nil
	}
	return rows, least, nil
}

const selectAuditHead = "SELECT number, hash FROM audit_heads WHERE tenant_id = $1"

// AuditHead returns the head of a tenant's audit log, number 0 if nothing was
// recorded yet.
func (s *Store) AuditHead(ctx context.Context, tenant atrium.TenantID) (head auditlog.Head, err error) {
	err = s.query(ctx, selectAuditHead, engine.Args{idArg(tenant)}, func(r engine.Row) error {
		head = auditlog.Head{Number: r.Int(0), Hash: r.Bytes(1)}
		return nil
	})
	return head, err
}

// auditChunk is how many rows of an audit log are read at once.
const auditChunk = 200

// ExportAudit calls emit with the rows of a tenant's audit log from a number to the
// last one there is when it begins, lowest number first. It holds a few rows in memory
// and no transaction while emit runs.
func (s *Store) ExportAudit(ctx context.Context, tenant atrium.TenantID, from int64, emit func(*atrium.AuditRow) error) error {
	head, err := s.AuditHead(ctx, tenant)
	if err != nil {
		return err
	}
	return s.eachAudit(ctx, tenant, from, head.Number, emit)
}

// eachAudit calls emit with the rows that have the numbers from first to last.
func (s *Store) eachAudit(ctx context.Context, tenant atrium.TenantID, first, last int64, emit func(*atrium.AuditRow) error) error {
	for first <= last {
		var rows []atrium.AuditRow
		err := s.query(ctx, "SELECT "+auditColumns+" FROM audit WHERE tenant_id = $1 AND number >= $2 AND number <= $3 ORDER BY number LIMIT $4",
			engine.Args{idArg(tenant), first, last, int64(auditChunk)}, func(r engine.Row) error {
				rows = append(rows, scanAudit(r))
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
		first = rows[len(rows)-1].Number + 1
	}
	return nil
}

// errBroken ends the reading of a chain at its first fault.
var errBroken = errors.New("the chain is broken")

// VerifyAudit verifies the chain of a tenant's audit log from its first row to the
// head that is stored with it, and that the known head, nil for none, was one of it.
// It may run while rows are added.
func (s *Store) VerifyAudit(ctx context.Context, tenant atrium.TenantID, known *auditlog.Head) (auditlog.Report, error) {
	v := auditlog.NewVerifier(tenant, known)
	var head auditlog.Head
	for first, right := int64(1), true; ; {
		var last int64
		if err := s.read(ctx, func(tx engine.Tx) error {
			head, last = auditlog.Head{}, 0
			if err := tx.Query(selectAuditHead, engine.Args{idArg(tenant)}, func(r engine.Row) error {
				head = auditlog.Head{Number: r.Int(0), Hash: r.Bytes(1)}
				return nil
			}); err != nil {
				return err
			}
			return tx.Query("SELECT number FROM audit WHERE tenant_id = $1 ORDER BY number DESC LIMIT 1", engine.Args{idArg(tenant)},
				func(r engine.Row) error {
					last = r.Int(0)
					return nil
				})
		}); err != nil {
			return auditlog.Report{}, err
		}
		if err := s.eachAudit(ctx, tenant, first, last, func(row *atrium.AuditRow) error {
			if right = v.Add(row); !right {
				return errBroken
			}
			return nil
		}); err != nil && !errors.Is(err, errBroken) {
			return auditlog.Report{}, err
		}
		// A row may have been redacted since the first chunk, by one behind the last.
		if !right || v.Explained() || last < first {
			return v.End(&head), nil
		}
		first = last + 1
	}
}

// VerifyAudits verifies the audit logs of all tenants and of the operators, and calls
// broken with each that has a fault. The schema has audit logs.
func (s *Store) VerifyAudits(ctx context.Context, broken func(atrium.TenantID, auditlog.Fault)) error {
	verify := func(chain atrium.TenantID) error {
		report, err := s.VerifyAudit(ctx, chain, nil)
		if err == nil && report.Fault != nil {
			broken(chain, *report.Fault)
		}
		return err
	}
	if err := verify(atrium.OperatorChain); err != nil {
		return err
	}
	const chunk = 100
	for after := (*atrium.Position)(nil); ; {
		tenants, more, err := s.Tenants(ctx, after, chunk)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if err := verify(t.ID); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		after = atrium.PositionAt(tenants[len(tenants)-1].CreatedAt, tenants[len(tenants)-1].ID)
	}
}
