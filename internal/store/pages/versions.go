package pages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Versions are immutable except that they can be archived. An audience points to its published
// version: publishing moves this pointer. The audit log records versions with the SHA-256 of
// their content.

// How many old versions, and bytes of their content, one new version deletes at most. The first one
// may have more.
const (
	retireAtOnce      = 100
	retireBytesAtOnce = 4 << 20
)

// versionDetail is the audit detail of a version whose content has the hash sum.
func versionDetail(v *atrium.Version, sum []byte) map[string]any {
	detail := map[string]any{"audienceId": v.AudienceID, "versionNumber": v.Number}
	if sum != nil {
		detail["sha256"] = hex.EncodeToString(sum)
	}
	return detail
}

// contentSum returns the SHA-256 of a content, or nil if there is none.
func contentSum(content []byte) []byte {
	if content == nil {
		return nil
	}
	sum := sha256.Sum256(content)
	return sum[:]
}

// audienceArchived returns the Conflict of a change that an archived audience does not allow.
func audienceArchived() error {
	return atrium.Errorf(atrium.CodeConflict, "The audience is archived, which allows: restore.")
}

// published returns a version without its page identifier.
func published(v atrium.AudienceVersion) atrium.PublishedVersion {
	return atrium.PublishedVersion{Version: v.Version, Published: v.Published}
}

// CreateVersion creates a version of an audience of a page, numbered one above the highest number
// that a version of it has had, and returns it without content. If KeepVersions is set, it
// deletes some of the oldest unpublished versions above this number. The second result reports
// whether the same request created the version before. It returns NotFound if the page has no
// such audience, and Conflict if the page is deleted, the audience is archived, or the numbers
// are exhausted.
func (s *Store) CreateVersion(ctx context.Context, c atrium.Change, page atrium.PageID, audience atrium.AudienceID, content []byte, note string) (atrium.PublishedVersion, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (v atrium.PublishedVersion, err error) {
		u, lastNumber, err := lockAudience(tx, page, audience)
		switch {
		case err != nil:
			return v, err
		case u.Archived:
			return v, audienceArchived()
		case lastNumber == atrium.MaxVersionNumber:
			return v, atrium.Errorf(atrium.CodeConflict, "The numbers of this audience have come to their end.")
		}
		v.Version = atrium.Version{
			ID: atrium.NewID[atrium.VersionID](), TenantID: c.TenantID, AudienceID: audience,
			Number: lastNumber + 1, Note: note, CreatedAt: tx.At,
		}
		tx.RecordDetail("version.create", string(v.ID), map[string]any{"after": versionDetail(&v.Version, contentSum(content))})
		if _, err := tx.Exec("INSERT INTO versions (tenant_id, audience_id, number, version_id, archived, created_at, content, note) VALUES ($1, $2, $3, $4, 0, $5, $6, $7)",
			kernel.IDArg(c.TenantID), kernel.IDArg(audience), v.Number, kernel.IDArg(v.ID), int64(v.CreatedAt), content, kernel.Nullable(note)); err != nil {
			return v, err
		}
		retired, err := s.retire(tx, &u, u.VersionsCount+1)
		if err != nil {
			return v, err
		}
		_, err = tx.Exec("UPDATE audiences SET last_number = $1, versions_count = $2 WHERE tenant_id = $3 AND audience_id = $4",
			v.Number, u.VersionsCount+1-retired, kernel.IDArg(c.TenantID), kernel.IDArg(audience))
		return v, err
	})
}

// retire deletes the oldest of the count versions of an audience that exceed KeepVersions, except
// the published one, and returns how many it deleted.
func (s *Store) retire(tx *kernel.Mutation, u *atrium.Audience, count int64) (retired int64, err error) {
	keep := int64(s.KeepVersions)
	if keep == 0 || count <= keep {
		return 0, nil
	}
	tenant, audience := kernel.IDArg(tx.Change.TenantID), kernel.IDArg(u.ID)
	var numbers []int64
	bytes, full := 0, false
	if err := tx.Query("SELECT number, "+kernel.OctetLength("content")+" FROM versions WHERE tenant_id = $1 AND audience_id = $2 ORDER BY number LIMIT $3",
		engine.Args{tenant, audience, min(count-keep, retireAtOnce)}, func(r engine.Row) error {
			if full || r.Int(0) == u.PublishedNumber {
				return nil
			}
			if full = len(numbers) > 0 && bytes+int(r.Int(1)) > retireBytesAtOnce; !full {
				numbers, bytes = append(numbers, r.Int(0)), bytes+int(r.Int(1))
			}
			return nil
		}); err != nil || len(numbers) == 0 {
		return 0, err
	}
	if err := tx.CountBytes(bytes); err != nil {
		return 0, err
	}
	tx.RecordDetail("version.retire", string(u.ID), map[string]any{"versionNumbers": numbers})
	return tx.Exec("DELETE FROM versions WHERE tenant_id = $1 AND audience_id = $2 AND number <= $3 AND number <> $4",
		tenant, audience, slices.Max(numbers), u.PublishedNumber)
}

