package atrium

import (
	"slices"
	"strings"
)

// A GroupMapping gives the members of a group of an identity provider a role: in a tenant, or as operators.
type GroupMapping struct {
	ID        GroupMappingID
	TenantID  TenantID // "" for operators
	Issuer    string   // the provider, as its tokens name it
	Group     string   // as the provider sends it
	Role      Role
	CreatedAt Time
}

// Limits of groups.
const (
	MaxIssuer        = 255  // bytes of an issuer
	MaxSubject       = 255  // bytes of a subject (OpenID Connect Core, section 2)
	MaxGroup         = 255  // code points of a group
	MaxGroups        = 1000 // of a person
	MaxGroupMappings = 100  // of a tenant, and of operators
	MaxMemberships   = 20   // tenants to choose from at a sign-in
)

// CheckIssuer returns the detail of a Fault, or "" if s can be an issuer: an http or https URL without a query
// or fragment (OpenID Connect Discovery, section 3).
func CheckIssuer(s string) string {
	after, ok := strings.CutPrefix(s, "https://")
	if !ok {
		after, ok = strings.CutPrefix(s, "http://")
	}
	other := func(r rune) bool { return r <= ' ' || r > '~' || r == '?' || r == '#' }
	if !ok || after == "" || len(s) > MaxIssuer || strings.ContainsFunc(after, other) {
		return "must be an http or https URL without a query and a fragment, at most 255 characters long"
	}
	return ""
}

// A Person is someone whom an identity provider has authenticated. The issuer and the subject identify the
// person, never a name or an email address.
type Person struct {
	Issuer  string
	Subject string
	Name    string   // 1 to MaxName code points
	Groups  []string // at most MaxGroups
}

// rolesByRank are the roles from highest to lowest: if the groups of a person map to several, the highest applies.
var rolesByRank = []Role{RoleOperator, RoleAdmin, RoleEditor, RoleSupport, RoleViewer}

// Memberships returns the mapping with the highest role for each tenant, sorted by tenant, for a person who is in all
// of the groups. It leaves out roles that this release does not know. It reorders and reuses the slice.
func Memberships(mappings []GroupMapping) []GroupMapping {
	rank := func(m GroupMapping) int { return slices.Index(rolesByRank, m.Role) }
	mappings = slices.DeleteFunc(mappings, func(m GroupMapping) bool { return rank(m) < 0 })
	slices.SortFunc(mappings, func(a, b GroupMapping) int {
		switch {
		case a.TenantID < b.TenantID:
			return -1
		case a.TenantID > b.TenantID:
			return 1
		}
		return rank(a) - rank(b)
	})
	return slices.CompactFunc(mappings, func(a, b GroupMapping) bool { return a.TenantID == b.TenantID })
}
