package store

import (
	"cmp"
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
)

// Versions returns up to limit versions of an audience of a page, highest
// number first, after leaving out the first skip, and how many there are in
// all. Their content is left out. It is NotFound unless the page has the
// audience; whether either is deleted or archived makes no difference.
func (s *Store) Versions(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, audience atrium.AudienceID, skip int64, limit int) (versions []atrium.Version, total int64, err error) {
	versions = make([]atrium.Version, 0, limit)
	err = s.find(ctx, `SELECT u.versions_count, v.version_id, v.number, v.archived, v.created_at FROM audiences u
		LEFT JOIN (SELECT version_id, number, archived, created_at FROM versions
			WHERE tenant_id = $1 AND audience_id = $2 ORDER BY number DESC LIMIT $3 OFFSET $4) v ON true
		WHERE u.tenant_id = $1 AND u.audience_id = $2 AND u.page_id = $5`,
		engine.Args{idArg(tenant), idArg(audience), int64(limit), skip, idArg(page)}, func(r engine.Row) {
			total = r.Int(0)
			if !r.Null(1) {
				versions = append(versions, atrium.Version{
					ID: idAt[atrium.VersionID](r, 1), TenantID: tenant, AudienceID: audience,
					Number: r.Int(2), Archived: r.Int(3) != 0, CreatedAt: atrium.Time(r.Int(4)),
				})
			}
		})
	slices.SortFunc(versions, func(a, b atrium.Version) int { return cmp.Compare(b.Number, a.Number) }) // a join promises no order
	return versions, total, err
}
