package requestlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const refusedColumns = "refused_id, at, count, request_id, method, route, status, code, detail, faults, key_id, user_id, user_agent"

func scanRefused(r engine.Row, tenant atrium.TenantID) (f atrium.RefusedRequest, err error) {
	f = atrium.RefusedRequest{
		ID: kernel.IDAt[atrium.RefusedRequestID](r, 0), TenantID: tenant, At: atrium.Time(r.Int(1)), Count: r.Int(2), RequestID: r.Text(3),
		Method: r.Text(4), Route: r.Text(5), Status: int(r.Int(6)), Code: atrium.Code(r.Text(7)), Detail: r.Text(8),
		KeyID: kernel.IDAt[atrium.KeyID](r, 10), UserID: kernel.IDAt[atrium.UserID](r, 11), UserAgent: r.Text(12),
	}
	var faults []fault
	if err := json.Unmarshal(r.View(9), &faults); err != nil {
		return f, fmt.Errorf("decode the faults of a refused request: %w", err)
	}
	for _, stored := range faults {
		f.Faults = append(f.Faults, atrium.Fault(stored))
	}
	return f, nil
}

// A fault is an atrium.Fault as it is stored.
type fault struct {
	In     atrium.FaultPlace `json:"in"`
	Where  string            `json:"where"`
	Detail string            `json:"detail"`
}

var insertRefused = engine.NewBatch(`INSERT INTO refused_requests (tenant_id, `+refusedColumns+`)
	SELECT batch.tenant_id, refused_id, at, count, request_id, method, route, status, code, detail, faults, key_id, user_id, user_agent
	FROM batch WHERE true ON CONFLICT DO NOTHING`,
	"tenant_id bytea", "refused_id bytea", "at bigint", "count bigint", "request_id text", "method text", "route text", "status bigint",
	"code text", "detail text", "faults bytea", "key_id bytea", "user_id bytea", "user_agent text")

// StoreRefusedRequests stores refused requests of any tenants, and deletes all but the newest
// atrium.MaxRefusedRequests of each. It leaves out those that are stored already, and those of tenants that
// do not exist. After an error, some may be stored: the caller may call it again with the same requests.
func (s *Store) StoreRefusedRequests(ctx context.Context, refused []atrium.RefusedRequest) error {
	rows := group{}
	for i := range refused {
		f := &refused[i]
		stored := make([]fault, len(f.Faults))
		for n, given := range f.Faults {
			stored[n] = fault(given)
		}
		faults, err := json.Marshal(stored)
		if err != nil {
			return fmt.Errorf("encode the faults of a refused request: %w", err)
		}
		rows[f.TenantID] = append(rows[f.TenantID], engine.Args{
			kernel.IDArg(f.TenantID), kernel.IDArg(f.ID), int64(f.At), f.Count, f.RequestID, f.Method, f.Route, int64(f.Status), string(f.Code),
			f.Detail, faults, kernel.IDArg(f.KeyID), kernel.IDArg(f.UserID), f.UserAgent,
		})
	}
	return s.store(ctx, rows, insertRefused, trimRefused)
}

// trimRefused deletes all refused requests of a tenant but the newest ones. It deletes a range, so that
// concurrent transactions lock the rows in the same order.
func trimRefused(tx engine.Tx, tenant atrium.TenantID) error {
	newest := int64(-1)
	if err := tx.Query("SELECT at FROM refused_requests WHERE tenant_id = $1 ORDER BY at DESC, refused_id DESC LIMIT 1 OFFSET $2",
		engine.Args{kernel.IDArg(tenant), int64(atrium.MaxRefusedRequests)}, func(r engine.Row) error {
			newest = r.Int(0)
			return nil
		}); err != nil || newest < 0 {
		return err
	}
	_, err := tx.Exec("DELETE FROM refused_requests WHERE tenant_id = $1 AND at <= $2", kernel.IDArg(tenant), newest)
	return err
}

// RefusedRequests returns up to limit refused requests of a tenant that match the filter, newest first, after
// the position, or from the first if it is nil. more reports whether others follow.
func (s *Store) RefusedRequests(ctx context.Context, tenant atrium.TenantID, f atrium.RefusedRequestFilter, after *atrium.Position, limit int) (refused []atrium.RefusedRequest, more bool, err error) {
	q := kernel.Select("SELECT "+refusedColumns+" FROM refused_requests WHERE tenant_id = ", kernel.IDArg(tenant))
	q.After("at", "refused_id", after)
	if f.Status != 0 {
		q.Add(" AND status = ", f.Status)
	}
	for _, equal := range []struct{ column, text string }{{"code", string(f.Code)}, {"route", f.Route}, {"request_id", f.RequestID}} {
		if equal.text != "" {
			q.Add(" AND "+equal.column+" = ", equal.text)
		}
	}
	if f.KeyID != "" {
		q.Add(" AND key_id = ", kernel.IDArg(f.KeyID))
	}
	q.SQL.WriteString(sentBy(f.SentBy))
	if f.Since != nil {
		q.Add(" AND at >= ", int64(*f.Since))
	}
	if f.Until != nil {
		q.Add(" AND at < ", int64(*f.Until))
	}
	q.Add(" ORDER BY at DESC, refused_id DESC LIMIT ", int64(limit)+1)
	var broken error
	refused, more, err = kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.RefusedRequest {
		request, err := scanRefused(r, tenant)
		broken = cmp.Or(broken, err)
		return request
	})
	return refused, more, cmp.Or(err, broken)
}

// sentBy is the condition of a sender, "" for "".
func sentBy(sender atrium.Sender) string {
	switch sender {
	case atrium.SentByPeople:
		return " AND user_id IS NOT NULL"
	case atrium.SentByPrograms:
		return " AND user_id IS NULL"
	}
	return ""
}

// CountRefusedRequests returns the numbers of refused requests of a tenant from a time on, by code: those of a sender, or all of
// them with "".
func (s *Store) CountRefusedRequests(ctx context.Context, tenant atrium.TenantID, sender atrium.Sender, since atrium.Time) (counts atrium.RefusedRequestCounts, err error) {
	args := engine.Args{kernel.IDArg(tenant)}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		counts = atrium.RefusedRequestCounts{Since: since}
		// With as many rows as are stored, older ones may have been deleted.
		if err := tx.Query("SELECT at FROM refused_requests WHERE tenant_id = $1 ORDER BY at DESC, refused_id DESC LIMIT 1 OFFSET $2",
			engine.Args{kernel.IDArg(tenant), int64(atrium.MaxRefusedRequests - 1)}, func(r engine.Row) error {
				counts.Since = max(since, atrium.Time(r.Int(0)))
				return nil
			}); err != nil {
			return err
		}
		return tx.Query("SELECT code, CAST(SUM(count) AS bigint) FROM refused_requests WHERE tenant_id = $1 AND at >= $2"+sentBy(sender)+" GROUP BY code",
			append(args, int64(counts.Since)), func(r engine.Row) error {
				counts.Codes = append(counts.Codes, atrium.RefusedRequestCount{Code: atrium.Code(r.Text(0)), Count: r.Int(1)})
				return nil
			})
	})
	slices.SortFunc(counts.Codes, func(a, b atrium.RefusedRequestCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	return counts, err
}

// DeleteExpiredRefusedRequests deletes refused requests that are older than atrium.RefusedRequestLife, of
// some tenants: see kernel.DB.Expire.
func (s *Store) DeleteExpiredRefusedRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	before := atrium.At(s.db.Now().Add(-atrium.RefusedRequestLife))
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (more bool, err error) {
		return s.deleteOldest(ctx, tenant, "refused_requests", before)
	})
}
