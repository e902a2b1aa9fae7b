package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type user struct {
	UserID    atrium.UserID   `json:"userId"`
	TenantID  atrium.TenantID `json:"tenantId,omitzero"` // absent in operators, which only the command line creates
	Name      string          `json:"name"`
	Role      atrium.Role     `json:"role"`
	Issuer    string          `json:"issuer,omitzero"`
	Subject   string          `json:"subject,omitzero"`
	CreatedAt atrium.Time     `json:"createdAt"`
	UpdatedAt atrium.Time     `json:"updatedAt"`
}

func newUser(u atrium.User) user {
	return user{u.ID, u.TenantID, u.Name, u.Role, u.Issuer, u.Subject, u.CreatedAt, u.UpdatedAt}
}

type loginLink struct {
	LoginLinkID atrium.LoginLinkID `json:"loginLinkId"`
	UserID      atrium.UserID      `json:"userId"`
	ExpiresAt   atrium.Time        `json:"expiresAt"`
	Token       string             `json:"token"`
}

type session struct {
	SessionID atrium.SessionID `json:"sessionId"`
	UserID    atrium.UserID    `json:"userId"`
	Browser   string           `json:"browser"`
	CreatedAt atrium.Time      `json:"createdAt"`
	UsedAt    atrium.Time      `json:"usedAt"`
	ExpiresAt atrium.Time      `json:"expiresAt"`
}

func newSession(s atrium.Session) session {
	return session{s.ID, s.UserID, s.Browser, s.CreatedAt, s.UsedAt, s.ExpiresAt}
}

// mayActAs returns Forbidden if a role has permissions that the caller lacks. Otherwise, the caller could
// get them through a user.
func mayActAs(who auth.Principal, role atrium.Role) error {
	if who.Scopes.MayGrant(role.Scopes()) {
		return nil
	}
	return atrium.Errorf(atrium.CodeForbidden, "The role %s has permissions that your key lacks.", role)
}

// decodeRole decodes the role of a user of the tenant of a request.
func decodeRole(o *strictjson.Object, who auth.Principal, presence strictjson.Presence) atrium.Role {
	text, ok := o.Text("role", presence, func(text string) string {
		if atrium.Role(text).ValidFor(who.TenantID) {
			return ""
		}
		if who.TenantID == atrium.OperatorChain {
			return "must be operator"
		}
		return "must be one of viewer, support, editor, admin"
	})
	if !ok {
		return ""
	}
	return atrium.Role(text)
}

func (a *API) listUsers(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "users"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Users(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newUser,
		func(u atrium.User) *atrium.Position { return atrium.PositionAt(0, u.ID) }, binding), nil
}

func (a *API) createUser(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	u := atrium.User{ID: atrium.NewID[atrium.UserID]()}
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		u.Name, _ = o.Text("name", strictjson.Required, checkName)
		u.Role = decodeRole(o, who, strictjson.Required)
	})
	if err != nil {
		return rest.Response{}, err
	}
	if err := mayActAs(who, u.Role); err != nil {
		return rest.Response{}, err
	}
	u, replayed, err := a.Store.CreateUser(ctx, c, u)
	return rest.Created(newUser(u), replayed), err
}

func (a *API) getUser(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.UserID](r, "user_id")
	if err != nil {
		return rest.Response{}, err
	}
	u, err := a.Store.User(ctx, who.TenantID, id)
	return rest.Response{Body: newUser(u)}, err
}

// checkUser returns a function that checks whether the caller may change a user, and its entity tag.
func checkUser(who auth.Principal, r *rest.Request) func(atrium.User) error {
	return func(u atrium.User) error {
		if err := mayActAs(who, u.Role); err != nil {
			return err
		}
		return r.CheckState(newUser(u))
	}
}

func (a *API) updateUser(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name *string
	var role *atrium.Role
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		name = optionalText(o, "name", checkName)
		if decoded := decodeRole(o, who, strictjson.Optional); decoded != "" {
			role = &decoded
		}
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	if role != nil {
		if err := mayActAs(who, *role); err != nil {
			return rest.Response{}, err
		}
	}
	id, err := rest.PathID[atrium.UserID](r, "user_id")
	if err != nil {
		return rest.Response{}, err
	}
	u, err := a.Store.UpdateUser(ctx, c, id, name, role, func(u atrium.User) error {
		if err := mayActAs(who, u.Role); err != nil {
			return err
		}
		if u.Issuer != "" {
			return atrium.Errorf(atrium.CodeConflict, "The name and the role of the user come from the identity provider %s.", u.Issuer)
		}
		return r.RequireState(newUser(u))
	})
	return rest.Response{Body: newUser(u), Tagged: true}, err
}

func (a *API) removeUser(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.UserID](r, who, "user_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.RemoveUser(ctx, c, id, checkUser(who, r))
}

func (a *API) createLoginLink(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, user, err := rest.DecodeChangeOf[atrium.UserID](r, who, "user_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	id, token, hash := auth.NewLoginToken()
	link, err := a.Store.CreateLoginLink(ctx, c, atrium.LoginLink{ID: id, UserID: user}, hash, func(u atrium.User) error {
		if u.Issuer != "" {
			return atrium.Errorf(atrium.CodeConflict, "The user signs in through the identity provider %s.", u.Issuer)
		}
		return checkUser(who, r)(u)
	})
	return rest.Response{Body: loginLink{link.ID, link.UserID, link.ExpiresAt, token}}, err
}

func (a *API) listSessions(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.UserID](r, "user_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, err := a.Store.Sessions(ctx, who.TenantID, id)
	items := make([]session, 0, len(found))
	for _, s := range found {
		items = append(items, newSession(s))
	}
	return rest.Response{Body: struct {
		Items []session `json:"items"`
	}{items}}, err
}

func (a *API) signOutUser(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.UserID](r, who, "user_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	u, err := a.Store.EndSessions(ctx, c, id, checkUser(who, r))
	return rest.Response{Body: newUser(u), Tagged: true}, err
}

func (a *API) endSession(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, user, err := rest.DecodeChangeOf[atrium.UserID](r, who, "user_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.SessionID](r, "session_id")
	if err != nil {
		return rest.Response{}, err
	}
	if user != who.UserID { // a new role would end the session as well
		u, err := a.Store.User(ctx, who.TenantID, user)
		if err != nil {
			return rest.Response{}, err
		}
		if err := mayActAs(who, u.Role); err != nil {
			return rest.Response{}, err
		}
	}
	return rest.NoContent, a.Store.EndSession(ctx, c, user, id, func(s atrium.Session) error { return r.CheckState(newSession(s)) })
}
