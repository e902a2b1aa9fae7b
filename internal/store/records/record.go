package records

import (
	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/pages"
)

// A Record is one object of a tenant in an import or export: a *atrium.Account,
// *atrium.LinkedProspect, *atrium.Merge, *atrium.Brand, *atrium.Page or, with a schedule,
// *atrium.ScheduledPage, *atrium.Audience, *atrium.AudienceVersion, *atrium.Tombstone or *atrium.Entry. An
// export of a person also has *atrium.Move and *atrium.AuditRow, which cannot be imported.
type Record any

// pageRecord makes a record of a row that pages.ScanScheduledPage reads.
func pageRecord(r engine.Row, tenant atrium.TenantID) Record {
	p := pages.ScanScheduledPage(r, tenant)
	if p.Schedule == (atrium.Schedule{}) {
		return &p.Page
	}
	return &p
}

// pageOf returns the page and the schedule of a record.
func pageOf(record Record) (*atrium.Page, atrium.Schedule) {
	if p, ok := record.(*atrium.ScheduledPage); ok {
		return &p.Page, p.Schedule
	}
	return record.(*atrium.Page), atrium.Schedule{}
}

// identity returns what identifies a record among those of its kind, "" if its identifier is generated.
func identity(r Record) string {
	switch r := r.(type) {
	case *atrium.Account:
		return string(r.ID)
	case *atrium.LinkedProspect:
		return string(r.ID)
	case *atrium.Merge:
		return "merge of " + string(r.AccountID)
	case *atrium.Brand:
		return string(r.ID)
	case *atrium.Page:
		return string(r.ID)
	case *atrium.ScheduledPage:
		return string(r.ID)
	case *atrium.Audience:
		return string(r.ID)
	case *atrium.AudienceVersion:
		return string(r.ID)
	case *atrium.Tombstone:
		return "tombstone of " + string(r.EntryID)
	case *atrium.Entry:
		return string(r.ID)
	}
	return ""
}

// ownLinks joins the links l of the prospects of a batch, without copies. It joins them through
// their index: with the condition on via alone, SQLite would read all links of the tenant in the
// table.
const ownLinks = `JOIN account_prospects i ON i.tenant_id = batch.tenant_id AND i.prospect_id = batch.id
	JOIN account_prospects l ON l.tenant_id = i.tenant_id AND l.account_id = i.account_id
		AND l.prospect_created_at = i.prospect_created_at AND l.prospect_id = i.prospect_id AND l.via IS NULL`

// Batches that find records by their identifiers and by their other unique members.
var (
	linksOfProspects = engine.NewBatch(`SELECT l.prospect_id, l.account_id FROM batch `+ownLinks+`
		JOIN accounts a ON a.tenant_id = l.tenant_id AND a.account_id = l.account_id WHERE `+accounts.NotErased+`
		ORDER BY l.prospect_id, l.account_id`, "tenant_id bytea", "id bytea")
	mergesByID = engine.NewBatch(`SELECT a.account_id, a.merged_into FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id WHERE a.merged_into IS NOT NULL`, "tenant_id bytea", "id bytea")
	brandsByID = engine.NewBatch("SELECT "+pages.BrandColumns+` FROM batch JOIN brands b
		ON b.tenant_id = batch.tenant_id AND b.brand_id = batch.id`, "tenant_id bytea", "id bytea")
	pagesByID = engine.NewBatch("SELECT "+pages.PageColumns+", "+pages.ScheduleColumns+` FROM batch JOIN pages p
		ON p.tenant_id = batch.tenant_id AND p.page_id = batch.id`, "tenant_id bytea", "id bytea")
	versionsByID = engine.NewBatch("SELECT "+pages.VersionColumns+` FROM batch JOIN versions v
		ON v.tenant_id = batch.tenant_id AND v.version_id = batch.id
		JOIN audiences u ON u.tenant_id = v.tenant_id AND u.audience_id = v.audience_id`, "tenant_id bytea", "id bytea")
	versionsByNumber = engine.NewBatch("SELECT "+pages.VersionColumns+` FROM batch JOIN versions v
		ON v.tenant_id = batch.tenant_id AND v.audience_id = batch.id AND v.number = batch.number
		JOIN audiences u ON u.tenant_id = v.tenant_id AND u.audience_id = v.audience_id`, "tenant_id bytea", "id bytea", "number bigint")
	entriesByID = engine.NewBatch("SELECT "+entries.EntryColumns+` FROM batch JOIN entries e
		ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.id`, "tenant_id bytea", "id bytea")
	entriesByKey = engine.NewBatch("SELECT "+entries.EntryColumns+` FROM batch JOIN entries e
		ON e.tenant_id = batch.tenant_id AND e.key_match = batch.match`, "tenant_id bytea", "match bytea")
)
