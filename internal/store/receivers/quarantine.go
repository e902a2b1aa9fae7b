package receivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// errFull means that the quarantine of a tenant has no room.
var errFull = &atrium.Error{Code: atrium.CodeUnavailable, Detail: "The quarantine of the tenant is full, so deliveries that cannot be mapped are refused. Nothing was changed; try again later."}

// sizeOf is a SQL expression for what a delivery adds to the bytes of its tenant.
var sizeOf = kernel.OctetLength("query", "headers", "body")

// Quarantine stores a verified delivery that could not be mapped. When it returns nil, the delivery is durable. It returns
// NotFound if the receiver does not exist, and Unavailable if the tenant has atrium.MaxQuarantined deliveries in
// quarantine, or would have more than atrium.MaxQuarantinedBytes.
func (s *Store) Quarantine(ctx context.Context, d atrium.QuarantinedDelivery) error {
	headers, err := json.Marshal(d.Headers)
	if err != nil {
		return fmt.Errorf("encode headers: %w", err)
	}
	tenant, receiver := kernel.IDArg(d.TenantID), kernel.IDArg(d.ReceiverID)
	size := int64(len(d.Query) + len(headers) + len(d.Body))
	return s.db.Write(engine.ForTenant(ctx, string(d.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		if err := kernel.RequireTenantIn(tx, d.TenantID); err != nil {
			return err
		}
		if err := engine.Find(tx.Lock, "SELECT enabled FROM receivers WHERE tenant_id = $1 AND receiver_id = $2", engine.Args{tenant, receiver}, func(engine.Row) {}); err != nil {
			return err
		}
		if err := s.reserve(tx, d.TenantID, size); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO quarantine (tenant_id, receiver_id, quarantined_id, received_at, request_id, fault, query, headers, body)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, tenant, receiver, kernel.IDArg(d.ID), int64(d.ReceivedAt), string(d.RequestID), d.Fault, d.Query, headers, d.Body)
		return err
	})
}

// reserve counts another delivery of a tenant. It returns errFull if there is no room.
func (s *Store) reserve(tx engine.Tx, tenant atrium.TenantID, size int64) error {
	id := kernel.IDArg(tenant)
	for counted := false; ; counted = true {
		n, err := tx.Exec("UPDATE quarantine_totals SET deliveries = deliveries + 1, bytes = bytes + $1 WHERE tenant_id = $2 AND deliveries < $3 AND bytes <= $4",
			size, id, int64(atrium.MaxQuarantined), atrium.MaxQuarantinedBytes-size)
		switch {
		case err != nil || n > 0:
			return err
		case counted:
			return errFull
		}
		added, err := tx.Exec("INSERT INTO quarantine_totals (tenant_id, deliveries, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", id, int64(0), int64(0))
		if err != nil {
			return err
		}
		if added == 0 && !s.recounts.begin(tenant, s.db.Now()) {
			return errFull
		}
		if _, err := tx.Exec("UPDATE quarantine_totals SET deliveries = (SELECT COUNT(*) FROM quarantine q WHERE q.tenant_id = $1), bytes = "+
			"(SELECT COALESCE(SUM("+sizeOf+"), 0) FROM quarantine q WHERE q.tenant_id = $1) WHERE tenant_id = $1", id); err != nil {
			return err
		}
	}
}

// recounts limits how often the totals of a tenant are counted again. Counting 10,000 deliveries takes a transaction some tens
// of milliseconds, in which other tenants cannot write on SQLite, and a full quarantine gets many requests: the systems that
// send them try again. It is safe for concurrent use.
type recounts struct {
	mu    sync.Mutex
	began map[atrium.TenantID]time.Time // guarded by mu; those of the last recountInterval
}

// recountInterval is how often a process counts the deliveries of a tenant again.
const recountInterval = time.Minute

// begin reports whether the totals of a tenant may be counted again now.
func (r *recounts) begin(tenant atrium.TenantID, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.began, func(_ atrium.TenantID, at time.Time) bool { return now.Sub(at).Abs() >= recountInterval })
	if _, found := r.began[tenant]; found {
		return false
	}
	if r.began == nil {
		r.began = map[atrium.TenantID]time.Time{}
	}
	r.began[tenant] = now
	return true
}

const (
	listedColumns = "quarantined_id, received_at, request_id, fault, octet_length(body)"
	wholeColumns  = listedColumns + ", receiver_id, query, headers, body"
)

// scanListed reads listedColumns, which start at column 0.
func scanListed(r engine.Row, tenant atrium.TenantID, receiver atrium.ReceiverID) atrium.QuarantinedDelivery {
	return atrium.QuarantinedDelivery{
		ID: kernel.IDAt[atrium.QuarantinedID](r, 0), TenantID: tenant, ReceiverID: receiver, ReceivedAt: atrium.Time(r.Int(1)), RequestID: atrium.RequestID(r.Text(2)),
		Fault: r.Text(3), BodyBytes: r.Int(4),
	}
}

