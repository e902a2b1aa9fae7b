package requestlog

import (
	"cmp"
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const readColumns = "read_id, at, count, request_id, kind, subject, route, actor"

func scanRead(r engine.Row, tenant atrium.TenantID) atrium.Read {
	read := atrium.Read{
		ID: kernel.IDAt[atrium.ReadID](r, 0), TenantID: tenant, At: atrium.Time(r.Int(1)), Count: r.Int(2), RequestID: r.Text(3),
		Kind: atrium.ReadKind(r.Text(4)), Subject: r.Text(5), Route: r.Text(6),
	}
	actor := r.Text(7)
	if id, ok := atrium.ParseID[atrium.UserID](actor); ok {
		read.UserID = id
	} else {
		read.KeyID = atrium.KeyID(actor)
	}
	return read
}

var insertReads = engine.NewBatch(`INSERT INTO reads (tenant_id, `+readColumns+`)
	SELECT batch.tenant_id, read_id, at, count, request_id, kind, subject, route, actor FROM batch WHERE true ON CONFLICT DO NOTHING`,
	"tenant_id bytea", "read_id bytea", "at bigint", "count bigint", "request_id text", "kind text", "subject text", "route text", "actor text")

// StoreReads stores reads of personal data, as StoreRefusedRequests does. It deletes none.
func (s *Store) StoreReads(ctx context.Context, reads []atrium.Read) error {
	rows := group{}
	for i := range reads {
		r := &reads[i]
		rows[r.TenantID] = append(rows[r.TenantID], engine.Args{
			kernel.IDArg(r.TenantID), kernel.IDArg(r.ID), int64(r.At), r.Count, r.RequestID, string(r.Kind), kernel.Nullable(r.Subject), r.Route,
			cmp.Or(string(r.UserID), string(r.KeyID)),
		})
	}
	return s.store(ctx, rows, insertReads, func(engine.Tx, atrium.TenantID) error { return nil })
}

// Reads returns up to limit reads of personal data of a tenant that match the filter, newest first, after the
// position, or from the first if it is nil, and the position to continue after, nil at the end. One call reads at
// most kernel.ScanLimit rows and may return fewer than limit before the end, or none.
func (s *Store) Reads(ctx context.Context, tenant atrium.TenantID, f atrium.ReadFilter, after *atrium.Position, limit int) (reads []atrium.Read, next *atrium.Position, err error) {
	q := kernel.Select("SELECT "+readColumns+" FROM reads WHERE tenant_id = ", kernel.IDArg(tenant))
	switch {
	case f.Subject != "":
		q.Add(" AND subject = ", f.Subject)
	case f.Actor != "":
		q.Add(" AND actor = ", f.Actor)
	}
	q.After("at", "read_id", after)
	if f.Since != nil {
		q.Add(" AND at >= ", int64(*f.Since))
	}
	if f.Until != nil {
		q.Add(" AND at < ", int64(*f.Until))
	}
	q.Add(" ORDER BY at DESC, read_id DESC LIMIT ", int64(kernel.ScanLimit)+1)
	found, next, err := kernel.Filter(s.db.OutsideTx(ctx), q, limit, func(w *kernel.SizedRow) kernel.Item[atrium.Read] {
		before := w.Size
		r := scanRead(w, tenant)
		return kernel.Item[atrium.Read]{Value: r, Bytes: w.Size - before}
	}, func(r atrium.Read) bool {
		return (f.Kind == "" || r.Kind == f.Kind) && (f.Actor == "" || string(r.UserID) == f.Actor || string(r.KeyID) == f.Actor)
	}, func(r atrium.Read) *atrium.Position { return atrium.PositionAt(r.At, r.ID) })
	return found.Values, next, err
}

// DefaultMaxReads is the default of Store.MaxReads.
const DefaultMaxReads = 1_000_000

// DeleteExpiredReads deletes reads that are older than atrium.ReadLife, and all but the newest MaxReads, of
// some tenants: see kernel.DB.Expire.
func (s *Store) DeleteExpiredReads(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (more bool, err error) {
		before := atrium.At(s.db.Now().Add(-atrium.ReadLife))
		if err := s.db.Query(ctx, "SELECT at FROM reads WHERE tenant_id = $1 ORDER BY at DESC, read_id DESC LIMIT 1 OFFSET $2",
			engine.Args{kernel.IDArg(tenant), int64(s.MaxReads)}, func(r engine.Row) error {
				before = max(before, atrium.Time(r.Int(0)+1))
				return nil
			}); err != nil {
			return false, err
		}
		return s.deleteOldest(ctx, tenant, "reads", before)
	})
}
