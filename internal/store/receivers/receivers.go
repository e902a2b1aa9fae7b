package receivers

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
)

const (
	receiverColumns = `r.receiver_id, r.name, r.provider, r.verification, r.source, r.mapping, r.enabled, r.created_at, r.updated_at`

	// receiverColumnCount is the number of receiverColumns: the index of the first column after them.
	receiverColumnCount = 9
)

// scanReceiver reads receiverColumns, which start at column 0.
func scanReceiver(r engine.Row, tenant atrium.TenantID) (found atrium.Receiver, err error) {
	found = atrium.Receiver{
		ID: kernel.IDAt[atrium.ReceiverID](r, 0), TenantID: tenant,
		ReceiverSpec: atrium.ReceiverSpec{Name: r.Text(1), Provider: atrium.ReceiverProvider(r.Text(2)), Source: r.Text(4)},
		Enabled:      r.Int(6) == 1, CreatedAt: atrium.Time(r.Int(7)), UpdatedAt: atrium.Time(r.Int(8)),
	}
	// What a newer release has added must not be ignored: it may verify or map otherwise.
	if err := json.Unmarshal(r.View(3), &found.Verification, json.RejectUnknownMembers(true)); err != nil {
		return found, fmt.Errorf("decode the verification of %s: %w", found.ID, err)
	}
	if err := json.Unmarshal(r.View(5), &found.Mapping, json.RejectUnknownMembers(true)); err != nil {
		return found, fmt.Errorf("decode the mapping of %s: %w", found.ID, err)
	}
	return found, nil
}

// A scanner scans receivers and keeps the first error.
type scanner struct {
	tenant atrium.TenantID
	err    error
}

func (s *scanner) scan(r engine.Row) atrium.Receiver {
	found, err := scanReceiver(r, s.tenant)
	if err != nil && s.err == nil {
		s.err = err
	}
	return found
}

// receiverFields returns what the audit log shows of a receiver.
func receiverFields(r *atrium.Receiver) kernel.Fields {
	fields := kernel.Fields{"name": r.Name, "provider": r.Provider, "source": r.Source, "enabled": r.Enabled}
	if r.Verification != (atrium.Verification{}) {
		fields["verification"] = r.Verification
	}
	m := &r.Mapping
	for name, expression := range map[string]string{
		"filter": m.Filter, "type": m.Type, "accountId": m.AccountID, "domain": m.Domain, "email": m.Email, "accountName": m.Name,
		"occurredAt": m.OccurredAt, "eventId": m.EventID,
	} {
		if expression != "" {
			fields["mapping."+name] = expression
		}
	}
	return fields
}

// encoded returns Verification and Mapping as arguments.
func encoded(s *atrium.ReceiverSpec) (verification, mapping []byte, err error) {
	if verification, err = json.Marshal(s.Verification); err != nil {
		return nil, nil, fmt.Errorf("encode a verification: %w", err)
	}
	if mapping, err = json.Marshal(s.Mapping); err != nil {
		return nil, nil, fmt.Errorf("encode a mapping: %w", err)
	}
	return verification, mapping, nil
}

