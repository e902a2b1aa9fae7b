package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type brand struct {
	BrandID   atrium.BrandID  `json:"brandId"`
	TenantID  atrium.TenantID `json:"tenantId"`
	Name      string          `json:"name"`
	CreatedAt atrium.Time     `json:"createdAt"`
	UpdatedAt atrium.Time     `json:"updatedAt"`
}

func newBrand(b atrium.Brand) brand { return brand{b.ID, b.TenantID, b.Name, b.CreatedAt, b.UpdatedAt} }

func (a *API) listBrands(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "brands"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Brands(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newBrand, func(b atrium.Brand) *atrium.Position {
		return atrium.PositionAt(b.CreatedAt, b.ID)
	}, binding), nil
}

func (a *API) createBrand(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name string
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		name, _ = o.Text("name", strictjson.Required, checkName)
	})
	if err != nil {
		return rest.Response{}, err
	}
	b, replayed, err := a.Store.CreateBrand(ctx, c, name)
	return rest.Created(newBrand(b), replayed), err
}

func (a *API) getBrand(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.BrandID](r, "brand_id")
	if err != nil {
		return rest.Response{}, err
	}
	b, err := a.Store.Brand(ctx, who.TenantID, id)
	return rest.Response{Body: newBrand(b)}, err
}

func (a *API) updateBrand(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name *string
	c, id, err := rest.DecodeChangeOf[atrium.BrandID](r, who, "brand_id", func(o *strictjson.Object) {
		name = optionalText(o, "name", checkName)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	b, err := a.Store.UpdateBrand(ctx, c, id, name, func(b atrium.Brand) error { return r.RequireState(newBrand(b)) })
	return rest.Response{Body: newBrand(b), Tagged: true}, err
}

func (a *API) deleteBrand(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.BrandID](r, who, "brand_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	err = a.Store.DeleteBrand(ctx, c, id, func(b atrium.Brand) error { return r.CheckState(newBrand(b)) })
	return rest.NoContent, err
}