// VersionHistory returns up to limit versions of an audience of a page, without content, highest
// number first: those with a number below before, or from the highest if it is 0. more reports
// whether others follow. It returns NotFound unless the page has the audience.
func (s *Store) VersionHistory(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, audience atrium.AudienceID, before int64, limit int) (versions []atrium.PublishedVersion, more bool, err error) {
	if before == 0 {
		before = atrium.MaxVersionNumber + 1
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		versions, more = make([]atrium.PublishedVersion, 0, limit), false
		var u atrium.Audience
		if err := engine.Find(tx.Query, selectAudience, engine.Args{kernel.IDArg(tenant), kernel.IDArg(audience), kernel.IDArg(page)},
			func(r engine.Row) { u = ScanAudience(r, tenant) }); err != nil {
			return err
		}
		return tx.Query(`SELECT version_id, number, archived, created_at, note FROM versions
			WHERE tenant_id = $1 AND audience_id = $2 AND number < $3 ORDER BY number DESC LIMIT $4`,
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(audience), before, int64(limit) + 1}, func(r engine.Row) error {
				if more = len(versions) == limit; !more {
					versions = append(versions, atrium.PublishedVersion{Version: atrium.Version{
						ID: kernel.IDAt[atrium.VersionID](r, 0), TenantID: tenant, AudienceID: audience, Number: r.Int(1),
						Archived: r.Int(2) != 0, CreatedAt: atrium.Time(r.Int(3)), Note: r.Text(4),
					}, Published: r.Int(1) == u.PublishedNumber})
				}
				return nil
			})
	})
	return versions, more, err
}

const selectVersion = "SELECT " + VersionColumns + ` FROM audiences u
	JOIN versions v ON v.tenant_id = u.tenant_id AND v.audience_id = u.audience_id
	WHERE u.tenant_id = $1 AND u.audience_id = $2 AND u.page_id = $3 AND v.number = $4`

// Version returns a version of an audience of a page by its number, with its content, or
// NotFound.
func (s *Store) Version(ctx context.Context, tenant atrium.TenantID, page atrium.PageID, audience atrium.AudienceID, number int64) (v atrium.PublishedVersion, err error) {
	err = s.db.Find(ctx, selectVersion, engine.Args{kernel.IDArg(tenant), kernel.IDArg(audience), kernel.IDArg(page), number}, func(r engine.Row) {
		v = published(ScanVersion(r, tenant))
	})
	return v, err
}

// changeVersion locks an audience of a page and calls check with its version of the number, and
// then f with the audience and the version. An error of either ends the call. It returns the
// version without content.
func (s *Store) changeVersion(ctx context.Context, c atrium.Change, page atrium.PageID, audience atrium.AudienceID, number int64,
	check func(atrium.PublishedVersion) error, f func(*kernel.Mutation, *atrium.Audience, *atrium.PublishedVersion) error,
) (atrium.PublishedVersion, error) {
	v, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (v atrium.PublishedVersion, err error) {
		u, _, err := lockAudience(tx, page, audience)
		if err != nil {
			return v, err
		}
		// Versions change only under the lock of their audience.
		if err := tx.CountSize(tx.Query, "SELECT "+kernel.OctetLength("v.content")+" FROM versions v WHERE tenant_id = $1 AND audience_id = $2 AND number = $3",
			engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(audience), number}); err != nil {
			return v, err
		}
		if err := engine.Find(tx.Query, selectVersion, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(audience), kernel.IDArg(page), number}, func(r engine.Row) {
			v = published(ScanVersion(r, c.TenantID))
		}); err != nil {
			return v, err
		}
		if err := check(v); err != nil {
			return v, err
		}
		err = f(tx, &u, &v)
		v.Content = nil
		return v, err
	})
	return v, err
}

