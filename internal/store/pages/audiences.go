package pages

import (
	"context"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

func audienceFields(u *atrium.Audience) kernel.Fields {
	return kernel.Fields{"pageId": u.PageID, "name": u.Name, "archived": u.Archived}
}

const selectAudience = "SELECT " + AudienceColumns + " FROM audiences u WHERE tenant_id = $1 AND audience_id = $2 AND page_id = $3"

// Audience returns an audience of a page, or NotFound.
func (s *Store) Audience(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, id atrium.AudienceID) (u atrium.Audience, err error) {
	err = s.db.Find(ctx, selectAudience, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.IDArg(page)},
		func(r engine.Row) { u = ScanAudience(r, tenant) })
	return u, err
}

// Audiences returns up to limit audiences of a page, newest first, after the position, or from
// the first if it is nil. If archived is not nil, it returns only those with this value. next is
// the position to continue after, nil at the end of the list. With archived given, one call reads
// at most kernel.ScanLimit rows and may return fewer than limit before the end, or none. It
// returns NotFound if the page does not exist.
func (s *Store) Audiences(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, archived *bool, after *atrium.Position, limit int) (audiences []atrium.Audience, next *atrium.Position, err error) {
	if err := s.db.Find(ctx, "SELECT page_id FROM pages WHERE tenant_id = $1 AND page_id = $2",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(page)}, func(engine.Row) {}); err != nil {
		return nil, nil, err
	}
	q := kernel.Select("SELECT "+listedAudience+" FROM audiences u WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND page_id = ", kernel.IDArg(page))
	q.After("created_at", "audience_id", after)
	rows := limit
	if archived != nil {
		rows = kernel.ScanLimit
	}
	q.Add(" ORDER BY created_at DESC, audience_id DESC LIMIT ", int64(rows)+1)
	scan := func(r engine.Row) atrium.Audience { return ScanAudience(r, tenant) }
	audiences, err = kernel.ListComplete(ctx, s.db, tenant, func(run kernel.QueryFunc) (found kernel.Items[atrium.Audience], err error) {
		found, next, err = kernel.Filter(run, q, limit,
			func(r *kernel.SizedRow) kernel.Item[atrium.Audience] {
				u, bytes := scan(r), int(r.Int(afterAudience))
				return kernel.Item[atrium.Audience]{Value: u, Bytes: bytes, Partial: bytes > len(u.Name)}
			},
			func(u atrium.Audience) bool { return archived == nil || u.Archived == *archived },
			func(u atrium.Audience) *atrium.Position { return atrium.PositionAt(u.CreatedAt, u.ID) })
		return found, err
	}, AudiencesByID, scan, func(u *atrium.Audience) atrium.AudienceID { return u.ID })
	return audiences, next, err
}

var listedAudience = strings.Replace(AudienceColumns, "u.name", kernel.InlineOrNull("u.name"), 1) + ", " + kernel.OctetLength("u.name")

// CreateAudience creates an audience of a page and counts it in the page, whose updatedAt does
// not change. It returns NotFound if the page does not exist, and Conflict if it is deleted.
func (s *Store) CreateAudience(ctx context.Context, c atrium.Change, page atrium.PageID, name string) (atrium.Audience, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (u atrium.Audience, err error) {
		p, err := lockPage(tx, page)
		if err != nil {
			return u, err
		}
		if p.DeletedAt != nil {
			return u, deleted()
		}
		u = atrium.Audience{
			ID: atrium.NewID[atrium.AudienceID](), TenantID: c.TenantID, PageID: page, Name: name, CreatedAt: tx.At, UpdatedAt: tx.At,
		}
		tx.Record("audience.create", string(u.ID), nil, audienceFields(&u))
		if _, err := tx.Exec(`INSERT INTO audiences (tenant_id, audience_id, page_id, name, archived, versions_count, last_number,
				created_at, updated_at, stored_at) VALUES ($1, $2, $3, $4, 0, 0, 0, $5, $6, $7)`,
			kernel.IDArg(c.TenantID), kernel.IDArg(u.ID), kernel.IDArg(page), u.Name, int64(u.CreatedAt), int64(u.UpdatedAt), tx.StoredAt()); err != nil {
			return u, err
		}
		return u, countAudiences(tx, page, 1)
	})
}

