package atrium

// A Tenant owns accounts, prospects, entries, pages and keys. Tenants share no data.
type Tenant struct {
	ID        TenantID
	Name      string // 1 to MaxName code points, not unique
	CreatedAt Time
}
