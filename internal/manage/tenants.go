package manage

import (
	"context"
	"net/http"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type tenant struct {
	TenantID  atrium.TenantID `json:"tenantId"`
	Name      string          `json:"name"`
	CreatedAt atrium.Time     `json:"createdAt"`
	Deletion  *tenantDeletion `json:"deletion,omitzero"`
}

type tenantDeletion struct {
	RequestedAt atrium.Time `json:"requestedAt"`
	AccountLogs int64       `json:"accountLogs"`
	Rows        int64       `json:"rows"`
}

func newTenant(t atrium.Tenant) tenant {
	view := tenant{t.ID, t.Name, t.CreatedAt, nil}
	if d := t.Deletion; d != nil {
		view.Deletion = &tenantDeletion{d.RequestedAt, d.Entries, d.Rows}
	}
	return view
}

func (a *API) listTenants(ctx context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{"", "tenants"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.TenantsAndDeletions(ctx, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newTenant, func(t atrium.Tenant) *atrium.Position {
		return atrium.PositionAt(0, t.ID)
	}, binding), nil
}

func (a *API) createTenant(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name, id string
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		name, _ = o.Text("name", strictjson.Required, checkName)
		id, _ = o.Text("tenantId", strictjson.Optional, checkID[atrium.TenantID])
	})
	if err != nil {
		return rest.Response{}, err
	}
	var t atrium.Tenant
	var replayed bool
	if id == "" {
		t, replayed, err = a.Store.CreateTenant(ctx, c, name)
	} else {
		t, replayed, err = a.Store.AdoptTenant(ctx, c, atrium.TenantID(id), name)
	}
	return rest.Created(newTenant(t), replayed), err
}

func (a *API) getTenant(ctx context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.TenantID](r, "tenant_id")
	if err != nil {
		return rest.Response{}, err
	}
	t, err := a.Store.TenantOrDeletion(ctx, id)
	return rest.Response{Body: newTenant(t)}, err
}

// ownTenant returns the tenant that the request is for.
func (a *API) ownTenant(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	t, err := a.Store.Tenant(ctx, who.TenantID)
	return rest.Response{Body: newTenant(t)}, err
}

func (a *API) updateTenant(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name *string
	c, id, err := rest.DecodeChangeOf[atrium.TenantID](r, who, "tenant_id", func(o *strictjson.Object) {
		name = optionalText(o, "name", checkName)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	t, err := a.Store.UpdateTenant(ctx, c, id, name, func(t atrium.Tenant) error { return r.RequireState(newTenant(t)) })
	return rest.Response{Body: newTenant(t), Tagged: true}, err
}

func (a *API) deleteTenant(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.TenantID](r, who, "tenant_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	q := r.Query()
	name, given := q.Text("confirmName")
	if !given && q.Err() == nil {
		q.Fault("confirmName", "is required")
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	t, err := a.Store.DeleteTenant(ctx, c, id, func(t atrium.Tenant) error {
		if t.Name != name {
			return atrium.Errorf(atrium.CodeConflict, "confirmName is not the name of the tenant. Nothing was deleted.")
		}
		if t.Deletion != nil { // a repeated request
			return nil
		}
		return r.CheckState(newTenant(t))
	})
	if err != nil {
		return rest.Response{}, err
	}
	a.Keys.ForgetTenant(id)
	return rest.Response{Status: http.StatusAccepted, Body: newTenant(t)}, nil
}
