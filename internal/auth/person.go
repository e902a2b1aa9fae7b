package auth

import (
	"context"
	"net/netip"
	"slices"

	"atrium"
	"atrium/internal/limit"
)

// A PersonStore is the store of group mappings and of the users whom an identity provider knows.
type PersonStore interface {
	// MappingsOf returns the mappings of groups of an issuer in all tenants and of operators.
	MappingsOf(ctx context.Context, issuer string, groups []string) ([]atrium.GroupMapping, error)

	// UsersOf returns the users of a subject in all tenants and as an operator.
	UsersOf(ctx context.Context, issuer, subject string) ([]atrium.User, error)

	// SignInPerson begins a session with the role of a mapping, and creates or updates the user. The error's
	// code is atrium.CodeNotFound if the mapping is no longer there.
	SignInPerson(ctx context.Context, p atrium.Person, m atrium.GroupMapping, session atrium.Session, secretHash []byte, requestID string) (atrium.Session, error)

	// UseOnce records that the thing with an unpredictable identifier is used. The error's code is atrium.CodeConflict if it was before.
	UseOnce(ctx context.Context, id, requestID string) error

	// GroupMapping returns a mapping of a tenant, or of operators for atrium.OperatorChain.
	GroupMapping(ctx context.Context, tenant atrium.TenantID, id atrium.GroupMappingID) (atrium.GroupMapping, error)

	// Tenant returns a tenant.
	Tenant(ctx context.Context, id atrium.TenantID) (atrium.Tenant, error)

	// UpdateUser sets the name and the role of a user, unless they are nil. A new role ends the sessions.
	UpdateUser(ctx context.Context, c atrium.Change, id atrium.UserID, name *string, role *atrium.Role, check func(atrium.User) error) (atrium.User, error)

	// Sessions returns the sessions of a user.
	Sessions(ctx context.Context, tenant atrium.TenantID, user atrium.UserID) ([]atrium.Session, error)

	// EndSessions ends all sessions of a user.
	EndSessions(ctx context.Context, c atrium.Change, user atrium.UserID, check func(atrium.User) error) (atrium.User, error)
}

// People sign in through an identity provider. They are safe for concurrent use.
type People struct {
	store    PersonStore
	failures *Failures
}

// NewPeople returns People. failures counts failed sign-ins, and may be nil for no limit.
func NewPeople(store PersonStore, failures *Failures) *People { return &People{store, failures} }

// Attempt counts a sign-in of a client. The error's code is atrium.CodeRateLimited if the client has failed too
// often. Call Succeeded for an attempt that the client did not let fail.
func (p *People) Attempt(from netip.Addr) error {
	if b := p.failures.Take(limit.Network(from)); !b.OK {
		return tooMany(b, "This address has failed to sign in too often.")
	}
	return nil
}

// Succeeded uncounts an attempt.
func (p *People) Succeeded(from netip.Addr) { p.failures.Return(limit.Network(from)) }

// Memberships returns what a person may sign in as, by tenant: at most atrium.MaxMemberships, which may be none.
// It ends the sessions of users of the person without a mapping, or whose role has changed.
func (p *People) Memberships(ctx context.Context, person atrium.Person, requestID string) ([]atrium.GroupMapping, error) {
	mappings, err := p.store.MappingsOf(ctx, person.Issuer, person.Groups)
	if err != nil {
		return nil, err
	}
	mappings = atrium.Memberships(mappings)
	users, err := p.store.UsersOf(ctx, person.Issuer, person.Subject)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		i := slices.IndexFunc(mappings, func(m atrium.GroupMapping) bool { return m.TenantID == u.TenantID })
		role := atrium.Role("")
		if i >= 0 {
			role = mappings[i].Role
		}
		if err := p.follow(ctx, u, role, requestID); err != nil && atrium.CodeOf(err) != atrium.CodeNotFound { // removed in the meantime
			return nil, err
		}
	}
	if len(mappings) > atrium.MaxMemberships {
		return nil, atrium.Errorf(atrium.CodeConflict, "Your groups have roles in too many tenants.")
	}
	return mappings, nil
}

// UseOnce records that a choice of a tenant, with an unpredictable identifier, is used. The error's code is atrium.CodeConflict if it
// was before.
func (p *People) UseOnce(ctx context.Context, id, requestID string) error {
	return p.store.UseOnce(ctx, id, requestID)
}

// follow gives a user the role that the groups have now, "" for none.
func (p *People) follow(ctx context.Context, u atrium.User, role atrium.Role, requestID string) error {
	if u.Role == role {
		return nil
	}
	c := atrium.Change{TenantID: u.TenantID, Actor: string(u.ID), RequestID: requestID}
	if c.TenantID == "" {
		c.TenantID = atrium.OperatorChain
	}
	accept := func(atrium.User) error { return nil }
	if role != "" {
		_, err := p.store.UpdateUser(ctx, c, u.ID, nil, &role, accept)
		return err
	}
	open, err := p.store.Sessions(ctx, c.TenantID, u.ID)
	if err != nil || len(open) == 0 { // refused again and again: nothing to record
		return err
	}
	_, err = p.store.EndSessions(ctx, c, u.ID, accept)
	return err
}

// Mapping returns a mapping of a tenant, "" for operators. The error's code is atrium.CodeNotFound if it is no
// longer there.
func (p *People) Mapping(ctx context.Context, tenant atrium.TenantID, id atrium.GroupMappingID) (atrium.GroupMapping, error) {
	if tenant == "" {
		tenant = atrium.OperatorChain
	}
	return p.store.GroupMapping(ctx, tenant, id)
}

// TenantName returns the name of a tenant.
func (p *People) TenantName(ctx context.Context, id atrium.TenantID) (string, error) {
	t, err := p.store.Tenant(ctx, id)
	return t.Name, err
}

// SignIn begins a session of a person with the role of a mapping, and returns its token.
func (p *People) SignIn(ctx context.Context, person atrium.Person, m atrium.GroupMapping, userAgent, requestID string) (token string, session atrium.Session, err error) {
	session.ID = atrium.NewID[atrium.SessionID]()
	session.Browser = atrium.BrowserOf(userAgent)
	token, hash := newText(sessionPrefix, string(session.ID[len(session.ID.Prefix()):]))
	session, err = p.store.SignInPerson(ctx, person, m, session, hash, requestID)
	return token, session, err
}
