package pages

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Changes of pages. A transaction that locks several rows locks them in this order: the brand,
// the page, its audience.

// CreatePage creates a draft with the content of p. The brand must exist; it cannot be deleted
// while a page has it. A missing brand and a Size above atrium.MaxPageSize are faults of the
// request. The second result reports whether the same request created the page before.
func (s *Store) CreatePage(ctx context.Context, c atrium.Change, p atrium.Page) (atrium.ScheduledPage, bool, error) {
	if size := p.Size(); size > atrium.MaxPageSize {
		return atrium.ScheduledPage{}, false, atrium.Invalid(atrium.PageTooLarge(size))
	}
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		p.ID, p.TenantID, p.Status = atrium.NewID[atrium.PageID](), c.TenantID, atrium.PageDraft
		p.CreatedAt, p.UpdatedAt = tx.At, tx.At
		if err := lockBrandOfPage(tx, atrium.BrandID(p.BrandID)); err != nil {
			return atrium.ScheduledPage{}, err
		}
		tx.Record("page.create", string(p.ID), nil, pageFields(&p))
		_, err := tx.Exec(`INSERT INTO pages (tenant_id, page_id, brand_id, name, page_context, title, status, header_action_id,
				audiences_count, created_at, updated_at, stored_at, actions, scripts, footer_links, metadata, public, max_age)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
			kernel.IDArg(c.TenantID), kernel.IDArg(p.ID), p.BrandID, p.Name, p.Context, p.Title, string(p.Status), kernel.NullableText(p.HeaderActionID),
			int64(p.CreatedAt), int64(p.UpdatedAt), tx.StoredAt(), p.Actions, p.Scripts, p.FooterLinks, p.Metadata,
			kernel.BoolInt(p.Public), p.MaxAge)
		return atrium.ScheduledPage{Page: p}, err
	})
}

// lockBrandOfPage locks a brand until the end of the transaction, so that it cannot be deleted.
func lockBrandOfPage(tx *kernel.Mutation, id atrium.BrandID) error {
	_, err := lockBrand(tx, id)
	if atrium.CodeOf(kernel.Public(err)) == atrium.CodeNotFound {
		return atrium.Invalid(atrium.Fault{In: atrium.InBody, Where: "/brandId", Detail: "names a brand that does not exist"})
	}
	return err
}

// lockPage locks a page and its schedule until the end of the transaction and returns them. A change
// that was admitted as small does not read a large page: it fails by the size.
func lockPage(tx *kernel.Mutation, id atrium.PageID) (p atrium.ScheduledPage, err error) {
	args := engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}
	if err := tx.CountSize(tx.Lock, "SELECT "+pageBytes+" + "+kernel.OctetLength("p.metadata")+" FROM pages p WHERE tenant_id = $1 AND page_id = $2", args); err != nil {
		return p, err
	}
	if err := engine.Find(tx.Lock, selectPage, args, func(r engine.Row) { p.Page = scanPage(r, tx.Change.TenantID) }); err != nil {
		return p, err
	}
	err = tx.Query("SELECT action, due_at FROM schedules WHERE tenant_id = $1 AND page_id = $2", args, func(r engine.Row) error {
		if at := kernel.TimeAt(r, 1); atrium.PageTransition(r.Text(0)) == atrium.PagePublish {
			p.Schedule.PublishAt = at
		} else {
			p.Schedule.UnpublishAt = at
		}
		return nil
	})
	return p, err
}

func deleted() error {
	return atrium.Errorf(atrium.CodeConflict, "The page is deleted. It can be undeleted.")
}

// savePage stores and audits the change of a page as action and sets its updatedAt. If nothing
// changed, it does nothing.
func savePage(tx *kernel.Mutation, action string, before, p *atrium.Page) error {
	was, is := pageFields(before), pageFields(p)
	if reflect.DeepEqual(was, is) {
		return nil
	}
	p.UpdatedAt = max(before.UpdatedAt, tx.At)
	tx.Record(action, string(p.ID), was, is)
	return writePage(tx, p)
}

func writePage(tx *kernel.Mutation, p *atrium.Page) error {
	_, err := tx.Exec(`UPDATE pages SET brand_id = $1, name = $2, page_context = $3, title = $4, status = $5, header_action_id = $6,
			updated_at = $7, deleted_at = $8, actions = $9, scripts = $10, footer_links = $11, metadata = $12, public = $13, max_age = $14
		WHERE tenant_id = $15 AND page_id = $16`,
		p.BrandID, p.Name, p.Context, p.Title, string(p.Status), kernel.NullableText(p.HeaderActionID),
		int64(p.UpdatedAt), kernel.NullableTime(p.DeletedAt), p.Actions, p.Scripts, p.FooterLinks, p.Metadata,
		kernel.BoolInt(p.Public), p.MaxAge, kernel.IDArg(p.TenantID), kernel.IDArg(p.ID))
	return err
}

// UpdatePage changes a page. It first calls check with the current page; an error of check ends
// the call. If every member is the same, byte for byte, nothing changes. It returns NotFound if
// the page does not exist and Conflict if it is deleted. A new brand that does not exist, and
// growth above atrium.MaxPageSize, are faults of the request.
func (s *Store) UpdatePage(ctx context.Context, c atrium.Change, id atrium.PageID, edit atrium.PageEdit, check func(atrium.ScheduledPage) error) (atrium.ScheduledPage, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		if edit.BrandID != nil {
			if err := lockBrandOfPage(tx, *edit.BrandID); err != nil {
				return atrium.ScheduledPage{}, err
			}
		}
		p, err := lockPage(tx, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		if p.DeletedAt != nil {
			return p, deleted()
		}
		before := p.Page
		edit.Apply(&p.Page)
		if size := p.Size(); size > max(atrium.MaxPageSize, before.Size()) {
			return p, atrium.Invalid(atrium.PageTooLarge(size))
		}
		return p, savePage(tx, "page.update", &before, &p.Page)
	})
	return p, err
}

// TakePage applies a transition to a page. It first calls check with the current page; an error
// of check ends the call. It returns NotFound if the page does not exist, and Conflict if it is
// deleted or its state does not allow the transition.
func (s *Store) TakePage(ctx context.Context, c atrium.Change, id atrium.PageID, t atrium.PageTransition, check func(atrium.ScheduledPage) error) (atrium.ScheduledPage, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		p, err := lockPage(tx, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		before := p.Page
		if p.Status, err = transition(&before, t); err != nil {
			return p, err
		}
		return p, savePage(tx, "page."+string(t), &before, &p.Page)
	})
	return p, err
}

// transition returns the state of a page after a transition, or a Conflict that lists the allowed
// transitions.
func transition(p *atrium.Page, t atrium.PageTransition) (atrium.PageStatus, error) {
	if p.DeletedAt != nil {
		return p.Status, deleted()
	}
	to, ok := p.Status.Transitions()[t]
	if !ok {
		return p.Status, notAllowed(p)
	}
	return to, nil
}

func notAllowed(p *atrium.Page) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.Status.Transitions())) {
		names = append(names, string(name))
	}
	return atrium.Errorf(atrium.CodeConflict, "The page is in the state %s, which allows: %s.", p.Status, strings.Join(names, ", "))
}

// DeletePage marks a page as deleted and removes its schedule. If the page is deleted already,
// nothing changes. It first calls check with the current page; an error of check ends the call.
// It returns NotFound if the page does not exist.
func (s *Store) DeletePage(ctx context.Context, c atrium.Change, id atrium.PageID, check func(atrium.ScheduledPage) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		p, err := lockPage(tx, id)
		if err != nil {
			return none, err
		}
		if err := check(p); err != nil || p.DeletedAt != nil {
			return none, err
		}
		if err := unschedule(tx, &p); err != nil {
			return none, err
		}
		before := p.Page
		p.DeletedAt = tx.NotBefore(p.UpdatedAt)
		return none, savePage(tx, "page.delete", &before, &p.Page)
	})
	return err
}

// UndeletePage restores a deleted page in its former state, without its schedule. It first calls
// check with the current page; an error of check ends the call. It returns NotFound if the page
// does not exist, and Conflict if it is not deleted.
func (s *Store) UndeletePage(ctx context.Context, c atrium.Change, id atrium.PageID, check func(atrium.ScheduledPage) error) (atrium.ScheduledPage, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.ScheduledPage, error) {
		p, err := lockPage(tx, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		if p.DeletedAt == nil {
			return p, notAllowed(&p.Page)
		}
		before := p.Page
		p.DeletedAt = nil
		return p, savePage(tx, "page.undelete", &before, &p.Page)
	})
	return p, err
}
