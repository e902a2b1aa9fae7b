package atrium

import (
	"slices"
	"strings"
)

// A Scope is a permission of a key.
type Scope string

// The scopes of the external API.
const (
	ScopeLogsWrite     Scope = "account_logs:write"
	ScopeAccountsRead  Scope = "accounts:read"
	ScopeAccountsWrite Scope = "accounts:write"
	ScopePagesRead     Scope = "pages:read"
)

// ScopeContentRead is the scope of the content API. A key with it has no other scope: pages that
// show content may contain the key.
const ScopeContentRead Scope = "content:read"

// The scopes of the management API. ScopeManage includes all others. Each scope for one
// kind of resource includes reading that kind.
const (
	ScopeManage         Scope = "manage"
	ScopeManageRead     Scope = "manage:read"
	ScopeManagePages    Scope = "manage:pages"
	ScopeManageAccounts Scope = "manage:accounts"
	ScopeManageKeys     Scope = "manage:keys"
	ScopeManageErase    Scope = "manage:erase"
	ScopeManageUsers    Scope = "manage:users"

	ScopeManageReceivers Scope = "manage:receivers"

	// ScopeManageEvents is only for keys that also have ScopeManageRead: events contain everything that it reads.
	ScopeManageEvents Scope = "manage:events"
)

// Scopes are the permissions of a key, sorted and without duplicates.
type Scopes []Scope

// ExternalScopes returns the scopes of the external API, which are the default of a new key.
func ExternalScopes() Scopes {
	return Scopes{ScopeLogsWrite, ScopeAccountsRead, ScopeAccountsWrite, ScopePagesRead}
}

// ManageScopes returns the scopes of the management API.
func ManageScopes() Scopes {
	return Scopes{ScopeManage, ScopeManageAccounts, ScopeManageErase, ScopeManageEvents, ScopeManageKeys, ScopeManagePages, ScopeManageRead, ScopeManageReceivers, ScopeManageUsers}
}

// AllScopes returns all scopes.
func AllScopes() Scopes {
	return slices.Concat(ExternalScopes(), Scopes{ScopeContentRead}, ManageScopes())
}

// Has reports whether s includes scope, directly or by ScopeManage.
func (s Scopes) Has(scope Scope) bool {
	return slices.Contains(s, scope) || slices.Contains(s, ScopeManage) && slices.Contains(ManageScopes(), scope)
}

// MayGrant reports whether a key with s may create a key with the given scopes: it may
// grant the scopes that it has, and those of the external and the content API.
func (s Scopes) MayGrant(given Scopes) bool {
	for _, scope := range given {
		if !s.Has(scope) && !ExternalScopes().Has(scope) && scope != ScopeContentRead {
			return false
		}
	}
	return true
}

// String returns the scopes separated by spaces. ParseScopes is its inverse.
func (s Scopes) String() string {
	words := make([]string, len(s))
	for i, scope := range s {
		words[i] = string(scope)
	}
	return strings.Join(words, " ")
}

// ParseScopes parses scopes separated by white space. It keeps unknown scopes, which a
// newer version of Atrium may have stored.
func ParseScopes(text string) Scopes {
	var s Scopes
	for word := range strings.FieldsSeq(text) {
		s = append(s, Scope(word))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// An APIKey authorizes its holder to act for one tenant, or an operator for any tenant,
// within its scopes, until it expires or is revoked. It does not include the secret.
type APIKey struct {
	ID             KeyID
	TenantID       TenantID // "" for an operator key
	Name           string   // 1 to MaxName code points, not unique
	Scopes         Scopes
	CreatedAt      Time
	ExpiresAt      *Time // the key is invalid from this instant on
	RevokedAt      *Time
	PreviousEndsAt *Time // the secret before the last rotation is invalid from this instant on
	LastUsedAt     *Time // to the minute; nil if it was never used

	// Origins are the sites whose pages may use the key in a browser (RFC 6454 section 6.1), only
	// with ScopeContentRead. Without any, the key does not work in a browser.
	Origins []string
}

// WorksAt reports whether the key is neither revoked nor expired at now.
func (k *APIKey) WorksAt(now Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now < *k.ExpiresAt)
}
