package audit

import (
	"context"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// No index serves the rows of a page: those of its versions name only their audience, and a version may have been
// deleted since. So the rows of a tenant are read and filtered.

// parents are what the detail of a row says about what its subject belongs to.
type parents struct {
	PageID     atrium.PageID     `json:"pageId"`
	AudienceID atrium.AudienceID `json:"audienceId"`
}

// parentsOf returns the page or the audience that the subject of a row is, or that its detail names.
func parentsOf(r *atrium.AuditRow) parents {
	if id, ok := atrium.ParseID[atrium.PageID](r.Subject); ok {
		return parents{PageID: id}
	}
	if id, ok := atrium.ParseID[atrium.AudienceID](r.Subject); ok {
		return parents{AudienceID: id}
	}
	_, isVersion := atrium.ParseID[atrium.VersionID](r.Subject)
	_, isPreview := atrium.ParseID[atrium.PreviewID](r.Subject)
	if !isVersion && !isPreview {
		return parents{}
	}
	var detail struct{ Before, After parents }
	if err := json.Unmarshal(r.Detail, &detail, json.MatchCaseInsensitiveNames(true)); err != nil {
		return parents{}
	}
	if detail.After != (parents{}) {
		return detail.After
	}
	return detail.Before
}

var pagesOfAudiences = engine.NewBatch(`SELECT u.audience_id, u.page_id FROM batch
	JOIN audiences u ON u.tenant_id = batch.tenant_id AND u.audience_id = batch.audience_id`,
	"tenant_id bytea", "audience_id bytea")

// pageRows is auditRows for a filter with a page.
func (s *Store) pageRows(ctx context.Context, tenant atrium.TenantID, f atrium.AuditFilter, below int64, limit int) (rows []atrium.AuditRow, next int64, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		position := func(number int64) *atrium.Position { return &atrium.Position{Key: number} }
		read := func(after *atrium.Position, n int) (rows []kernel.ScannedRow[atrium.AuditRow], err error) {
			bytes := 0
			err = tx.Query("SELECT "+kernel.AuditColumns+" FROM audit WHERE tenant_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
				engine.Args{kernel.IDArg(tenant), after.Key, int64(n)}, func(r engine.Row) error {
					if bytes >= kernel.ListBytes {
						return kernel.ErrPageFull
					}
					w := &kernel.SizedRow{Row: r}
					row := kernel.ScanAudit(w)
					rows = append(rows, kernel.ScannedRow[atrium.AuditRow]{Value: row, Position: *position(row.Number), Bytes: w.Size})
					bytes += w.Size
					return nil
				})
			return rows, err
		}
		page, after, err := kernel.ScanPage(position(below), limit, read, func(rows []kernel.ScannedRow[atrium.AuditRow]) ([]bool, int, error) {
			return ofPage(tx, tenant, &f, rows)
		})
		if rows, next = page, 0; after != nil {
			next = after.Key
		}
		return err
	})
	return rows, next, err
}

// ofPage reports which rows the filter selects, and how many audiences it has read for that.
func ofPage(tx engine.Tx, tenant atrium.TenantID, f *atrium.AuditFilter, rows []kernel.ScannedRow[atrium.AuditRow]) (keep []bool, read int, err error) {
	of, audiences := make([]parents, len(rows)), map[atrium.AudienceID]bool{}
	var wanted []engine.Args
	for i := range rows {
		if !f.Has(&rows[i].Value) {
			continue
		}
		of[i] = parentsOf(&rows[i].Value)
		if id := of[i].AudienceID; id != "" {
			if _, ok := audiences[id]; !ok {
				audiences[id] = false
				wanted = append(wanted, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)})
			}
		}
	}
	if len(wanted) > 0 {
		if _, err := tx.Batch(pagesOfAudiences, wanted, func(r engine.Row) error {
			audiences[kernel.IDAt[atrium.AudienceID](r, 0)] = kernel.IDAt[atrium.PageID](r, 1) == f.PageID
			return nil
		}); err != nil {
			return nil, 0, err
		}
	}
	keep = make([]bool, len(rows))
	for i := range rows {
		keep[i] = of[i].PageID == f.PageID || audiences[of[i].AudienceID]
	}
	return keep, len(wanted), nil
}
