package pages

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// BrandColumns are the columns of a brand b in the order in which ScanBrand reads them.
const BrandColumns = "b.brand_id, b.name, b.created_at, b.updated_at"

// ScanBrand reads BrandColumns, which start at column 0.
func ScanBrand(r engine.Row, tenant atrium.TenantID) atrium.Brand {
	return atrium.Brand{
		ID: kernel.IDAt[atrium.BrandID](r, 0), TenantID: tenant, Name: r.Text(1),
		CreatedAt: atrium.Time(r.Int(2)), UpdatedAt: atrium.Time(r.Int(3)),
	}
}

func brandFields(b *atrium.Brand) kernel.Fields { return kernel.Fields{"name": b.Name} }

// CreateBrand creates a brand. The second result reports whether the same request created it
// before.
func (s *Store) CreateBrand(ctx context.Context, c atrium.Change, name string) (atrium.Brand, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Brand, error) {
		b := atrium.Brand{ID: atrium.NewID[atrium.BrandID](), TenantID: c.TenantID, Name: name, CreatedAt: tx.At, UpdatedAt: tx.At}
		tx.Record("brand.create", string(b.ID), nil, brandFields(&b))
		_, err := tx.Exec("INSERT INTO brands (tenant_id, brand_id, name, created_at, updated_at, stored_at) VALUES ($1, $2, $3, $4, $5, $6)",
			kernel.IDArg(c.TenantID), kernel.IDArg(b.ID), b.Name, int64(b.CreatedAt), int64(b.UpdatedAt), tx.StoredAt())
		return b, err
	})
}

// Brand returns a brand, or NotFound.
func (s *Store) Brand(ctx context.Context, tenant atrium.TenantID, id atrium.BrandID) (b atrium.Brand, err error) {
	err = s.db.Find(ctx, selectBrand, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { b = ScanBrand(r, tenant) })
	return b, err
}

const selectBrand = "SELECT " + BrandColumns + " FROM brands b WHERE tenant_id = $1 AND brand_id = $2"

// Brands returns up to limit brands, newest first, after the position, or from the first if it is
// nil. more reports whether others follow.
func (s *Store) Brands(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (brands []atrium.Brand, more bool, err error) {
	q := kernel.Select("SELECT "+BrandColumns+" FROM brands b WHERE tenant_id = ", kernel.IDArg(tenant))
	q.After("created_at", "brand_id", after)
	q.Add(" ORDER BY created_at DESC, brand_id DESC LIMIT ", int64(limit)+1)
	brands, more, err = kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.Brand { return ScanBrand(r, tenant) })
	return brands, more, err
}

// lockBrand locks a brand until the end of the transaction and returns it.
func lockBrand(tx *kernel.Mutation, id atrium.BrandID) (b atrium.Brand, err error) {
	err = engine.Find(tx.Lock, selectBrand, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)},
		func(r engine.Row) { b = ScanBrand(r, tx.Change.TenantID) })
	return b, err
}

// UpdateBrand sets the name of a brand, unless name is nil. It first calls check with the current
// brand; an error of check ends the call. If the name is the same, nothing changes. It returns
// NotFound if the brand does not exist.
func (s *Store) UpdateBrand(ctx context.Context, c atrium.Change, id atrium.BrandID, name *string, check func(atrium.Brand) error) (atrium.Brand, error) {
	b, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Brand, error) {
		b, err := lockBrand(tx, id)
		if err != nil {
			return b, err
		}
		if err := check(b); err != nil || name == nil || *name == b.Name {
			return b, err
		}
		before := brandFields(&b)
		b.Name, b.UpdatedAt = *name, max(b.UpdatedAt, tx.At)
		tx.Record("brand.update", string(id), before, brandFields(&b))
		_, err = tx.Exec("UPDATE brands SET name = $1, updated_at = $2 WHERE tenant_id = $3 AND brand_id = $4",
			b.Name, int64(b.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return b, err
	})
	return b, err
}

// DeleteBrand deletes a brand permanently. It first calls check with the current brand; an error
// of check ends the call. It returns Conflict while a page has the brand, including deleted
// pages, and NotFound if the brand does not exist.
func (s *Store) DeleteBrand(ctx context.Context, c atrium.Change, id atrium.BrandID, check func(atrium.Brand) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		b, err := lockBrand(tx, id)
		if err != nil {
			return none, err
		}
		if err := check(b); err != nil {
			return none, err
		}
		used := false
		if err := tx.Query("SELECT page_id FROM pages WHERE tenant_id = $1 AND brand_id = $2 AND length(brand_id) = 32 LIMIT 1",
			engine.Args{kernel.IDArg(c.TenantID), string(id)}, func(engine.Row) error {
				used = true
				return nil
			}); err != nil {
			return none, err
		}
		if used {
			return none, atrium.Errorf(atrium.CodeConflict, "Pages have this brand.")
		}
		tx.Record("brand.delete", string(id), brandFields(&b), nil)
		_, err = tx.Exec("DELETE FROM brands WHERE tenant_id = $1 AND brand_id = $2", kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return none, err
	})
	return err
}