// countAudiences adds n to a page's count of audiences that are not archived.
func countAudiences(tx *kernel.Mutation, page atrium.PageID, n int64) error {
	_, err := tx.Exec("UPDATE pages SET audiences_count = audiences_count + $1 WHERE tenant_id = $2 AND page_id = $3",
		n, kernel.IDArg(tx.Change.TenantID), kernel.IDArg(page))
	return err
}

// lockAudience locks a page and its audience until the end of the transaction, and returns the
// audience and the highest number that a version of it has had. It returns Conflict if the page
// is deleted.
func lockAudience(tx *kernel.Mutation, page atrium.PageID, id atrium.AudienceID) (u atrium.Audience, lastNumber int64, err error) {
	p, err := lockPage(tx, page)
	if err != nil {
		return u, 0, err
	}
	const where = " FROM audiences u WHERE tenant_id = $1 AND audience_id = $2 AND page_id = $3"
	args := engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), kernel.IDArg(page)}
	if err := tx.CountSize(tx.Lock, "SELECT "+kernel.OctetLength("u.name")+where, args); err != nil {
		return u, 0, err
	}
	err = engine.Find(tx.Lock, "SELECT "+AudienceColumns+", u.last_number"+where, args, func(r engine.Row) {
		u, lastNumber = ScanAudience(r, tx.Change.TenantID), r.Int(8)
	})
	if err == nil && p.DeletedAt != nil {
		err = deleted()
	}
	return u, lastNumber, err
}

// changeAudience locks an audience of a page, calls check and then edit with it, and stores and
// audits the change that edit made as action. An error of check or edit ends the call.
func (s *Store) changeAudience(ctx context.Context, c atrium.Change, action string, page atrium.PageID, id atrium.AudienceID,
	check func(atrium.Audience) error, edit func(*atrium.Audience) error,
) (atrium.Audience, error) {
	u, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Audience, error) {
		u, _, err := lockAudience(tx, page, id)
		if err != nil {
			return u, err
		}
		if err := check(u); err != nil {
			return u, err
		}
		before := u
		if err := edit(&u); err != nil || u == before {
			return u, err
		}
		u.UpdatedAt = max(u.UpdatedAt, tx.At)
		tx.Record(action, string(id), audienceFields(&before), audienceFields(&u))
		if _, err := tx.Exec("UPDATE audiences SET name = $1, archived = $2, updated_at = $3 WHERE tenant_id = $4 AND audience_id = $5",
			u.Name, kernel.BoolInt(u.Archived), int64(u.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
			return u, err
		}
		if u.Archived == before.Archived {
			return u, nil
		}
		return u, countAudiences(tx, page, 1-2*kernel.BoolInt(u.Archived))
	})
	return u, err
}

// UpdateAudience sets the name of an audience of a page, unless name is nil. It first calls check
// with the current audience; an error of check ends the call. If the name is the same, nothing
// changes. It returns NotFound if the page has no such audience, and Conflict if the page is
// deleted.
func (s *Store) UpdateAudience(ctx context.Context, c atrium.Change, page atrium.PageID, id atrium.AudienceID, name *string, check func(atrium.Audience) error) (atrium.Audience, error) {
	return s.changeAudience(ctx, c, "audience.update", page, id, check, func(u *atrium.Audience) error {
		if name != nil {
			u.Name = *name
		}
		return nil
	})
}

// ArchiveAudience archives or restores an audience of a page. It first calls check with the
// current audience; an error of check ends the call. It returns NotFound if the page has no such
// audience, and Conflict if the page is deleted or the audience is already in this state.
func (s *Store) ArchiveAudience(ctx context.Context, c atrium.Change, page atrium.PageID, id atrium.AudienceID, archived bool, check func(atrium.Audience) error) (atrium.Audience, error) {
	action := "audience.restore"
	if archived {
		action = "audience.archive"
	}
	return s.changeAudience(ctx, c, action, page, id, check, func(u *atrium.Audience) error {
		switch {
		case archived && u.Archived:
			return atrium.Errorf(atrium.CodeConflict, "The audience is archived, which allows: restore.")
		case !archived && !u.Archived:
			return atrium.Errorf(atrium.CodeConflict, "The audience is not archived, which allows: archive.")
		}
		u.Archived = archived
		return nil
	})
}

