package records

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
)

var importBrands = engine.NewBatch(`INSERT INTO brands (tenant_id, brand_id, name, created_at, updated_at, stored_at)
	SELECT batch.tenant_id, brand_id, name, created_at, updated_at, stored_at FROM batch`,
	"tenant_id bytea", "brand_id bytea", "name text", "created_at bigint", "updated_at bigint", "stored_at bigint")

func (im *importTx) brands(run importRun) error {
	stored, err := im.find(brandsByID, identities[atrium.BrandID](im.tenant, run), func(r engine.Row) Record {
		b := pages.ScanBrand(r, im.tenant)
		return &b
	})
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.Brand](run, stored)
	if err != nil {
		return err
	}
	rows := make([]engine.Args, len(todo))
	for n, item := range todo {
		b := item.record
		setID(&b.ID)
		im.setInstants(item.item, &b.CreatedAt, &b.UpdatedAt)
		rows[n] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(b.ID), b.Name, int64(b.CreatedAt), int64(b.UpdatedAt), im.storedAt}
	}
	if _, err := im.tx.Batch(importBrands, rows, nil); err != nil {
		return err
	}
	im.added += len(rows)
	return nil
}

var importPages = engine.NewBatch(`INSERT INTO pages (tenant_id, page_id, brand_id, name, page_context, title, status,
		header_action_id, audiences_count, created_at, updated_at, deleted_at, stored_at, actions, scripts, footer_links, metadata, public, max_age)
	SELECT batch.tenant_id, page_id, brand_id, name, page_context, title, status,
		header_action_id, 0, created_at, updated_at, deleted_at, stored_at, actions, scripts, footer_links, metadata, public, max_age FROM batch`,
	"tenant_id bytea", "page_id bytea", "brand_id text", "name text", "page_context text", "title text", "status text",
	"header_action_id text", "created_at bigint", "updated_at bigint", "deleted_at bigint", "stored_at bigint",
	"actions bytea", "scripts bytea", "footer_links bytea", "metadata bytea", "public bigint", "max_age bigint")

func (im *importTx) pages(run importRun) error {
	stored, err := im.findPages(identities[atrium.PageID](im.tenant, run))
	if err != nil {
		return err
	}
	todo, err := notStored[Record](run, stored)
	if err != nil {
		return err
	}
	var due []engine.Args
	rows := make([]engine.Args, len(todo))
	for n, item := range todo {
		p, schedule := pageOf(item.record)
		setID(&p.ID)
		im.setInstants(item.item, &p.CreatedAt, &p.UpdatedAt)
		for _, m := range pages.ScheduledActions(&schedule) {
			due = append(due, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(p.ID), string(m.Action), int64(m.At), im.actor, int64(im.now)})
		}
		rows[n] = engine.Args{
			kernel.IDArg(im.tenant), kernel.IDArg(p.ID), p.BrandID, p.Name, p.Context, p.Title, string(p.Status),
			kernel.NullableText(p.HeaderActionID), int64(p.CreatedAt), int64(p.UpdatedAt), kernel.NullableTime(p.DeletedAt), im.storedAt,
			p.Actions, p.Scripts, p.FooterLinks, p.Metadata, kernel.BoolInt(p.Public), p.MaxAge,
		}
	}
	if _, err := im.tx.Batch(importPages, rows, nil); err != nil {
		return err
	}
	im.added += len(rows)
	_, err = im.tx.Batch(importSchedules, due, nil)
	return err
}

var importSchedules = engine.NewBatch(`INSERT INTO schedules (tenant_id, page_id, action, due_at, actor, created_at)
	SELECT batch.tenant_id, page_id, action, due_at, actor, created_at FROM batch`,
	"tenant_id bytea", "page_id bytea", "action text", "due_at bigint", "actor text", "created_at bigint")

func (im *importTx) findPages(rows []engine.Args) (map[string]Record, error) {
	return im.find(pagesByID, rows, func(r engine.Row) Record { return pageRecord(r, im.tenant) })
}

