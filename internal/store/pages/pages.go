package pages

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// PageColumns are the columns of a page p in the order in which ScanScheduledPage reads them.
const PageColumns = `p.page_id, p.brand_id, p.name, p.page_context, p.title, p.status, p.header_action_id, p.audiences_count,
	p.created_at, p.updated_at, p.deleted_at, p.actions, p.scripts, p.footer_links, p.metadata, p.public, p.max_age`

const pageColumnsLen = 17 // the number of PageColumns

// listedPage returns the columns of a page in lists: all but the metadata. column maps the names
// of texts and documents to expressions.
func listedPage(column func(string) string) string {
	return "p.page_id, " + column("p.brand_id") + ", " + column("p.name") + ", " + column("p.page_context") + ", " + column("p.title") +
		", p.status, " + column("p.header_action_id") + ", p.audiences_count, p.created_at, p.updated_at, p.deleted_at, " +
		column("p.actions") + ", " + column("p.scripts") + ", " + column("p.footer_links") + ", NULL, p.public, p.max_age"
}

func asIs(column string) string { return column }

var (
	pageBytes = kernel.OctetLength("p.brand_id", "p.name", "p.page_context", "p.title", "p.header_action_id", "p.actions", "p.scripts", "p.footer_links")

	selectServerPages = "SELECT " + listedPage(kernel.InlineOrNull) + ", " + pageBytes + " FROM pages p WHERE "
	selectFilePages   = "SELECT " + listedPage(asIs) + ", 0 FROM pages p WHERE "

	listedPagesByID = engine.NewBatch("SELECT "+listedPage(asIs)+" FROM batch JOIN pages p ON p.tenant_id = batch.tenant_id AND p.page_id = batch.id",
		"tenant_id bytea", "id bytea")
)

// selectPages returns the beginning of a statement for listPages. An embedded database reads only
// the rows of the current page of the list: there, expressions that leave out long values would
// cost as much as reading them.
func (s *Store) selectPages() string {
	if s.db.Engine.Traits().Remote {
		return selectServerPages
	}
	return selectFilePages
}

func scanPage(r engine.Row, tenant atrium.TenantID) atrium.Page {
	return atrium.Page{
		ID: kernel.IDAt[atrium.PageID](r, 0), TenantID: tenant, BrandID: r.Text(1), Name: r.Text(2), Context: r.Text(3),
		Title: r.Text(4), Status: atrium.PageStatus(r.Text(5)), HeaderActionID: kernel.TextAt(r, 6), AudiencesCount: r.Int(7),
		CreatedAt: atrium.Time(r.Int(8)), UpdatedAt: atrium.Time(r.Int(9)), DeletedAt: kernel.TimeAt(r, 10),
		Actions: r.Bytes(11), Scripts: r.Bytes(12), FooterLinks: r.Bytes(13), Metadata: r.Bytes(14), Public: r.Int(15) != 0, MaxAge: r.Int(16),
	}
}

func pageFields(p *atrium.Page) kernel.Fields {
	return kernel.Fields{
		"brandId": p.BrandID, "name": p.Name, "title": p.Title, "pageContext": p.Context, "status": p.Status,
		"actions": kernel.RawJSON(p.Actions), "scripts": kernel.RawJSON(p.Scripts), "footerLinks": kernel.RawJSON(p.FooterLinks),
		"headerActionId": p.HeaderActionID, "metadata": kernel.RawJSON(p.Metadata), "deletedAt": p.DeletedAt,
		"public": p.Public, "maxAgeSeconds": p.MaxAge,
	}
}

// Page returns a page, deleted or not, or NotFound.
func (s *Store) Page(ctx context.Context, tenant atrium.TenantID, id atrium.PageID) (p atrium.Page, err error) {
	err = s.db.Find(ctx, selectPage, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { p = scanPage(r, tenant) })
	return p, err
}

const selectPage = "SELECT " + PageColumns + " FROM pages p WHERE tenant_id = $1 AND page_id = $2"

// Pages returns up to limit pages that are not deleted, and about kernel.ListBytes, without their
// metadata, newest first and by descending identifier if they were created at the same instant.
// It returns the pages with the status, or all if it is "", after the position, or from the first
// if it is nil. more reports whether others follow.
func (s *Store) Pages(ctx context.Context, tenant atrium.TenantID, status atrium.PageStatus, after *atrium.Position, limit int) (pages []atrium.Page, more bool, err error) {
	q := kernel.Select(s.selectPages()+"deleted_at IS NULL AND tenant_id = ", kernel.IDArg(tenant))
	if status != "" {
		q.Add(" AND status = ", string(status))
	}
	q.After("created_at", "page_id", after)
	q.Add(" ORDER BY created_at DESC, page_id DESC LIMIT ", int64(limit)+1)
	return s.listPages(ctx, tenant, q, limit)
}

