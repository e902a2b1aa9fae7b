package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type groupMapping struct {
	MappingID atrium.GroupMappingID `json:"mappingId"`
	TenantID  atrium.TenantID       `json:"tenantId,omitzero"` // absent in mappings of operators, which only the command line creates
	Issuer    string                `json:"issuer"`
	Group     string                `json:"group"`
	Role      atrium.Role           `json:"role"`
	CreatedAt atrium.Time           `json:"createdAt"`
}

func newGroupMapping(m atrium.GroupMapping) groupMapping {
	return groupMapping{m.ID, m.TenantID, m.Issuer, m.Group, m.Role, m.CreatedAt}
}

func (a *API) listGroupMappings(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "group_mappings"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.GroupMappings(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newGroupMapping,
		func(m atrium.GroupMapping) *atrium.Position { return atrium.PositionAt(0, m.ID) }, binding), nil
}

func (a *API) createGroupMapping(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	m := atrium.GroupMapping{ID: atrium.NewID[atrium.GroupMappingID]()}
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		m.Issuer, _ = o.Text("issuer", strictjson.Required, atrium.CheckIssuer)
		m.Group, _ = o.Text("group", strictjson.Required, func(text string) string { return atrium.CheckText(text, 1, atrium.MaxGroup) })
		m.Role = decodeRole(o, who, strictjson.Required)
	})
	if err != nil {
		return rest.Response{}, err
	}
	if err := mayActAs(who, m.Role); err != nil {
		return rest.Response{}, err
	}
	m, replayed, err := a.Store.CreateGroupMapping(ctx, c, m)
	return rest.Created(newGroupMapping(m), replayed), err
}

func (a *API) getGroupMapping(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.GroupMappingID](r, "mapping_id")
	if err != nil {
		return rest.Response{}, err
	}
	m, err := a.Store.GroupMapping(ctx, who.TenantID, id)
	return rest.Response{Body: newGroupMapping(m)}, err
}

func (a *API) deleteGroupMapping(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.GroupMappingID](r, who, "mapping_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.DeleteGroupMapping(ctx, c, id, func(m atrium.GroupMapping) error {
		if err := mayActAs(who, m.Role); err != nil {
			return err
		}
		return r.CheckState(newGroupMapping(m))
	})
}
