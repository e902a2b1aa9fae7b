package atrium

import (
	"fmt"
	"slices"
)

// A PageStatus is a state in the lifecycle of a page.
type PageStatus string

// The states of a page.
const (
	PageArchived  PageStatus = "archived"
	PageDraft     PageStatus = "draft"
	PagePublished PageStatus = "published"
)

// PageStatuses returns all states, in the order of the API documents.
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
	Public         bool    // the published content needs no key
	MaxAge         int64   // seconds for which caches may keep public content, 0 to MaxMaxAge
	AudiencesCount int64   // without archived audiences
	CreatedAt      Time
	UpdatedAt      Time
	DeletedAt      *Time
}

// The default and the maximum of Page.MaxAge, in seconds.
const (
	DefaultMaxAge = 60
	MaxMaxAge     = 24 * 60 * 60
)

// MaxPageSize is the maximum Size of a page. Only an import from the command line can
// create larger ones.
const MaxPageSize = 1 << 20

// PageTooLarge returns the fault of a request or line that would create a page of this Size.
func PageTooLarge(size int) Fault {
	return Fault{In: InBody, Detail: fmt.Sprintf("would give the page %d bytes of texts and documents, of which it may have %d", size, MaxPageSize)}
}

// Size returns the size in bytes of the texts and documents of a page, encoded as JSON.
func (p *Page) Size() int {
	size := len(p.BrandID) + len(p.Actions) + len(p.Scripts) + len(p.FooterLinks) + len(p.Metadata)
	texts := []string{p.Name, p.Title, p.Context}
	if p.HeaderActionID != nil {
		texts = append(texts, *p.HeaderActionID)
	}
	for _, text := range texts {
		size += len(text)
		for _, c := range []byte(text) { // escape sequences (RFC 8259 section 7)
			switch {
			case c == '"', c == '\\', c >= '\b' && c <= '\r' && c != '\v':
				size++
			case c < ' ':
				size += len(`\u0000`) - 1
			}
		}
	}
	return size
}

// A PageTransition is a change of status by an operator or a schedule.
type PageTransition string

// The transitions.
const (
	PagePublish   PageTransition = "publish"
	PageUnpublish PageTransition = "unpublish"
	PageArchive   PageTransition = "archive"
	PageRestore   PageTransition = "restore"
)

// Transitions returns the transitions that are allowed in state s, with their target states.
func (s PageStatus) Transitions() map[PageTransition]PageStatus {
	switch s {
	case PageDraft:
		return map[PageTransition]PageStatus{PagePublish: PagePublished, PageArchive: PageArchived}
	case PagePublished:
		return map[PageTransition]PageStatus{PageUnpublish: PageDraft, PageArchive: PageArchived}
	case PageArchived:
		return map[PageTransition]PageStatus{PageRestore: PageDraft}
	}
	return nil
}

// A PageEdit is a change to a page. Nil fields remain unchanged.
type PageEdit struct {
	BrandID        *BrandID
	Name           *string // 1 to MaxName code points
	Context        *string
	Title          *string
	Actions        []byte  // a JSON array
	Scripts        []byte  // a JSON array
	FooterLinks    []byte  // a JSON array
	HeaderActionID *string // "" removes it
	Metadata       []byte  // any JSON value; null removes it
	Public         *bool
	MaxAge         *int64
}

// Apply applies the edit to p.
func (e *PageEdit) Apply(p *Page) {
	if e.BrandID != nil {
		p.BrandID = string(*e.BrandID)
	}
	for _, text := range []struct{ from, to *string }{{e.Name, &p.Name}, {e.Context, &p.Context}, {e.Title, &p.Title}} {
		if text.from != nil {
			*text.to = *text.from
		}
	}
	for _, array := range []struct {
		from []byte
		to   *[]byte
	}{{e.Actions, &p.Actions}, {e.Scripts, &p.Scripts}, {e.FooterLinks, &p.FooterLinks}, {e.Metadata, &p.Metadata}} {
		if array.from != nil {
			*array.to = array.from
		}
	}
	if e.HeaderActionID != nil {
		p.HeaderActionID = e.HeaderActionID
		if *e.HeaderActionID == "" {
			p.HeaderActionID = nil
		}
	}
	if string(e.Metadata) == "null" {
		p.Metadata = nil
	}
	if e.Public != nil {
		p.Public = *e.Public
	}
	if e.MaxAge != nil {
		p.MaxAge = *e.MaxAge
	}
}

// A Schedule sets when a page is published and unpublished automatically.
type Schedule struct {
	PublishAt   *Time // nil for never
	UnpublishAt *Time // after PublishAt; nil for never
}

// A ScheduledPage is a page with its schedule.
type ScheduledPage struct {
	Page
	Schedule Schedule
}

// A PageFilter selects the pages that match all of its fields. Status and BrandID match
// every page if they are empty.
type PageFilter struct {
	Status  PageStatus
	BrandID BrandID
	Deleted bool // select deleted pages instead of existing ones
}