// findAudiences returns audiences by identity, and the highest number that a version of each has
// had.
func (im *importTx) findAudiences(rows []engine.Args) (audiences map[string]Record, lastNumber map[string]int64, err error) {
	lastNumber = map[string]int64{}
	audiences, err = im.find(pages.AudiencesByID, rows, func(r engine.Row) Record {
		u := pages.ScanAudience(r, im.tenant)
		lastNumber[string(u.ID)] = r.Int(8)
		return &u
	})
	return audiences, lastNumber, err
}

var (
	importAudiences = engine.NewBatch(`INSERT INTO audiences (tenant_id, audience_id, page_id, name, archived, versions_count,
			last_number, created_at, updated_at, stored_at)
		SELECT batch.tenant_id, audience_id, page_id, name, archived, 0, 0, created_at, updated_at, stored_at FROM batch`,
		"tenant_id bytea", "audience_id bytea", "page_id bytea", "name text", "archived bigint",
		"created_at bigint", "updated_at bigint", "stored_at bigint")
	countAudiences = engine.NewBatch(`UPDATE pages SET audiences_count = pages.audiences_count + batch.n FROM batch
		WHERE pages.tenant_id = batch.tenant_id AND pages.page_id = batch.page_id`, "tenant_id bytea", "page_id bytea", "n bigint")
)

func (im *importTx) audiences(run importRun) error {
	stored, _, err := im.findAudiences(identities[atrium.AudienceID](im.tenant, run))
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.Audience](run, stored)
	if err != nil {
		return err
	}
	wanted := make([]engine.Args, len(todo))
	for n, p := range todo {
		wanted[n] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(p.record.PageID)}
	}
	pages, err := im.findPages(wanted)
	if err != nil {
		return err
	}
	rows := make([]engine.Args, len(todo))
	active := map[atrium.PageID]int64{}
	for n, p := range todo {
		u := p.record
		if pages[string(u.PageID)] == nil {
			return refuse(p.index, "pageId", "names a page that does not exist")
		}
		setID(&u.ID)
		im.setInstants(p.item, &u.CreatedAt, &u.UpdatedAt)
		active[u.PageID] += 1 - kernel.BoolInt(u.Archived)
		rows[n] = engine.Args{
			kernel.IDArg(im.tenant), kernel.IDArg(u.ID), kernel.IDArg(u.PageID), u.Name, kernel.BoolInt(u.Archived),
			int64(u.CreatedAt), int64(u.UpdatedAt), im.storedAt,
		}
	}
	if _, err := im.tx.Batch(importAudiences, rows, nil); err != nil {
		return err
	}
	im.added += len(rows)
	var counts []engine.Args
	for _, page := range slices.Sorted(maps.Keys(active)) {
		counts = append(counts, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(page), active[page]})
	}
	_, err = im.tx.Batch(countAudiences, counts, nil)
	return err
}

var (
	importVersions = engine.NewBatch(`INSERT INTO versions (tenant_id, audience_id, number, version_id, archived, created_at, content, note)
		SELECT batch.tenant_id, audience_id, number, version_id, archived, created_at, content, note
		FROM batch WHERE true ON CONFLICT DO NOTHING RETURNING version_id`,
		"tenant_id bytea", "audience_id bytea", "number bigint", "version_id bytea", "archived bigint", "created_at bigint", "content bytea", "note text")
	countVersions = engine.NewBatch(`UPDATE audiences SET
			last_number = CASE WHEN audiences.last_number >= batch.last_number THEN audiences.last_number ELSE batch.last_number END,
			versions_count = audiences.versions_count + batch.n FROM batch
		WHERE audiences.tenant_id = batch.tenant_id AND audiences.audience_id = batch.audience_id`,
		"tenant_id bytea", "audience_id bytea", "last_number bigint", "n bigint")
	raiseNumbers = engine.NewBatch(`UPDATE audiences SET last_number = batch.last_number FROM batch
		WHERE audiences.tenant_id = batch.tenant_id AND audiences.audience_id = batch.audience_id
			AND audiences.last_number < batch.last_number`, "tenant_id bytea", "audience_id bytea", "last_number bigint")
)