// CreateReceiver stores an enabled receiver with its secret, which it encrypts. It returns the receiver as stored, and whether
// the same request created it before. It returns Conflict if the tenant has atrium.MaxReceivers, if the process has no key
// for secrets, or if nodes of the previous release may still run: they would not find the receiver.
func (s *Store) CreateReceiver(ctx context.Context, c atrium.Change, r atrium.Receiver, secret atrium.ReceiverSecret) (atrium.Receiver, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Receiver, error) {
		tx.Invalidate()
		made := r
		made.TenantID, made.Enabled, made.CreatedAt, made.UpdatedAt = c.TenantID, true, tx.At, tx.At
		if finished, err := kernel.FinishedAt(tx.Query); err != nil {
			return made, err
		} else if finished < migrations.Receivers {
			return made, atrium.Errorf(atrium.CodeConflict, "Nodes of the previous release may still run. Finish the upgrade with atrium migrate --finish first.")
		}
		if err := tx.LockChain(); err != nil { // so that creations are counted one after another
			return made, err
		}
		var n int64
		if err := engine.Find(tx.Query, "SELECT COUNT(*) FROM (SELECT 1 FROM receivers WHERE tenant_id = $1 LIMIT $2) x",
			engine.Args{kernel.IDArg(c.TenantID), int64(atrium.MaxReceivers)}, func(r engine.Row) { n = r.Int(0) }); err != nil {
			return made, err
		}
		if n >= atrium.MaxReceivers {
			return made, atrium.Errorf(atrium.CodeConflict, "There are %d receivers, the maximum. Delete one first.", n)
		}
		tx.Record("receiver.create", string(made.ID), nil, receiverFields(&made))
		verification, mapping, err := encoded(&made.ReceiverSpec)
		if err != nil {
			return made, err
		}
		if _, err := tx.Exec(`INSERT INTO receivers (tenant_id, receiver_id, name, provider, verification, source, mapping, enabled, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, kernel.IDArg(c.TenantID), kernel.IDArg(made.ID), made.Name, string(made.Provider), verification,
			made.Source, mapping, kernel.BoolInt(made.Enabled), int64(made.CreatedAt), int64(made.UpdatedAt)); err != nil {
			return made, err
		}
		if err := s.insertSecret(tx, made.ID, secret); err != nil {
			return made, err
		}
		_, err = tx.Exec("INSERT INTO receiver_tenants (tenant_id, receiver_id) VALUES ($1, $2)", kernel.IDArg(c.TenantID), kernel.IDArg(made.ID))
		return made, err
	})
}

const (
	ofReceiver     = " FROM receivers r WHERE r.tenant_id = $1 AND r.receiver_id = $2"
	selectReceiver = "SELECT " + receiverColumns + ofReceiver

	// countQuarantined counts the deliveries in quarantine of a receiver r. A tenant has at most atrium.MaxQuarantined. The first
	// argument is the tenant.
	countQuarantined = ", (SELECT COUNT(*) FROM quarantine q WHERE q.tenant_id = $1 AND q.receiver_id = r.receiver_id)"
)

// scanCounted is scan for receiverColumns and countQuarantined.
func (s *scanner) scanCounted(r engine.Row) atrium.Receiver {
	found := s.scan(r)
	found.Quarantined = r.Int(receiverColumnCount)
	return found
}

// Receiver returns a receiver, or NotFound.
func (s *Store) Receiver(ctx context.Context, tenant atrium.TenantID, id atrium.ReceiverID) (found atrium.Receiver, err error) {
	scan := scanner{tenant: tenant}
	if err := s.db.Find(ctx, "SELECT "+receiverColumns+countQuarantined+ofReceiver, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)},
		func(r engine.Row) { found = scan.scanCounted(r) }); err != nil {
		return found, err
	}
	return found, scan.err
}

// Receivers returns up to limit receivers of a tenant by descending identifier, after the position, or from the first if it
// is nil. more reports whether others follow.
func (s *Store) Receivers(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (all []atrium.Receiver, more bool, err error) {
	before := []byte{0xff} // greater than all identifiers
	if after != nil {
		before = kernel.PackID(after.ID)
	}
	q := kernel.Select("SELECT "+receiverColumns+countQuarantined+" FROM receivers r WHERE r.tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND r.receiver_id < ", before)
	q.Add(" ORDER BY r.receiver_id DESC LIMIT ", int64(limit)+1)
	scan := scanner{tenant: tenant}
	if all, more, err = kernel.List(ctx, s.db, q, limit, scan.scanCounted); err != nil {
		return nil, false, err
	}
	return all, more, scan.err
}

// change runs f with a receiver, which is locked. It first calls check with the receiver; an error of check ends the call.
// It returns NotFound if the tenant has no such receiver. The receiver that it returns lacks Quarantined, as do those of the
// methods that call it.
func (s *Store) change(ctx context.Context, c atrium.Change, id atrium.ReceiverID, check func(atrium.Receiver) error,
	f func(*kernel.Mutation, *atrium.Receiver) error,
) (atrium.Receiver, error) {
	r, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (r atrium.Receiver, err error) {
		tx.Invalidate()
		scan := scanner{tenant: c.TenantID}
		if err := engine.Find(tx.Lock, selectReceiver, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}, func(row engine.Row) { r = scan.scan(row) }); err != nil {
			return r, err
		}
		if scan.err != nil {
			return r, scan.err
		}
		if err := check(r); err != nil {
			return r, err
		}
		return r, f(tx, &r)
	})
	return r, err
}

// millisecond is the smallest difference of two times.
const millisecond = 1000

// UpdateReceiver sets what operators decide about a receiver. It first calls check with the current receiver; an error of
// check ends the call. If nothing is different, nothing changes. It returns NotFound if the tenant has no such receiver.
func (s *Store) UpdateReceiver(ctx context.Context, c atrium.Change, id atrium.ReceiverID, spec func(atrium.Receiver) atrium.ReceiverSpec,
	check func(atrium.Receiver) error,
) (atrium.Receiver, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, r *atrium.Receiver) error {
		before := *r
		if r.ReceiverSpec = spec(before); r.ReceiverSpec == before.ReceiverSpec {
			return nil
		}
		r.UpdatedAt = *tx.NotBefore(r.UpdatedAt + millisecond)
		tx.Record("receiver.update", string(id), receiverFields(&before), receiverFields(r))
		verification, mapping, err := encoded(&r.ReceiverSpec)
		if err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE receivers SET name = $1, provider = $2, verification = $3, source = $4, mapping = $5, updated_at = $6 WHERE tenant_id = $7 AND receiver_id = $8",
			r.Name, string(r.Provider), verification, r.Source, mapping, int64(r.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return err
	})
}

// EnableReceiver enables or disables a receiver. It first calls check with the current receiver; an error of check ends the
// call. It returns NotFound if the tenant has no such receiver.
func (s *Store) EnableReceiver(ctx context.Context, c atrium.Change, id atrium.ReceiverID, enabled bool, check func(atrium.Receiver) error) (atrium.Receiver, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, r *atrium.Receiver) error {
		if r.Enabled == enabled {
			return nil
		}
		before, action := receiverFields(r), "receiver.disable"
		if r.Enabled = enabled; enabled {
			action = "receiver.enable"
		}
		r.UpdatedAt = *tx.NotBefore(r.UpdatedAt + millisecond)
		tx.Record(action, string(id), before, receiverFields(r))
		_, err := tx.Exec("UPDATE receivers SET enabled = $1, updated_at = $2 WHERE tenant_id = $3 AND receiver_id = $4",
			kernel.BoolInt(enabled), int64(r.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return err
	})
}

// DeleteReceiver deletes a receiver with its secrets. It first calls check with the receiver; an error of check ends the call.
// It returns NotFound if the tenant has no such receiver, and Conflict if it has deliveries in quarantine: they were
// acknowledged to the system that sent them, so only an operator decides to discard them.
func (s *Store) DeleteReceiver(ctx context.Context, c atrium.Change, id atrium.ReceiverID, check func(atrium.Receiver) error) error {
	_, err := s.change(ctx, c, id, check, func(tx *kernel.Mutation, r *atrium.Receiver) error {
		if err := engine.Find(tx.Query, "SELECT COUNT(*) FROM quarantine WHERE tenant_id = $1 AND receiver_id = $2",
			engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}, func(row engine.Row) { r.Quarantined = row.Int(0) }); err != nil {
			return err
		}
		if r.Quarantined > 0 {
			return atrium.Errorf(atrium.CodeConflict, "The receiver has %s in quarantine. Map all of them again or discard them first.", atrium.Count(r.Quarantined, "delivery", "deliveries"))
		}
		tx.Record("receiver.delete", string(id), receiverFields(r), nil)
		for _, table := range []string{"receiver_tenants", "receiver_secrets", "receivers"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE tenant_id = $1 AND receiver_id = $2", kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
