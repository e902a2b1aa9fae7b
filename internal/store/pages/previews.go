package pages

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const previewColumns = "preview_id, page_id, audience_id, number, created_at, expires_at"

func scanPreview(r engine.Row, tenant atrium.TenantID) atrium.Preview {
	return atrium.Preview{
		ID: kernel.IDAt[atrium.PreviewID](r, 0), TenantID: tenant, PageID: kernel.IDAt[atrium.PageID](r, 1),
		AudienceID: kernel.IDAt[atrium.AudienceID](r, 2), Number: r.Int(3), CreatedAt: atrium.Time(r.Int(4)), ExpiresAt: atrium.Time(r.Int(5)),
	}
}

func previewFields(p *atrium.Preview) kernel.Fields {
	return kernel.Fields{"pageId": p.PageID, "audienceId": p.AudienceID, "versionNumber": p.Number, "expiresAt": p.ExpiresAt}
}

// CreatePreview stores a preview with the hash of its token. It returns the preview with its creation
// time, and whether the same request created it before: then its token is lost. It deletes expired
// previews of the page. It returns NotFound if the audience has no such version, and Conflict if the
// page is deleted or archived, the audience or the version is archived, or the page has
// atrium.MaxPreviews.
func (s *Store) CreatePreview(ctx context.Context, c atrium.Change, p atrium.Preview, hash []byte) (atrium.Preview, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Preview, error) {
		made := p
		made.TenantID, made.CreatedAt = c.TenantID, tx.At
		u, _, err := lockAudience(tx, p.PageID, p.AudienceID)
		if err != nil {
			return made, err
		}
		if err := checkPreview(tx, &made, &u); err != nil {
			return made, err
		}
		tenant, page := kernel.IDArg(c.TenantID), kernel.IDArg(p.PageID)
		if _, err := tx.Exec("DELETE FROM previews WHERE tenant_id = $1 AND page_id = $2 AND expires_at <= $3", tenant, page, int64(tx.At)); err != nil {
			return made, err
		}
		var count int64
		if err := engine.Find(tx.Query, "SELECT COUNT(*) FROM previews WHERE tenant_id = $1 AND page_id = $2", engine.Args{tenant, page},
			func(r engine.Row) { count = r.Int(0) }); err != nil {
			return made, err
		}
		if count >= atrium.MaxPreviews {
			return made, atrium.Errorf(atrium.CodeConflict, "The page has %d previews, the maximum. Revoke one first.", count)
		}
		tx.Record("preview.create", string(made.ID), nil, previewFields(&made))
		_, err = tx.Exec("INSERT INTO previews (tenant_id, page_id, preview_id, audience_id, number, secret_hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			tenant, page, kernel.IDArg(made.ID), kernel.IDArg(made.AudienceID), made.Number, hash, int64(made.CreatedAt), int64(made.ExpiresAt))
		return made, err
	})
}

// checkPreview returns why the version of a preview cannot be shown. The page and the audience are
// locked.
func checkPreview(tx *kernel.Mutation, p *atrium.Preview, u *atrium.Audience) error {
	if u.Archived {
		return audienceArchived()
	}
	tenant := kernel.IDArg(tx.Change.TenantID)
	var status atrium.PageStatus
	if err := engine.Find(tx.Query, "SELECT status FROM pages WHERE tenant_id = $1 AND page_id = $2", engine.Args{tenant, kernel.IDArg(p.PageID)},
		func(r engine.Row) { status = atrium.PageStatus(r.Text(0)) }); err != nil {
		return err
	}
	if status == atrium.PageArchived {
		return notAllowed(&atrium.Page{Status: status})
	}
	archived := false
	if err := engine.Find(tx.Query, "SELECT archived FROM versions WHERE tenant_id = $1 AND audience_id = $2 AND number = $3",
		engine.Args{tenant, kernel.IDArg(p.AudienceID), p.Number}, func(r engine.Row) { archived = r.Int(0) != 0 }); err != nil {
		return err
	}
	if archived {
		return atrium.Errorf(atrium.CodeConflict, "The version is archived, which allows: restore.")
	}
	return nil
}

// Previews returns up to limit previews of a page that have not expired, newest first, after the
// position, or from the first if it is nil. more reports whether others follow. It returns NotFound if
// the page does not exist.
func (s *Store) Previews(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, after *atrium.Position, limit int) (previews []atrium.Preview, more bool, err error) {
	if err := s.db.Find(ctx, "SELECT page_id FROM pages WHERE tenant_id = $1 AND page_id = $2",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(page)}, func(engine.Row) {}); err != nil {
		return nil, false, err
	}
	q := kernel.Select("SELECT "+previewColumns+" FROM previews WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND page_id = ", kernel.IDArg(page))
	q.Add(" AND expires_at > ", int64(atrium.At(s.db.Now())))
	if after != nil {
		q.Add(" AND preview_id < ", kernel.PackID(after.ID))
	}
	q.Add(" ORDER BY preview_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.Preview { return scanPreview(r, tenant) })
}

const selectPreview = "SELECT " + previewColumns + ", secret_hash FROM previews WHERE tenant_id = $1 AND page_id = $2 AND preview_id = $3 AND expires_at > $4"

var findPreview = selectPreview + " AND " + tenantExists

// Preview returns a preview of a page and the hash of its token, or NotFound, also if it has expired.
func (s *Store) Preview(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, id atrium.PreviewID) (p atrium.Preview, hash []byte, err error) {
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(page), kernel.IDArg(id), int64(atrium.At(s.db.Now()))}
	err = s.db.Find(ctx, findPreview, args, func(r engine.Row) { p, hash = scanPreview(r, tenant), r.Bytes(6) })
	return p, hash, err
}

// RevokePreview deletes a preview of a page. It first calls check with it; an error of check ends the
// call. It returns NotFound if the page has no such preview, or if it has expired.
func (s *Store) RevokePreview(ctx context.Context, c atrium.Change, page atrium.PageID, id atrium.PreviewID, check func(atrium.Preview) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		var p atrium.Preview
		args := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(page), kernel.IDArg(id), int64(tx.At)}
		if err := engine.Find(tx.Lock, selectPreview, args, func(r engine.Row) { p = scanPreview(r, c.TenantID) }); err != nil {
			return none, err
		}
		if err := check(p); err != nil {
			return none, err
		}
		tx.Record("preview.revoke", string(id), previewFields(&p), nil)
		_, err = tx.Exec("DELETE FROM previews WHERE tenant_id = $1 AND page_id = $2 AND preview_id = $3", args[:3]...)
		return none, err
	})
	return err
}
