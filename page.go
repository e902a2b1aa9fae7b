package atrium

import "slices"

// A PageStatus is where a page is in its life.
type PageStatus string

// The states of a page.
const (
	PageArchived  PageStatus = "archived"
	PageDraft     PageStatus = "draft"
	PagePublished PageStatus = "published"
)

// PageStatuses are all of them, in the order of the contract.
func PageStatuses() []PageStatus { return []PageStatus{PageArchived, PageDraft, PagePublished} }

// Valid reports whether s is one of the states.
func (s PageStatus) Valid() bool { return slices.Contains(PageStatuses(), s) }

// A Page is a document of a brand, written for its audiences.
type Page struct {
	ID             PageID
	TenantID       TenantID
	BrandID        string // opaque, never empty
	Name           string
	Context        string // pageContext
	Title          string
	Status         PageStatus
	Actions        []byte  // a JSON array
	Scripts        []byte  // a JSON array
	FooterLinks    []byte  // a JSON array
	HeaderActionID *string // opaque
	Metadata       []byte  // any JSON value but null; nil for none
	AudiencesCount int64   // how many of its audiences are not archived
	CreatedAt      Time
	UpdatedAt      Time
	DeletedAt      *Time
}