// listPages runs a selection of selectPages and returns up to limit pages, and whether more
// follow.
func (s *Store) listPages(ctx context.Context, tenant atrium.TenantID, q *kernel.SelectBuilder, limit int) (pages []atrium.Page, more bool, err error) {
	scan := func(r engine.Row) atrium.Page { return scanPage(r, tenant) }
	pages, err = kernel.ListComplete(ctx, s.db, tenant, func(run kernel.QueryFunc) (found kernel.Items[atrium.Page], err error) {
		found, more, err = kernel.ListItems(run, q, limit, func(w *kernel.SizedRow) kernel.Item[atrium.Page] {
			p := scan(w)
			read := len(p.BrandID) + len(p.Name) + len(p.Context) + len(p.Title) + len(p.Actions) + len(p.Scripts) + len(p.FooterLinks)
			if p.HeaderActionID != nil {
				read += len(*p.HeaderActionID)
			}
			bytes := int(w.Int(pageColumnsLen))
			return kernel.Item[atrium.Page]{Value: p, Bytes: max(bytes, read), Partial: bytes > read}
		})
		return found, err
	}, listedPagesByID, scan, pageID)
	return pages, more, err
}

func pageID(p *atrium.Page) atrium.PageID { return p.ID }

// FilteredPages returns up to limit pages that match the filter, in the order and form of Pages,
// after the position, or from the first if it is nil. next is the position to continue after, nil
// at the end of the list. If no index supports the filter, one call reads at most
// kernel.ScanLimit rows and may return fewer pages than limit before the end, or none.
func (s *Store) FilteredPages(ctx context.Context, tenant atrium.TenantID, filter atrium.PageFilter, after *atrium.Position, limit int) (pages []atrium.Page, next *atrium.Position, err error) {
	position := func(p atrium.Page) *atrium.Position { return atrium.PositionAt(p.CreatedAt, p.ID) }
	if filter.BrandID == "" && (!filter.Deleted || filter.Status == "") {
		var more bool
		if filter.Deleted {
			pages, more, err = s.deletedPages(ctx, tenant, after, limit)
		} else {
			pages, more, err = s.Pages(ctx, tenant, filter.Status, after, limit)
		}
		if more {
			next = position(pages[len(pages)-1])
		}
		return pages, next, err
	}
	columns := "SELECT p.page_id, p.created_at, p.status, p.deleted_at, " + pageBytes + " FROM pages p WHERE "
	scan := func(r *kernel.SizedRow) kernel.Item[atrium.Page] {
		return kernel.Item[atrium.Page]{Value: atrium.Page{
			ID: kernel.IDAt[atrium.PageID](r, 0), CreatedAt: atrium.Time(r.Int(1)), Status: atrium.PageStatus(r.Text(2)), DeletedAt: kernel.TimeAt(r, 3),
		}, Bytes: int(r.Int(4)), Partial: true}
	}
	q := kernel.Select(columns+"deleted_at IS NOT NULL AND tenant_id = ", kernel.IDArg(tenant))
	if filter.BrandID != "" {
		q = kernel.Select(columns+"length(brand_id) = 32 AND tenant_id = ", kernel.IDArg(tenant))
		q.Add(" AND brand_id = ", string(filter.BrandID))
	}
	q.After("created_at", "page_id", after)
	q.Add(" ORDER BY created_at DESC, page_id DESC LIMIT ", int64(kernel.ScanLimit)+1)
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		var found kernel.Items[atrium.Page]
		if found, next, err = kernel.Filter(tx.Query, q, limit, scan, func(p atrium.Page) bool {
			return (p.DeletedAt != nil) == filter.Deleted && (filter.Status == "" || p.Status == filter.Status)
		}, position); err != nil {
			return err
		}
		pages, err = kernel.CompleteItems(tx, tenant, found, listedPagesByID, func(r engine.Row) atrium.Page { return scanPage(r, tenant) }, pageID)
		return err
	})
	return pages, next, err
}

func (s *Store) deletedPages(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (pages []atrium.Page, more bool, err error) {
	q := kernel.Select(s.selectPages()+"deleted_at IS NOT NULL AND tenant_id = ", kernel.IDArg(tenant))
	q.After("created_at", "page_id", after)
	q.Add(" ORDER BY created_at DESC, page_id DESC LIMIT ", int64(limit)+1)
	return s.listPages(ctx, tenant, q, limit)
}

// ScheduledPage returns a page, deleted or not, with its schedule, or NotFound.
func (s *Store) ScheduledPage(ctx context.Context, tenant atrium.TenantID, id atrium.PageID) (p atrium.ScheduledPage, err error) {
	err = s.db.Find(ctx, "SELECT "+PageColumns+`,
			`+ScheduleColumns+` FROM pages p WHERE p.tenant_id = $1 AND p.page_id = $2`,
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { p = ScanScheduledPage(r, tenant) })
	return p, err
}

// ScheduleColumns are the columns that ScanScheduledPage reads after PageColumns.
const ScheduleColumns = `(SELECT due_at FROM schedules s WHERE s.tenant_id = p.tenant_id AND s.page_id = p.page_id AND s.action = 'publish'),
	(SELECT due_at FROM schedules s WHERE s.tenant_id = p.tenant_id AND s.page_id = p.page_id AND s.action = 'unpublish')`

// ScanScheduledPage reads PageColumns and ScheduleColumns, which start at column 0.
func ScanScheduledPage(r engine.Row, tenant atrium.TenantID) atrium.ScheduledPage {
	return atrium.ScheduledPage{Page: scanPage(r, tenant), Schedule: atrium.Schedule{PublishAt: kernel.TimeAt(r, pageColumnsLen), UnpublishAt: kernel.TimeAt(r, pageColumnsLen+1)}}
}
