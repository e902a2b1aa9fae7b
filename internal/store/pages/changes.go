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

// This file has the changes of pages. Whoever locks several rows takes them in one
// order: the brand, the page, its audience.

// CreatePage makes a draft of what p says of its content. Its brand must be there
// and stays for as long as a page has it; if it is not, that is a fault of the
// request, as is a Size above atrium.MaxPageSize.
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
				audiences_count, created_at, updated_at, stored_at, actions, scripts, footer_links, metadata)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, $12, $13, $14, $15)`,
			kernel.IDArg(c.TenantID), kernel.IDArg(p.ID), p.BrandID, p.Name, p.Context, p.Title, string(p.Status), kernel.NullableText(p.HeaderActionID),
			int64(p.CreatedAt), int64(p.UpdatedAt), tx.StoredAt(), p.Actions, p.Scripts, p.FooterLinks, p.Metadata)
		return atrium.ScheduledPage{Page: p}, err
	})
}

// lockBrandOfPage keeps a brand from being deleted until the transaction ends.
func lockBrandOfPage(tx *kernel.Mutation, id atrium.BrandID) error {
	_, err := lockBrand(tx, id)
	if atrium.CodeOf(kernel.Public(err)) == atrium.CodeNotFound {
		return atrium.Invalid(atrium.Fault{In: atrium.InBody, Where: "/brandId", Detail: "names a brand that does not exist"})
	}
	return err
}

// lockPage returns a page with its schedule; both stay as they are until the
// transaction ends.
func lockPage(tx *kernel.Mutation, id atrium.PageID) (p atrium.ScheduledPage, err error) {
	args := engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}
	if err := engine.Find(tx.Lock, selectPage, args, func(r engine.Row) { p.Page = scanPage(r, tx.Change.TenantID) }); err != nil {
		return p, err
	}
	if err := tx.CountBytes(p.Size()); err != nil {
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

// savePage writes what was changed of a page, under an action, and moves its
// updatedAt. Without a difference there is nothing to write.
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
			updated_at = $7, deleted_at = $8, actions = $9, scripts = $10, footer_links = $11, metadata = $12
		WHERE tenant_id = $13 AND page_id = $14`,
		p.BrandID, p.Name, p.Context, p.Title, string(p.Status), kernel.NullableText(p.HeaderActionID),
		int64(p.UpdatedAt), kernel.NullableTime(p.DeletedAt), p.Actions, p.Scripts, p.FooterLinks, p.Metadata,
		kernel.IDArg(p.TenantID), kernel.IDArg(p.ID))
	return err
}

// UpdatePage changes a page. The page as it stands is first given to check, whose
// error ends the call. What is as it was, byte for byte, changes nothing. It is
// NotFound if there is none, Conflict if it is deleted, and a fault of the request
// if the brand that it is to have does not exist or if it would grow above
// atrium.MaxPageSize.
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

// TakePage takes a page by a transition. The page as it stands is first given to
// check, whose error ends the call. It is NotFound if there is none, and Conflict
// if it is deleted or its state does not allow the transition.
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

// transition returns the state that a page comes to, or a Conflict that says what
// can be done instead.
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

// DeletePage marks a page as deleted and takes its schedule away; one that is
// deleted stays as it is. The page as it stands is first given to check, whose error
// ends the call. It is NotFound if there is none.
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

// UndeletePage makes a deleted page what it was, without the schedule. The page as
// it stands is first given to check, whose error ends the call. It is NotFound if
// there is none, and Conflict if it is not deleted.
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
