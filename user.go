package atrium

import (
	"slices"
	"strings"
	"time"
)

// A User is a person who uses the console: a member of one tenant, or an operator. A person who works for
// several tenants is a user of each.
type User struct {
	ID        UserID
	TenantID  TenantID // "" for an operator
	Name      string   // 1 to MaxName code points, not unique
	Role      Role
	Issuer    string // of OpenID Connect; "" for a user who signs in with login links
	Subject   string // the user's identifier at the issuer; "" without one
	CreatedAt Time
	UpdatedAt Time
}

// A Role is what a user may do.
type Role string

// The roles, each with the permissions of the scopes that Role.Scopes returns.
const (
	RoleViewer   Role = "viewer"   // reads everything
	RoleSupport  Role = "support"  // reads everything, changes accounts and prospects, and moves entries
	RoleEditor   Role = "editor"   // reads everything, and changes pages and audiences
	RoleAdmin    Role = "admin"    // does everything in a tenant
	RoleOperator Role = "operator" // does everything in all tenants
)

// TenantRoles returns the roles of members of a tenant.
func TenantRoles() []Role { return []Role{RoleViewer, RoleSupport, RoleEditor, RoleAdmin} }

// Scopes returns the scopes of a role. A role that this release does not know has none.
func (r Role) Scopes() Scopes {
	switch r {
	case RoleViewer:
		return Scopes{ScopeManageRead}
	case RoleSupport:
		return Scopes{ScopeManageAccounts, ScopeManageRead}
	case RoleEditor:
		return Scopes{ScopeManagePages, ScopeManageRead}
	case RoleAdmin, RoleOperator:
		return Scopes{ScopeManage}
	}
	return nil
}

// ValidFor reports whether the users of a tenant, or the operators for OperatorChain, can have the role.
func (r Role) ValidFor(tenant TenantID) bool {
	if tenant == OperatorChain {
		return r == RoleOperator
	}
	return slices.Contains(TenantRoles(), r)
}

// Limits of users.
const (
	MaxUsers        = 1000 // of a tenant, and of operators
	MaxSessions     = 20   // of a user; a new one ends the one that was used least recently
	MaxBrowser      = 200  // bytes of Session.Browser
	LoginLinkLife   = 10 * time.Minute
	SessionLife     = 7 * 24 * time.Hour
	SessionIdleLife = 12 * time.Hour // without a request
)

// A Session lets a browser act as a user until it expires or is ended. It does not include its secret.
type Session struct {
	ID        SessionID
	UserID    UserID
	TenantID  TenantID // of the user
	CreatedAt Time
	UsedAt    Time   // to the minute
	ExpiresAt Time   // at the latest; it also ends SessionIdleLife after UsedAt
	Browser   string // a result of BrowserOf

	// TenantName is the name of the tenant, "" for an operator and in lists of sessions.
	TenantName string
}

// BrowserOf returns what a session keeps of a User-Agent header: its printable ASCII characters, at most
// MaxBrowser.
func BrowserOf(userAgent string) string {
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, userAgent[:min(len(userAgent), MaxBrowser)])
	return strings.TrimSpace(printable)
}

// WorksAt reports whether the session has not expired at now.
func (s *Session) WorksAt(now Time) bool {
	return now < s.ExpiresAt && now < At(s.UsedAt.Std().Add(SessionIdleLife))
}

// A LoginLink signs its user in once. It does not include its secret.
type LoginLink struct {
	ID        LoginLinkID
	UserID    UserID
	TenantID  TenantID // of the user
	ExpiresAt Time
}