// PublishVersion makes a version the published one of its audience. Publishing an earlier version
// is a rollback. If the version is published already, nothing changes. It first calls check with
// the current version; an error of check ends the call. It returns NotFound if the version does
// not exist, and Conflict if the page is deleted or the audience or the version is archived.
func (s *Store) PublishVersion(ctx context.Context, c atrium.Change, page atrium.PageID, audience atrium.AudienceID, number int64, check func(atrium.PublishedVersion) error) (atrium.PublishedVersion, error) {
	return s.changeVersion(ctx, c, page, audience, number, check, func(tx *kernel.Mutation, u *atrium.Audience, v *atrium.PublishedVersion) error {
		switch {
		case u.Archived:
			return audienceArchived()
		case v.Archived:
			return atrium.Errorf(atrium.CodeConflict, "The version is archived, which allows: restore.")
		case v.Published:
			return nil
		}
		before := map[string]any{"versionNumber": u.PublishedNumber}
		if u.PublishedNumber == 0 {
			before = map[string]any{}
		}
		tx.RecordDetail("version.publish", string(v.ID), map[string]any{"before": before, "after": versionDetail(&v.Version, contentSum(v.Content))})
		v.Published = true
		_, err := tx.Exec("UPDATE audiences SET published_number = $1, updated_at = $2 WHERE tenant_id = $3 AND audience_id = $4",
			v.Number, int64(max(u.UpdatedAt, tx.At)), kernel.IDArg(c.TenantID), kernel.IDArg(audience))
		return err
	})
}

// ArchiveVersion archives or restores a version. It first calls check with the current version;
// an error of check ends the call. It returns NotFound if the version does not exist, and
// Conflict if the page is deleted, the version is already in this state, or the version to
// archive is published.
func (s *Store) ArchiveVersion(ctx context.Context, c atrium.Change, page atrium.PageID, audience atrium.AudienceID, number int64, archived bool, check func(atrium.PublishedVersion) error) (atrium.PublishedVersion, error) {
	return s.changeVersion(ctx, c, page, audience, number, check, func(tx *kernel.Mutation, _ *atrium.Audience, v *atrium.PublishedVersion) error {
		action := "version.restore"
		switch {
		case archived && v.Archived:
			return atrium.Errorf(atrium.CodeConflict, "The version is archived, which allows: restore.")
		case archived && v.Published:
			return atrium.Errorf(atrium.CodeConflict, "The version is published. Another one must be published first.")
		case !archived && !v.Archived:
			return atrium.Errorf(atrium.CodeConflict, "The version is not archived, which allows: archive, publish.")
		case archived:
			action = "version.archive"
		}
		v.Archived = archived
		tx.RecordDetail(action, string(v.ID), map[string]any{"after": versionDetail(&v.Version, contentSum(v.Content))})
		_, err := tx.Exec("UPDATE versions SET archived = $1 WHERE tenant_id = $2 AND audience_id = $3 AND number = $4",
			kernel.BoolInt(archived), kernel.IDArg(c.TenantID), kernel.IDArg(audience), number)
		return err
	})
}

// VersionColumns are the columns of a version v of an audience u, in the order in which
// ScanVersion reads them.
const VersionColumns = "v.version_id, v.audience_id, u.page_id, v.number, v.archived, v.created_at, v.content, v.note, u.published_number"

// ScanVersion reads VersionColumns, which start at column 0.
func ScanVersion(r engine.Row, tenant atrium.TenantID) atrium.AudienceVersion {
	return atrium.AudienceVersion{PageID: kernel.IDAt[atrium.PageID](r, 2), Published: r.Int(8) == r.Int(3), Version: atrium.Version{
		ID: kernel.IDAt[atrium.VersionID](r, 0), TenantID: tenant, AudienceID: kernel.IDAt[atrium.AudienceID](r, 1),
		Number: r.Int(3), Archived: r.Int(4) != 0, CreatedAt: atrium.Time(r.Int(5)), Content: r.Bytes(6), Note: r.Text(7),
	}}
}
