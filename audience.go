package atrium

// An Audience is a group of readers that a page is written for.
type Audience struct {
	ID        AudienceID
	TenantID  TenantID
	PageID    PageID
	Name      string // may be empty
	Archived  bool
	CreatedAt Time
	UpdatedAt Time

	PublishedNumber int64 // of the version that is published; 0 for none
	VersionsCount   int64
}

// MaxVersionNumber is the highest number that a version can have: the highest
// that every reader of JSON takes exactly (RFC 8259 section 6).
const MaxVersionNumber = 1<<53 - 1

// A Version is one immutable state of an audience.
type Version struct {
	ID         VersionID
	TenantID   TenantID
	AudienceID AudienceID
	Number     int64 // 1 to MaxVersionNumber, unique in its audience, newest highest
	Archived   bool
	Content    []byte // any JSON value; nil for none
	Note       string // up to MaxNote code points; "" for none
	CreatedAt  Time
}

// An AudienceVersion is a version with the page of its audience, and whether it is the
// one that the audience shows.
type AudienceVersion struct {
	Version
	PageID    PageID
	Published bool
}

// A PublishedVersion is a version, and whether it is the one that is published.
type PublishedVersion struct {
	Version
	Published bool
}
