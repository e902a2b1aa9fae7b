package atrium

// UnattributedDomain is the domain of the account that takes a tenant's
// entries that name no account. The top-level domain is reserved (RFC 2606
// section 2), so no organisation can have it.
const UnattributedDomain = "unattributed.invalid"

// An Account is an organisation, unique in its tenant by its canonical domain.
type Account struct {
	ID               AccountID
	TenantID         TenantID
	Domain           string // canonical, never empty
	Name             string // "" if it has none
	CreatedAt        Time
	UpdatedAt        Time  // when its own fields last changed; entries do not count
	LatestActivityAt *Time // when its newest entry was recorded
}

// A Prospect is a person linked to any number of accounts. Each of its texts
// is nil when unknown, and may be empty when it was given so.
type Prospect struct {
	ID                 ProspectID
	TenantID           TenantID
	Name               *string
	Email              *string
	Domain             *string
	Slug               *string
	PhoneNumber        *string
	LinkedinProfileURL *string
	CreatedAt          Time
	UpdatedAt          Time
}
