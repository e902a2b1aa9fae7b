package pages

import (
	"cmp"
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// What sites read of a page. Each statement selects only what is published: the page, audiences that
// are not archived, and their published versions. If $3 is 1, the page must be public.

var isPublished = "p.tenant_id = $1 AND p.page_id = $2 AND p.status = 'published' AND p.deleted_at IS NULL AND p.public >= $3 AND " + tenantExists

// tenantExists is a condition on the tenant $1: what a deleted tenant has published is gone at once, and
// public pages are read without a key.
var tenantExists = kernel.Exists("$1") + " = 1"

// selectContent returns a page, and up to $4 audiences with their versions, in one statement, so that
// both are from one snapshot. A row is the page if column 4 is not null. Long contents are null.
var selectContent = `SELECT p.page_id, p.public, p.max_age, NULL, p.brand_id, p.title, p.header_action_id, p.actions, p.scripts, p.footer_links, NULL
	FROM pages p WHERE ` + isPublished + `
	UNION ALL SELECT audience_id, number, created_at, audience_created_at, NULL, NULL, NULL, version_id, content, NULL, size FROM (
		SELECT u.audience_id, v.number, v.created_at, u.created_at AS audience_created_at, v.version_id,
			` + kernel.InlineOrNull("v.content") + " AS content, " + kernel.OctetLength("v.content") + ` AS size
		FROM audiences u CROSS JOIN versions v
		WHERE u.tenant_id = $1 AND u.page_id = $2 AND u.published_number IS NOT NULL AND u.archived = 0
			AND v.tenant_id = $1 AND v.audience_id = u.audience_id AND v.number = u.published_number AND v.archived = 0
		ORDER BY u.created_at DESC, u.audience_id DESC LIMIT $4) AS shown`

// contentsByAudience finds the published versions of audiences, with contents of any length.
var contentsByAudience = engine.NewBatch(`SELECT v.audience_id, v.number, v.created_at, NULL, NULL, NULL, NULL, v.version_id, v.content
	FROM batch JOIN audiences u ON u.tenant_id = batch.tenant_id AND u.audience_id = batch.id
	JOIN versions v ON v.tenant_id = u.tenant_id AND v.audience_id = u.audience_id AND v.number = u.published_number`,
	"tenant_id bytea", "id bytea")

// scanAudienceContent reads the row of an audience in selectContent.
func scanAudienceContent(r engine.Row) atrium.AudienceContent {
	return atrium.AudienceContent{
		AudienceID: kernel.IDAt[atrium.AudienceID](r, 0), Number: r.Int(1), CreatedAt: atrium.Time(r.Int(2)),
		VersionID: kernel.IDAt[atrium.VersionID](r, 7), Content: r.Bytes(8),
	}
}

// PublishedContent returns what is published of a page, with its newest audiences: at most
// atrium.MaxContentAudiences, and about kernel.ListBytes of content. It returns NotFound unless the
// page is published and not deleted, and with publicOnly, also unless it is public.
func (s *Store) PublishedContent(ctx context.Context, tenant atrium.TenantID, id atrium.PageID, publicOnly bool) (c atrium.Content, err error) {
	read := func(run kernel.QueryFunc) (found kernel.Items[atrium.AudienceContent], err error) {
		c, found, err = readContent(run, tenant, id, publicOnly)
		return found, err
	}
	c.Audiences, err = kernel.ListComplete(ctx, s.db, tenant, read, contentsByAudience, scanAudienceContent,
		func(u *atrium.AudienceContent) atrium.AudienceID { return u.AudienceID })
	return c, kernel.Public(err)
}

// readContent returns a page and its audiences. Items with long contents are partial.
func readContent(run kernel.QueryFunc, tenant atrium.TenantID, id atrium.PageID, publicOnly bool) (
	c atrium.Content, found kernel.Items[atrium.AudienceContent], err error,
) {
	type row struct {
		kernel.Item[atrium.AudienceContent]
		at atrium.Time // when the audience was created
	}
	var rows []row
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.BoolInt(publicOnly), int64(atrium.MaxContentAudiences) + 1}
	if err := run(selectContent, args, func(r engine.Row) error {
		if !r.Null(4) {
			c = scanContent(r)
			return nil
		}
		u, size := scanAudienceContent(r), int(r.Int(10))
		rows = append(rows, row{kernel.Item[atrium.AudienceContent]{Value: u, Bytes: size, Partial: size > len(u.Content)}, atrium.Time(r.Int(3))})
		return nil
	}); err != nil {
		return c, found, err
	}
	if c.PageID == "" {
		return c, found, engine.ErrNoRow
	}
	slices.SortFunc(rows, func(a, b row) int { // SQL does not promise the order of a UNION
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.Value.AudienceID, a.Value.AudienceID))
	})
	bytes := 0
	for _, r := range rows {
		if c.More = len(found.Values) == atrium.MaxContentAudiences || bytes >= kernel.ListBytes; c.More {
			break
		}
		found.Add(r.Item)
		bytes += r.Bytes
	}
	return c, found, nil
}

