package store

import (
	"atrium"
	"atrium/internal/store/engine"
)

// A Record is one thing that a tenant has, as it is imported and exported:
// a *atrium.Account, *atrium.LinkedProspect, *atrium.Merge, *atrium.Brand, *atrium.Page or, with a
// schedule, *atrium.ScheduledPage, *atrium.Audience, *atrium.AudienceVersion or *atrium.Entry.
type Record any

// pageRecord returns a page of the columns of scanScheduledPage as a record.
func pageRecord(r engine.Row, tenant atrium.TenantID) Record {
	p := scanScheduledPage(r, tenant)
	if p.Schedule == (atrium.Schedule{}) {
		return &p.Page
	}
	return &p
}

// pageOf returns the page that a record is, and its schedule.
func pageOf(record Record) (*atrium.Page, atrium.Schedule) {
	if p, ok := record.(*atrium.ScheduledPage); ok {
		return &p.Page, p.Schedule
	}
	return record.(*atrium.Page), atrium.Schedule{}
}

// The columns of each kind of record, in the order in which its scan function
// reads them. Entries and versions come with what is joined to them.
const (
	audienceColumns = "u.audience_id, u.page_id, u.name, u.archived, u.created_at, u.updated_at, u.published_number, u.versions_count"
	afterAudience   = 8 // how many these are
	versionColumns  = "v.version_id, v.audience_id, u.page_id, v.number, v.archived, v.created_at, v.content, v.note, u.published_number"
	entryColumns    = `e.entry_id, e.account_id, e.created_at, e.source, e.type, e.claimed_account_id, e.claimed_domain,
		e.claimed_name, e.idempotency_key, e.acknowledged_account_id, e.occurred_at, e.payload`
	entryColumnsLen = 12
)

func scanAudience(r engine.Row, tenant atrium.TenantID) atrium.Audience {
	return atrium.Audience{
		ID: idAt[atrium.AudienceID](r, 0), TenantID: tenant, PageID: idAt[atrium.PageID](r, 1), Name: r.Text(2),
		Archived: r.Int(3) != 0, CreatedAt: atrium.Time(r.Int(4)), UpdatedAt: atrium.Time(r.Int(5)),
		PublishedNumber: r.Int(6), VersionsCount: r.Int(7),
	}
}

func scanVersion(r engine.Row, tenant atrium.TenantID) atrium.AudienceVersion {
	return atrium.AudienceVersion{PageID: idAt[atrium.PageID](r, 2), Published: r.Int(8) == r.Int(3), Version: atrium.Version{
		ID: idAt[atrium.VersionID](r, 0), TenantID: tenant, AudienceID: idAt[atrium.AudienceID](r, 1),
		Number: r.Int(3), Archived: r.Int(4) != 0, CreatedAt: atrium.Time(r.Int(5)), Content: r.Bytes(6), Note: r.Text(7),
	}}
}

func scanEntry(r engine.Row, tenant atrium.TenantID) atrium.Entry {
	return atrium.Entry{
		ID: idAt[atrium.EntryID](r, 0), TenantID: tenant, AccountID: idAt[atrium.AccountID](r, 1), CreatedAt: atrium.Time(r.Int(2)),
		AcknowledgedID: idAt[atrium.AccountID](r, 9),
		Submission: atrium.Submission{
			Source: r.Text(3), Type: r.Text(4),
			Claim:          atrium.Claim{AccountID: idAt[atrium.AccountID](r, 5), Domain: r.Text(6), Name: r.Text(7)},
			IdempotencyKey: r.Text(8), OccurredAt: timeAt(r, 10), Payload: r.Bytes(11),
		},
	}
}

// ownLinks joins the links l of the prospects of a batch that are no copies. The index
// finds them; by itself, the condition on the other column would have SQLite read all
// links of the tenant in the table instead.
const ownLinks = `JOIN account_prospects i ON i.tenant_id = batch.tenant_id AND i.prospect_id = batch.id
	JOIN account_prospects l ON l.tenant_id = i.tenant_id AND l.account_id = i.account_id
		AND l.prospect_created_at = i.prospect_created_at AND l.prospect_id = i.prospect_id AND l.via IS NULL`

// The batches that find records by their identifiers, and by what else must be
// unique about them.
var (
	accountsByID = engine.NewBatch("SELECT "+accountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+notErased, "tenant_id bytea", "id bytea")
	accountsByDomain = engine.NewBatch("SELECT "+accountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.hash`, "tenant_id bytea", "hash bytea")
	prospectsByID = engine.NewBatch("SELECT "+prospectColumns+` FROM batch JOIN prospects p
		ON p.tenant_id = batch.tenant_id AND p.prospect_id = batch.id`, "tenant_id bytea", "id bytea")
	linksOfProspects = engine.NewBatch(`SELECT l.prospect_id, l.account_id FROM batch `+ownLinks+`
		JOIN accounts a ON a.tenant_id = l.tenant_id AND a.account_id = l.account_id WHERE `+notErased+`
		ORDER BY l.prospect_id, l.account_id`, "tenant_id bytea", "id bytea")
	mergesByID = engine.NewBatch(`SELECT a.account_id, a.merged_into FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id WHERE a.merged_into IS NOT NULL`, "tenant_id bytea", "id bytea")
	brandsByID = engine.NewBatch("SELECT "+brandColumns+` FROM batch JOIN brands b
		ON b.tenant_id = batch.tenant_id AND b.brand_id = batch.id`, "tenant_id bytea", "id bytea")
	pagesByID = engine.NewBatch("SELECT "+pageColumns+", "+scheduleColumns+` FROM batch JOIN pages p
		ON p.tenant_id = batch.tenant_id AND p.page_id = batch.id`, "tenant_id bytea", "id bytea")
	audiencesByID = engine.NewBatch("SELECT "+audienceColumns+`, u.last_number FROM batch JOIN audiences u
		ON u.tenant_id = batch.tenant_id AND u.audience_id = batch.id`, "tenant_id bytea", "id bytea")
	versionsByID = engine.NewBatch("SELECT "+versionColumns+` FROM batch JOIN versions v
		ON v.tenant_id = batch.tenant_id AND v.version_id = batch.id
		JOIN audiences u ON u.tenant_id = v.tenant_id AND u.audience_id = v.audience_id`, "tenant_id bytea", "id bytea")
	versionsByNumber = engine.NewBatch("SELECT "+versionColumns+` FROM batch JOIN versions v
		ON v.tenant_id = batch.tenant_id AND v.audience_id = batch.id AND v.number = batch.number
		JOIN audiences u ON u.tenant_id = v.tenant_id AND u.audience_id = v.audience_id`, "tenant_id bytea", "id bytea", "number bigint")
	entriesByID = engine.NewBatch("SELECT "+entryColumns+` FROM batch JOIN entries e
		ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.id`, "tenant_id bytea", "id bytea")
	entriesByKey = engine.NewBatch("SELECT "+entryColumns+` FROM batch JOIN entries e
		ON e.tenant_id = batch.tenant_id AND e.key_match = batch.match`, "tenant_id bytea", "match bytea")
)
