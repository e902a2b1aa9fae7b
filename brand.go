package atrium

// A Brand is a brand of a tenant, under which pages are published.
type Brand struct {
	ID        BrandID
	TenantID  TenantID
	Name      string // 1 to MaxName code points, not unique
	CreatedAt Time
	UpdatedAt Time
}