func (im *importTx) versions(run importRun) error {
	stored, err := im.find(versionsByID, identities[atrium.VersionID](im.tenant, run), func(r engine.Row) Record {
		v := pages.ScanVersion(r, im.tenant)
		return &v
	})
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.AudienceVersion](run, stored)
	if err != nil {
		return err
	}
	wanted := make([]engine.Args, len(todo))
	for n, p := range todo {
		wanted[n] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(p.record.AudienceID)}
	}
	audiences, lastNumber, err := im.findAudiences(wanted)
	if err != nil {
		return err
	}
	rows := make([]engine.Args, len(todo))
	numbers := make([]int64, len(todo)) // not in the records: the transaction may be retried
	more := map[string]int64{}
	for n, p := range todo {
		v, audience := p.record, string(p.record.AudienceID)
		u, ok := audiences[audience].(*atrium.Audience)
		if !ok {
			return refuse(p.index, "audienceId", "names an audience that does not exist")
		}
		if v.PageID != "" && v.PageID != u.PageID {
			return refuse(p.index, "pageId", "is not the page of the audience")
		}
		if numbers[n] = v.Number; v.Number == 0 {
			if lastNumber[audience] == atrium.MaxVersionNumber {
				return refuse(p.index, "versionNumber", "must be given: the numbers of this audience have come to their end")
			}
			numbers[n] = lastNumber[audience] + 1
		}
		lastNumber[audience] = max(lastNumber[audience], numbers[n])
		more[audience]++
		setID(&v.ID)
		im.setInstants(p.item, &v.CreatedAt, new(atrium.Time))
		rows[n] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(v.AudienceID), numbers[n], kernel.IDArg(v.ID), kernel.BoolInt(v.Archived), int64(v.CreatedAt), v.Content, kernel.Nullable(v.Note)}
	}
	err = im.insert(importVersions, rows, func(r engine.Row) string { return string(kernel.IDAt[atrium.VersionID](r, 0)) },
		func(added map[string]bool) error {
			for n, p := range todo {
				if !added[string(p.record.ID)] {
					return refuseTaken(p.index, "versionNumber", fmt.Sprintf("another version of the audience has number %d", numbers[n]))
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	var counts []engine.Args
	for _, audience := range slices.Sorted(maps.Keys(more)) {
		counts = append(counts, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(atrium.AudienceID(audience)), lastNumber[audience], more[audience]})
	}
	if _, err = im.tx.Batch(countVersions, counts, nil); err != nil {
		return err
	}
	return im.publish(todo, numbers)
}

var publishVersions = engine.NewBatch(`UPDATE audiences SET published_number = batch.number FROM batch
	WHERE audiences.tenant_id = batch.tenant_id AND audiences.audience_id = batch.audience_id
		AND (audiences.published_number IS NULL OR audiences.published_number = batch.number) RETURNING audiences.audience_id`,
	"tenant_id bytea", "audience_id bytea", "number bigint")

// publish sets the published versions of audiences. versions have the given numbers.
func (im *importTx) publish(versions []pending[*atrium.AudienceVersion], numbers []int64) error {
	var rows []engine.Args
	index := map[atrium.AudienceID]int{}
	for n, p := range versions {
		if !p.record.Published {
			continue
		}
		audience := p.record.AudienceID
		if _, twice := index[audience]; twice {
			return refuse(p.index, "published", "another version of the audience is")
		}
		index[audience] = p.index
		rows = append(rows, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(audience), numbers[n]})
	}
	slices.SortFunc(rows, func(a, b engine.Args) int { return bytes.Compare(a[1].([]byte), b[1].([]byte)) })
	if _, err := im.tx.Batch(publishVersions, rows, func(r engine.Row) error {
		delete(index, kernel.IDAt[atrium.AudienceID](r, 0))
		return nil
	}); err != nil {
		return err
	}
	for _, place := range slices.Sorted(maps.Values(index)) {
		return refuse(place, "published", "another version of the audience is")
	}
	return nil
}
