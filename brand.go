package atrium

// A Brand is what pages are published under.
type Brand struct {
	ID        BrandID
	TenantID  TenantID
	Name      string // 1 to MaxName code points, not unique
	CreatedAt Time
	UpdatedAt Time
}
