package atrium

// A Tenant owns accounts, prospects, entries, pages and keys. Tenants share no data.
type Tenant struct {
	ID        TenantID
	Name      string // 1 to MaxName code points, not unique
	CreatedAt Time
	Deletion  *TenantDeletion // nil unless the tenant is being deleted
}

// A TenantDeletion is the progress of deleting a tenant.
type TenantDeletion struct {
	RequestedAt Time
	Rows        int64 // deleted so far, in all tables
	Entries     int64 // deleted so far
}