// Versions returns up to limit versions of an audience of a page, highest number first and
// without content, after skipping the first skip, and the total number of versions. It returns
// NotFound unless the page has the audience. Deleted pages and archived audiences have versions
// too.
func (s *Store) Versions(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, audience atrium.AudienceID, skip int64, limit int) (versions []atrium.Version, total int64, err error) {
	sql, args := selectVersions, engine.Args{kernel.IDArg(tenant), kernel.IDArg(audience), kernel.IDArg(page), int64(limit), skip}
	if skip > maxSkipped {
		sql, args = selectFarVersions, engine.Args{kernel.IDArg(tenant), kernel.IDArg(audience), kernel.IDArg(page), skip, int64(limit)}
	}
	versions = make([]atrium.Version, 0, limit)
	err = s.db.Query(ctx, sql, args, func(r engine.Row) error {
		total = r.Int(0)
		versions = append(versions, atrium.Version{
			ID: kernel.IDAt[atrium.VersionID](r, 1), TenantID: tenant, AudienceID: audience,
			Number: r.Int(2), Archived: r.Int(3) != 0, CreatedAt: atrium.Time(r.Int(4)),
		})
		return nil
	})
	if err == nil && len(versions) == 0 {
		u, err := s.Audience(ctx, tenant, page, audience)
		return versions, u.VersionsCount, err
	}
	return versions, total, err
}

// selectVersions finds no rows after the last version. For SQLite, the audience is the outer loop
// of the join: it is one row, so that the index of the versions gives the order.
const selectVersions = `SELECT u.versions_count, v.version_id, v.number, v.archived, v.created_at
	FROM audiences u CROSS JOIN versions v
	WHERE u.tenant_id = $1 AND u.audience_id = $2 AND u.page_id = $3 AND v.tenant_id = $1 AND v.audience_id = $2
	ORDER BY v.number DESC LIMIT $4 OFFSET $5`

// maxSkipped is the largest offset that selectVersions is used for.
const maxSkipped = 100

// selectFarVersions is selectVersions for large offsets. If no number is missing between the
// oldest and the newest version, it computes the number to start from. Otherwise it skips rows by
// OFFSET. No number is missing if there are as many versions as the last number, or, when the
// oldest versions were deleted, as many as between the lowest and the highest number.
const selectFarVersions = `WITH counted AS (
		SELECT u.versions_count AS total, u.last_number,
			(SELECT MAX(number) FROM versions WHERE tenant_id = $1 AND audience_id = $2) AS newest,
			(SELECT MIN(number) FROM versions WHERE tenant_id = $1 AND audience_id = $2) AS oldest
		FROM audiences u WHERE u.tenant_id = $1 AND u.audience_id = $2 AND u.page_id = $3
	), first AS (
		SELECT total, CASE WHEN $4 >= total THEN 0 WHEN total = last_number THEN last_number + 1 - $4
				WHEN total = newest - oldest + 1 THEN newest + 1 - $4 ELSE newest + 1 END AS below,
			CASE WHEN total = last_number OR total = newest - oldest + 1 THEN 0 ELSE $4 END AS skipped
		FROM counted
	)
	SELECT (SELECT total FROM first), version_id, number, archived, created_at FROM versions
	WHERE tenant_id = $1 AND audience_id = $2 AND number < (SELECT below FROM first)
	ORDER BY number DESC LIMIT $5 OFFSET COALESCE((SELECT skipped FROM first), 0)`

// The columns of an audience u in the order in which ScanAudience reads them.
const (
	AudienceColumns = "u.audience_id, u.page_id, u.name, u.archived, u.created_at, u.updated_at, u.published_number, u.versions_count"
	afterAudience   = 8 // their number
)

// ScanAudience reads AudienceColumns, which start at column 0.
func ScanAudience(r engine.Row, tenant atrium.TenantID) atrium.Audience {
	return atrium.Audience{
		ID: kernel.IDAt[atrium.AudienceID](r, 0), TenantID: tenant, PageID: kernel.IDAt[atrium.PageID](r, 1), Name: r.Text(2),
		Archived: r.Int(3) != 0, CreatedAt: atrium.Time(r.Int(4)), UpdatedAt: atrium.Time(r.Int(5)),
		PublishedNumber: r.Int(6), VersionsCount: r.Int(7),
	}
}

// AudiencesByID finds audiences by their identifiers and returns AudienceColumns and the highest
// number that a version has had.
var AudiencesByID = engine.NewBatch("SELECT "+AudienceColumns+`, u.last_number FROM batch JOIN audiences u
	ON u.tenant_id = batch.tenant_id AND u.audience_id = batch.id`, "tenant_id bytea", "id bytea")
