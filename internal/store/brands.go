package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

const brandColumns = "b.brand_id, b.name, b.created_at, b.updated_at"

func scanBrand(r engine.Row, tenant atrium.TenantID) atrium.Brand {
	return atrium.Brand{
		ID: idAt[atrium.BrandID](r, 0), TenantID: tenant, Name: r.Text(1),
		CreatedAt: atrium.Time(r.Int(2)), UpdatedAt: atrium.Time(r.Int(3)),
	}
}

func brandFields(b *atrium.Brand) fields { return fields{"name": b.Name} }

// CreateBrand makes a brand with the name.
func (s *Store) CreateBrand(ctx context.Context, c atrium.Change, name string) (atrium.Brand, bool, error) {
	return change(ctx, s, c, func(tx *changing) (atrium.Brand, error) {
		b := atrium.Brand{ID: atrium.NewID[atrium.BrandID](), TenantID: c.TenantID, Name: name, CreatedAt: tx.at, UpdatedAt: tx.at}
		tx.record("brand.create", string(b.ID), nil, brandFields(&b))
		_, err := tx.Exec("INSERT INTO brands (tenant_id, brand_id, name, created_at, updated_at, stored_at) VALUES ($1, $2, $3, $4, $5, $6)",
			idArg(c.TenantID), idArg(b.ID), b.Name, int64(b.CreatedAt), int64(b.UpdatedAt), tx.storedAt())
		return b, err
	})
}

// Brand returns a brand, or NotFound.
func (s *Store) Brand(ctx context.Context, tenant atrium.TenantID, id atrium.BrandID) (b atrium.Brand, err error) {
	err = s.find(ctx, selectBrand, engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { b = scanBrand(r, tenant) })
	return b, err
}

const selectBrand = "SELECT " + brandColumns + " FROM brands b WHERE tenant_id = $1 AND brand_id = $2"

// Brands returns up to limit brands, newest first, that come after the position, or
// from the first for nil. more says whether others follow.
func (s *Store) Brands(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (brands []atrium.Brand, more bool, err error) {
	q := selecting("SELECT "+brandColumns+" FROM brands b WHERE tenant_id = ", idArg(tenant))
	q.after("created_at", "brand_id", after)
	q.add(" ORDER BY created_at DESC, brand_id DESC LIMIT ", int64(limit)+1)
	brands, more, err = list(ctx, s, q, limit, func(r engine.Row) atrium.Brand { return scanBrand(r, tenant) })
	return brands, more, err
}

// lockBrand returns a brand that stays as it is until the transaction ends.
func (tx *changing) lockBrand(id atrium.BrandID) (b atrium.Brand, err error) {
	err = engine.Find(tx.Lock, selectBrand, engine.Args{idArg(tx.change.TenantID), idArg(id)},
		func(r engine.Row) { b = scanBrand(r, tx.change.TenantID) })
	return b, err
}

// UpdateBrand gives a brand a name, unless name is nil. The brand as it stands is
// first given to check, whose error ends the call. What is as it was changes
// nothing. It is NotFound if there is none.
func (s *Store) UpdateBrand(ctx context.Context, c atrium.Change, id atrium.BrandID, name *string, check func(atrium.Brand) error) (atrium.Brand, error) {
	b, _, err := change(ctx, s, c, func(tx *changing) (atrium.Brand, error) {
		b, err := tx.lockBrand(id)
		if err != nil {
			return b, err
		}
		if err := check(b); err != nil || name == nil || *name == b.Name {
			return b, err
		}
		before := brandFields(&b)
		b.Name, b.UpdatedAt = *name, max(b.UpdatedAt, tx.at)
		tx.record("brand.update", string(id), before, brandFields(&b))
		_, err = tx.Exec("UPDATE brands SET name = $1, updated_at = $2 WHERE tenant_id = $3 AND brand_id = $4",
			b.Name, int64(b.UpdatedAt), idArg(c.TenantID), idArg(id))
		return b, err
	})
	return b, err
}

// DeleteBrand deletes a brand for good. The brand as it stands is first given to
// check, whose error ends the call. It is Conflict while a page names the brand,
// deleted pages included, and NotFound if there is none.
func (s *Store) DeleteBrand(ctx context.Context, c atrium.Change, id atrium.BrandID, check func(atrium.Brand) error) error {
	_, _, err := change(ctx, s, c, func(tx *changing) (none struct{}, err error) {
		b, err := tx.lockBrand(id)
		if err != nil {
			return none, err
		}
		if err := check(b); err != nil {
			return none, err
		}
		used := false
		if err := tx.Query("SELECT page_id FROM pages WHERE tenant_id = $1 AND brand_id = $2 AND length(brand_id) = 32 LIMIT 1",
			engine.Args{idArg(c.TenantID), string(id)}, func(engine.Row) error {
				used = true
				return nil
			}); err != nil {
			return none, err
		}
		if used {
			return none, atrium.Errorf(atrium.CodeConflict, "Pages have this brand.")
		}
		tx.record("brand.delete", string(id), brandFields(&b), nil)
		_, err = tx.Exec("DELETE FROM brands WHERE tenant_id = $1 AND brand_id = $2", idArg(c.TenantID), idArg(id))
		return none, err
	})
	return err
}