// scanWhole reads wholeColumns, which start at column 0.
func scanWhole(r engine.Row, tenant atrium.TenantID) (d atrium.QuarantinedDelivery, err error) {
	d = scanListed(r, tenant, kernel.IDAt[atrium.ReceiverID](r, 5))
	d.Query, d.Body = r.Text(6), r.Bytes(8)
	if err := json.Unmarshal(r.View(7), &d.Headers); err != nil {
		return d, fmt.Errorf("decode the headers of %s: %w", d.ID, err)
	}
	return d, nil
}

// inRange adds the conditions of a filter.
func inRange(q *kernel.SelectBuilder, f atrium.QuarantineFilter) {
	if f.Since != nil {
		q.Add(" AND received_at >= ", int64(*f.Since))
	}
	if f.Until != nil {
		q.Add(" AND received_at < ", int64(*f.Until))
	}
}

// QuarantinedDeliveries returns up to limit deliveries that a receiver has in quarantine and that match the filter, newest first,
// after the position, or from the first if it is nil. They are without headers, queries and bodies. more reports whether
// others follow. A receiver that does not exist has none.
func (s *Store) QuarantinedDeliveries(ctx context.Context, tenant atrium.TenantID, receiver atrium.ReceiverID, f atrium.QuarantineFilter, after *atrium.Position, limit int,
) (found []atrium.QuarantinedDelivery, more bool, err error) {
	q := kernel.Select("SELECT "+listedColumns+" FROM quarantine WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND receiver_id = ", kernel.IDArg(receiver))
	q.After("received_at", "quarantined_id", after)
	inRange(q, f)
	q.Add(" ORDER BY received_at DESC, quarantined_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.QuarantinedDelivery { return scanListed(r, tenant, receiver) })
}

const selectQuarantined = "SELECT " + wholeColumns + " FROM quarantine WHERE tenant_id = $1 AND receiver_id = $2 AND quarantined_id = $3"

// QuarantinedDelivery returns a delivery that a receiver has in quarantine, or NotFound.
func (s *Store) QuarantinedDelivery(ctx context.Context, tenant atrium.TenantID, receiver atrium.ReceiverID, id atrium.QuarantinedID) (d atrium.QuarantinedDelivery, err error) {
	var scanErr error
	if err := s.db.Find(ctx, selectQuarantined, engine.Args{kernel.IDArg(tenant), kernel.IDArg(receiver), kernel.IDArg(id)}, func(r engine.Row) {
		d, scanErr = scanWhole(r, tenant)
	}); err != nil {
		return d, err
	}
	return d, scanErr
}

// Limits of the deliveries that are read or deleted together.
const (
	batchDeliveries = 200
	batchBytes      = 2 << 20 // of their headers, queries and bodies, unless one has more
)

// NextQuarantined returns the oldest deliveries that a receiver has in quarantine after a position, nil for the first ones: at
// most limit, and no more than a transaction should delete. It returns none at the end.
func (s *Store) NextQuarantined(ctx context.Context, tenant atrium.TenantID, receiver atrium.ReceiverID, after *atrium.Position, limit int,
) (found []atrium.QuarantinedDelivery, err error) {
	q := kernel.Select("SELECT "+wholeColumns+" FROM quarantine WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND receiver_id = ", kernel.IDArg(receiver))
	found, _, err = read(s.db.OutsideTx(ctx), tenant, q, after, min(limit, batchDeliveries))
	return found, err
}

// read returns whole deliveries, oldest first, after a position, and whether others follow. It ends after batchBytes.
func read(query kernel.QueryFunc, tenant atrium.TenantID, q *kernel.SelectBuilder, after *atrium.Position, limit int,
) (found []atrium.QuarantinedDelivery, more bool, err error) {
	if after != nil {
		q.Add(" AND (received_at, quarantined_id) > (", after.Key)
		q.Add(", ", kernel.PackID(after.ID))
		q.SQL.WriteString(")")
	}
	q.Add(" ORDER BY received_at, quarantined_id LIMIT ", int64(limit)+1)
	row := &kernel.SizedRow{}
	err = query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if more = row.Size >= batchBytes || len(found) == limit; more {
			return kernel.ErrPageFull
		}
		row.Row = r
		d, err := scanWhole(row, tenant)
		found = append(found, d)
		return err
	})
	if errors.Is(err, kernel.ErrPageFull) {
		err = nil
	}
	return found, more, err
}

// PositionOf returns the position after which NextQuarantined continues.
func PositionOf(d *atrium.QuarantinedDelivery) *atrium.Position {
	return atrium.PositionAt(d.ReceivedAt, d.ID)
}