// scanContent reads the row of a page in selectContent.
func scanContent(r engine.Row) atrium.Content {
	return atrium.Content{
		PageID: kernel.IDAt[atrium.PageID](r, 0), Public: r.Int(1) != 0, MaxAge: r.Int(2), BrandID: r.Text(4), Title: r.Text(5),
		HeaderActionID: kernel.TextAt(r, 6), Actions: r.Bytes(7), Scripts: r.Bytes(8), FooterLinks: r.Bytes(9),
	}
}

// selectAudienceContent adds up the flags so that PostgreSQL uses the primary key of audiences, and not
// the index of all published ones.
var selectAudienceContent = `SELECT v.audience_id, v.number, v.created_at, p.public, p.max_age, NULL, NULL, v.version_id, v.content
	FROM pages p JOIN audiences u ON u.tenant_id = p.tenant_id AND u.page_id = p.page_id
	JOIN versions v ON v.tenant_id = u.tenant_id AND v.audience_id = u.audience_id AND v.number = u.published_number
	WHERE ` + isPublished + ` AND u.tenant_id = $1 AND u.audience_id = $4 AND u.archived + v.archived = 0`

// PublishedAudience returns the published version of an audience of a page. It returns NotFound unless
// the page is published and not deleted, the audience has a published version and is not archived,
// and with publicOnly, also unless the page is public.
func (s *Store) PublishedAudience(
	ctx context.Context, tenant atrium.TenantID, page atrium.PageID, id atrium.AudienceID, publicOnly bool,
) (u atrium.AudienceContent, err error) {
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(page), kernel.BoolInt(publicOnly), kernel.IDArg(id)}
	err = s.db.Find(ctx, selectAudienceContent, args, func(r engine.Row) {
		u = scanAudienceContent(r)
		u.Public, u.MaxAge = r.Int(3) != 0, r.Int(4)
	})
	return u, err
}

const selectPreviewedContent = `SELECT p.page_id, p.public, p.max_age, NULL, p.brand_id, p.title, p.header_action_id, p.actions, p.scripts, p.footer_links,
		v.created_at, v.version_id, v.content
	FROM pages p JOIN audiences u ON u.tenant_id = p.tenant_id AND u.page_id = p.page_id
	JOIN versions v ON v.tenant_id = u.tenant_id AND v.audience_id = u.audience_id
	WHERE p.tenant_id = $1 AND p.page_id = $2 AND p.status <> 'archived' AND p.deleted_at IS NULL
		AND u.tenant_id = $1 AND u.audience_id = $3 AND u.archived = 0 AND v.number = $4 AND v.archived = 0`

// PreviewedContent returns the page of a preview with its version as the only audience, as if both
// were published. It returns NotFound if the page, the audience or the version is deleted or
// archived.
func (s *Store) PreviewedContent(ctx context.Context, p atrium.Preview) (c atrium.Content, err error) {
	args := engine.Args{kernel.IDArg(p.TenantID), kernel.IDArg(p.PageID), kernel.IDArg(p.AudienceID), p.Number}
	err = s.db.Find(ctx, selectPreviewedContent, args, func(r engine.Row) {
		c = scanContent(r)
		c.Public = false
		c.Audiences = []atrium.AudienceContent{{
			AudienceID: p.AudienceID, Number: p.Number, CreatedAt: atrium.Time(r.Int(10)), VersionID: kernel.IDAt[atrium.VersionID](r, 11), Content: r.Bytes(12),
		}}
	})
	return c, err
}
