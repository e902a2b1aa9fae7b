package atrium

// A Tenant owns accounts, prospects, entries, pages and keys, and shares none
// of them.
type Tenant struct {
	ID        TenantID
	Name      string // 1 to MaxName code points, not unique
	CreatedAt Time
}
