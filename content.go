package atrium

import (
	"regexp"
	"strings"
)

// A Content is what sites show of a published page: nothing that is a draft, archived or meant for
// operators only.
type Content struct {
	PageID         PageID
	BrandID        string
	Title          string
	Actions        []byte  // a JSON array
	Scripts        []byte  // a JSON array
	FooterLinks    []byte  // a JSON array
	HeaderActionID *string // opaque
	Public         bool
	MaxAge         int64 // seconds
	Audiences      []AudienceContent
	More           bool // not all published audiences are in Audiences
}

// MaxContentAudiences is the maximum number of audiences in a Content.
const MaxContentAudiences = 100

// An AudienceContent is the published version of an audience.
type AudienceContent struct {
	AudienceID AudienceID
	VersionID  VersionID
	Number     int64
	CreatedAt  Time   // of the version
	Content    []byte // any JSON value; nil for none
	Public     bool   // of the page
	MaxAge     int64  // of the page, in seconds
}

// A Preview lets the holder of its token read one version of an audience as if it was published. It
// does not include the token.
type Preview struct {
	ID         PreviewID
	TenantID   TenantID
	PageID     PageID
	AudienceID AudienceID
	Number     int64 // of the version
	CreatedAt  Time
	ExpiresAt  Time // the token is invalid from this instant on
}

// MaxPreviews is the maximum number of previews of a page that have not expired.
const MaxPreviews = 20

// MaxOrigins is the maximum number of APIKey.Origins.
const MaxOrigins = 20

// originPattern matches the origins that browsers send for sites (RFC 6454 section 6.1), and those
// with a default port. api/manage.yaml has the same pattern.
var originPattern = regexp.MustCompile(`^https?://(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$`)

const maxOriginLength = 267 // of https://, a host name, and a port

// ParseOrigin returns an origin as browsers send it: without a default port.
func ParseOrigin(text string) (origin string, ok bool) {
	if len(text) > maxOriginLength || !originPattern.MatchString(text) {
		return "", false
	}
	if strings.HasPrefix(text, "https:") {
		return strings.TrimSuffix(text, ":443"), true
	}
	return strings.TrimSuffix(text, ":80"), true
}
