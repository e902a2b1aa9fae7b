package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

const pageColumns = `p.page_id, p.brand_id, p.name, p.page_context, p.title, p.status, p.header_action_id, p.audiences_count,
	p.created_at, p.updated_at, p.deleted_at, p.actions, p.scripts, p.footer_links, p.metadata`

func scanPage(r engine.Row, tenant atrium.TenantID) atrium.Page {
	return atrium.Page{
		ID: idAt[atrium.PageID](r, 0), TenantID: tenant, BrandID: r.Text(1), Name: r.Text(2), Context: r.Text(3),
		Title: r.Text(4), Status: atrium.PageStatus(r.Text(5)), HeaderActionID: textAt(r, 6), AudiencesCount: r.Int(7),
		CreatedAt: atrium.Time(r.Int(8)), UpdatedAt: atrium.Time(r.Int(9)), DeletedAt: timeAt(r, 10),
		Actions: r.Bytes(11), Scripts: r.Bytes(12), FooterLinks: r.Bytes(13), Metadata: r.Bytes(14),
	}
}

// Page returns a page, deleted or not, or NotFound.
func (s *Store) Page(ctx context.Context, tenant atrium.TenantID, id atrium.PageID) (p atrium.Page, err error) {
	err = s.find(ctx, "SELECT "+pageColumns+" FROM pages p WHERE tenant_id = $1 AND page_id = $2",
		engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { p = scanPage(r, tenant) })
	return p, err
}

// Pages returns up to limit pages that are not deleted, newest first and by
// descending identifier among equals: those of the status, or all for "", and
// those after the position, or from the first for nil. more says whether others
// follow.
func (s *Store) Pages(ctx context.Context, tenant atrium.TenantID, status atrium.PageStatus, after *atrium.Position, limit int) (pages []atrium.Page, more bool, err error) {
	q := selecting("SELECT "+pageColumns+" FROM pages p WHERE deleted_at IS NULL AND tenant_id = ", idArg(tenant))
	if status != "" {
		q.add(" AND status = ", string(status))
	}
	q.after("created_at", "page_id", after)
	q.add(" ORDER BY created_at DESC, page_id DESC LIMIT ", int64(limit)+1)
	return list(ctx, s, q, limit, func(r engine.Row) atrium.Page { return scanPage(r, tenant) })
}
