package atrium

// An Audience is a group of readers of a page.
type Audience struct {
	ID        AudienceID
	TenantID  TenantID
	PageID    PageID
	Name      string // may be empty
	Archived  bool
	CreatedAt Time
	UpdatedAt Time

	PublishedNumber int64 // the number of the published version; 0 for none
	VersionsCount   int64
}

// MaxVersionNumber is the maximum Number of a version: the largest integer that every
// JSON parser represents exactly (RFC 8259 section 6).
const MaxVersionNumber = 1<<53 - 1

// A Version is an immutable version of the content of an audience.
type Version struct {
	ID         VersionID
	TenantID   TenantID
	AudienceID AudienceID
	Number     int64 // 1 to MaxVersionNumber; increases within an audience
	Archived   bool
	Content    []byte // any JSON value; nil for none
	Note       string // up to MaxNote code points; "" for none
	CreatedAt  Time
}

// An AudienceVersion is a version with the page of its audience. Published reports whether
// it is the published version of the audience.
type AudienceVersion struct {
	Version
	PageID    PageID
	Published bool
}

// A PublishedVersion is a version with its publication state.
type PublishedVersion struct {
	Version
	Published bool
}
