package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

// Versions returns up to limit versions of an audience of a page, highest
// number first, after leaving out the first skip, and how many there are in
// all. Their content is left out. It is NotFound unless the page has the
// audience; whether either is deleted or archived makes no difference.
func (s *Store) Versions(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, audience atrium.AudienceID, skip int64, limit int) (versions []atrium.Version, total int64, err error) {
	versions = make([]atrium.Version, 0, limit)
	err = s.read(ctx, func(tx engine.Tx) error {
		versions = versions[:0]
		if err := engine.One(tx, "SELECT versions_count FROM audiences WHERE tenant_id = $1 AND audience_id = $2 AND page_id = $3",
			engine.Args{idArg(tenant), idArg(audience), idArg(page)}, func(r engine.Row) { total = r.Int(0) }); err != nil {
			return err
		}
		if skip >= total {
			return nil
		}
		return tx.Query(`SELECT version_id, number, archived, created_at FROM versions
			WHERE tenant_id = $1 AND audience_id = $2 ORDER BY number DESC LIMIT $3 OFFSET $4`,
			engine.Args{idArg(tenant), idArg(audience), int64(limit), skip}, func(r engine.Row) error {
				versions = append(versions, atrium.Version{
					ID: idAt[atrium.VersionID](r, 0), TenantID: tenant, AudienceID: audience,
					Number: r.Int(1), Archived: r.Int(2) != 0, CreatedAt: atrium.Time(r.Int(3)),
				})
				return nil
			})
	})
	return versions, total, err
}