// A Key names a delivery in quarantine.
type Key struct {
	Receiver atrium.ReceiverID
	ID       atrium.QuarantinedID
}

// KeysOf returns the keys of deliveries.
func KeysOf(found []atrium.QuarantinedDelivery) []Key {
	keys := make([]Key, len(found))
	for i := range found {
		keys[i] = Key{found[i].ReceiverID, found[i].ID}
	}
	return keys
}

// Remove deletes deliveries of the tenant, at most batchDeliveries, and returns how many of them were still there, by receiver.
func Remove(tx engine.Tx, tenant atrium.TenantID, keys []Key) (removed map[atrium.ReceiverID]int64, err error) {
	tx.Invalidate()
	removed = map[atrium.ReceiverID]int64{}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Or(cmp.Compare(a.Receiver, b.Receiver), cmp.Compare(a.ID, b.ID)) }) // so that two calls do not deadlock
	var total, bytes int64
	for _, k := range keys {
		if err := tx.Query("DELETE FROM quarantine WHERE tenant_id = $1 AND receiver_id = $2 AND quarantined_id = $3 RETURNING "+sizeOf,
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(k.Receiver), kernel.IDArg(k.ID)}, func(r engine.Row) error {
				removed[k.Receiver]++
				total, bytes = total+1, bytes+r.Int(0)
				return nil
			}); err != nil {
			return nil, err
		}
	}
	if total > 0 {
		_, err = tx.Exec("UPDATE quarantine_totals SET deliveries = deliveries - $1, bytes = bytes - $2 WHERE tenant_id = $3", total, bytes, kernel.IDArg(tenant))
	}
	return removed, err
}

// errNotStored ends the transaction of a delivery if not all of its entries can be stored.
var errNotStored = errors.New("an entry of the delivery cannot be stored")

// MapQuarantined stores the entries of a delivery that a receiver has in quarantine, and deletes the delivery, in one transaction:
// it is mapped once, whatever its mapping was before. It sets the identifiers of the drafts. If an outcome is an error, nothing
// was changed. MapQuarantined returns NotFound if there is no such delivery, such as after another request has mapped it or an
// erasure has deleted it.
func (s *Store) MapQuarantined(ctx context.Context, c atrium.Change, receiver atrium.ReceiverID, id atrium.QuarantinedID, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	for _, d := range drafts {
		d.ID = atrium.NewID[atrium.EntryID]()
	}
	var outcomes []atrium.Outcome
	committed := func() {}
	_, _, err := kernel.MutateLarge(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		outcomes = nil
		removed, err := Remove(tx, c.TenantID, []Key{{receiver, id}})
		switch {
		case err != nil:
			return none, err
		case removed[receiver] == 0:
			return none, atrium.NotFound()
		}
		if len(drafts) > 0 {
			if outcomes, committed, err = s.append(tx, drafts); err != nil {
				return none, err
			}
		}
		added := 0
		for i := range outcomes {
			if outcomes[i].Err != nil {
				return none, errNotStored
			}
			if !outcomes[i].Replayed {
				added++
			}
		}
		tx.RecordDetail("receiver.map_again", string(receiver), map[string]any{"accountLogs": added, "deliveries": 1, "quarantinedId": id})
		return none, nil
	})
	switch {
	case err == nil:
		committed()
	case !errors.Is(err, errNotStored):
		return nil, err
	}
	return outcomes, nil
}

// remove deletes deliveries of a receiver and records it, with their number or, of one alone, its identifier.
func (s *Store) remove(ctx context.Context, c atrium.Change, receiver atrium.ReceiverID, ids []atrium.QuarantinedID, action string, detail map[string]any) (n int64, err error) {
	keys := make([]Key, len(ids))
	for i, id := range ids {
		keys[i] = Key{receiver, id}
	}
	mutate := kernel.MutateLarge[int64]
	if len(ids) == 1 {
		mutate = kernel.Mutate[int64]
	}
	n, _, err = mutate(ctx, s.db, c, func(tx *kernel.Mutation) (int64, error) {
		removed, err := Remove(tx, c.TenantID, keys)
		if err != nil || removed[receiver] == 0 {
			return 0, err
		}
		if len(ids) == 1 {
			detail["quarantinedId"] = ids[0]
		}
		detail["deliveries"] = removed[receiver]
		tx.RecordDetail(action, string(receiver), detail)
		return removed[receiver], nil
	})
	return n, err
}

// DiscardQuarantined deletes a delivery that a receiver has in quarantine. It returns NotFound if there is no such delivery.
func (s *Store) DiscardQuarantined(ctx context.Context, c atrium.Change, receiver atrium.ReceiverID, id atrium.QuarantinedID) error {
	n, err := s.remove(ctx, c, receiver, []atrium.QuarantinedID{id}, "receiver.discard", map[string]any{})
	if err == nil && n == 0 {
		return atrium.NotFound()
	}
	return err
}

