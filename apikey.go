package atrium

import (
	"slices"
	"strings"
)

// A Scope is one thing that a key may be allowed to do.
type Scope string

// The scopes of the external API.
const (
	ScopeLogsWrite     Scope = "account_logs:write"
	ScopeAccountsRead  Scope = "accounts:read"
	ScopeAccountsWrite Scope = "accounts:write"
	ScopePagesRead     Scope = "pages:read"
)

// The scopes of the management API. ScopeManage includes the others, and those
// that name what they are for include reading it.
const (
	ScopeManage         Scope = "manage"
	ScopeManageRead     Scope = "manage:read"
	ScopeManagePages    Scope = "manage:pages"
	ScopeManageAccounts Scope = "manage:accounts"
	ScopeManageKeys     Scope = "manage:keys"
)

// Scopes is what one key may do: sorted, each once.
type Scopes []Scope

// ExternalScopes are the scopes of the external API, which a key has unless it
// was made with others.
func ExternalScopes() Scopes {
	return Scopes{ScopeLogsWrite, ScopeAccountsRead, ScopeAccountsWrite, ScopePagesRead}
}

// ManageScopes are the scopes of the management API.
func ManageScopes() Scopes {
	return Scopes{ScopeManage, ScopeManageAccounts, ScopeManageKeys, ScopeManagePages, ScopeManageRead}
}

// AllScopes are all that there are.
func AllScopes() Scopes { return append(ExternalScopes(), ManageScopes()...) }

// Has reports whether s allows what scope names.
func (s Scopes) Has(scope Scope) bool {
	return slices.Contains(s, scope) || slices.Contains(s, ScopeManage) && slices.Contains(ManageScopes(), scope)
}

// MayGrant reports whether the holder of s may make a key with the given scopes:
// those that it has itself, and those of the external API.
func (s Scopes) MayGrant(given Scopes) bool {
	for _, scope := range given {
		if !s.Has(scope) && !ExternalScopes().Has(scope) {
			return false
		}
	}
	return true
}

// String returns the scopes with a space between them, the form ParseScopes
// reads.
func (s Scopes) String() string {
	words := make([]string, len(s))
	for i, scope := range s {
		words[i] = string(scope)
	}
	return strings.Join(words, " ")
}

// ParseScopes reads scopes with white space between them. Unknown ones are
// kept: a newer Atrium may have written them.
func ParseScopes(text string) Scopes {
	var s Scopes
	for word := range strings.FieldsSeq(text) {
		s = append(s, Scope(word))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// An APIKey lets its holder act for one tenant, or an operator for any, within its
// scopes, until it expires or is revoked. The secret is never part of it.
type APIKey struct {
	ID             KeyID
	TenantID       TenantID // "" for an operator's
	Name           string   // 1 to MaxName code points, not unique
	Scopes         Scopes
	CreatedAt      Time
	ExpiresAt      *Time // the first instant at which it no longer works
	RevokedAt      *Time
	PreviousEndsAt *Time // the first instant at which the secret before the last rotation no longer works
	LastUsedAt     *Time // to the minute; nil if it never was
}

// WorksAt reports whether the key is neither revoked nor expired at now.
func (k *APIKey) WorksAt(now Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now < *k.ExpiresAt)
}