// maxDiscards is the maximum number of transactions of one DiscardQuarantine.
const maxDiscards = 10

// DiscardQuarantine deletes the deliveries that a receiver has in quarantine and that match the filter, oldest first, in bounded
// transactions. It returns how many it has deleted; more reports whether to call it again for others. It returns NotFound
// if the tenant has no such receiver.
func (s *Store) DiscardQuarantine(ctx context.Context, c atrium.Change, receiver atrium.ReceiverID, f atrium.QuarantineFilter) (discarded int64, more bool, err error) {
	if _, err := s.Receiver(ctx, c.TenantID, receiver); err != nil {
		return 0, false, err
	}
	if f.Until == nil {
		f.Until = new(atrium.At(s.db.Now()) + 1) // not those that arrive in the meantime
	}
	for range maxDiscards {
		q := kernel.Select("SELECT quarantined_id, "+sizeOf+" FROM quarantine WHERE tenant_id = ", kernel.IDArg(c.TenantID))
		q.Add(" AND receiver_id = ", kernel.IDArg(receiver))
		inRange(q, f)
		ids, err := firstIDs(s.db.OutsideTx(ctx), q)
		if err != nil || len(ids) == 0 {
			return discarded, false, err
		}
		n, err := s.remove(ctx, c, receiver, ids, "receiver.discard", map[string]any{})
		if err != nil {
			return discarded, true, err
		}
		discarded += n
	}
	return discarded, true, nil
}

// firstIDs returns the oldest deliveries that q selects, as many as a transaction deletes. q selects identifiers and sizes.
func firstIDs(query kernel.QueryFunc, q *kernel.SelectBuilder) (ids []atrium.QuarantinedID, err error) {
	q.Add(" ORDER BY received_at, quarantined_id LIMIT ", int64(batchDeliveries))
	bytes := int64(0)
	err = query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if bytes += r.Int(1); bytes > batchBytes && len(ids) > 0 {
			return kernel.ErrPageFull
		}
		ids = append(ids, kernel.IDAt[atrium.QuarantinedID](r, 0))
		return nil
	})
	if errors.Is(err, kernel.ErrPageFull) {
		err = nil
	}
	return ids, err
}

var setFaults = engine.NewBatch(`UPDATE quarantine SET fault = batch.fault FROM batch
	WHERE quarantine.tenant_id = batch.tenant_id AND quarantine.receiver_id = batch.receiver_id AND quarantine.quarantined_id = batch.quarantined_id
	AND quarantine.fault <> batch.fault`,
	"tenant_id bytea", "receiver_id bytea", "quarantined_id bytea", "fault text")

// SetQuarantineFaults stores why deliveries of a receiver could not be mapped when it was tried again.
func (s *Store) SetQuarantineFaults(ctx context.Context, c atrium.Change, receiver atrium.ReceiverID, faults map[atrium.QuarantinedID]string) error {
	if len(faults) == 0 {
		return nil
	}
	var rows []engine.Args
	for _, id := range slices.Sorted(maps.Keys(faults)) { // so that two calls do not deadlock
		rows = append(rows, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(receiver), kernel.IDArg(id), faults[id]})
	}
	return kernel.WriteLarge(ctx, s.db, c, func(tx engine.Tx) error {
		tx.Invalidate()
		_, err := tx.Batch(setFaults, rows, nil)
		return err
	})
}

// DeleteExpiredQuarantine deletes deliveries that were received more than QuarantineRetention ago, of some tenants: see
// kernel.DB.Expire. The audit log says how many.
func (s *Store) DeleteExpiredQuarantine(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	before := int64(atrium.At(s.db.Now().Add(-s.QuarantineRetention)))
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		var receiver atrium.ReceiverID
		if err := s.db.Query(ctx, "SELECT receiver_id FROM quarantine WHERE tenant_id = $1 AND received_at < $2 ORDER BY received_at, quarantined_id LIMIT 1",
			engine.Args{kernel.IDArg(tenant), before}, func(r engine.Row) error {
				receiver = kernel.IDAt[atrium.ReceiverID](r, 0)
				return nil
			}); err != nil || receiver == "" {
			return false, err
		}
		q := kernel.Select("SELECT quarantined_id, "+sizeOf+" FROM quarantine WHERE tenant_id = ", kernel.IDArg(tenant))
		q.Add(" AND receiver_id = ", kernel.IDArg(receiver))
		q.Add(" AND received_at < ", before)
		ids, err := firstIDs(s.db.OutsideTx(ctx), q)
		if err != nil {
			return false, err
		}
		_, err = s.remove(ctx, atrium.Change{TenantID: tenant, Actor: atrium.ActorRetention}, receiver, ids, "receiver.expire", map[string]any{})
		return true, err
	})
}
