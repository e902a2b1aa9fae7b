package console

import (
	"html/template"
	"strconv"
	"strings"
	"time"
)

// showTime shows an instant of the API, which a script changes to the zone of the browser.
func showTime(text string) template.HTML { return timeElement(text, "", "2 Jan 2006, 15:04 UTC") }

// showMoment shows an instant with its seconds.
func showMoment(text string) template.HTML {
	return timeElement(text, ` data-shown="second"`, "2 Jan 2006, 15:04:05 UTC")
}

// timeElement returns the element of an instant with attributes and a layout, which are constants.
func timeElement(text, attributes, layout string) template.HTML {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `" title="` + at.Format(exactTime) + `"` + attributes + `>` + //nolint:gosec // has digits and constants only
		at.Format(layout) + `</time>`)
}

// showDate shows the day of an instant, in UTC.
func showDate(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("Monday, 2 January 2006")
}

// showClock shows the time of day of an instant under a heading with its day. A script groups instants by
// the days of the browser's zone.
func showClock(text string) template.HTML {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `" title="` + at.Format(exactTime) + `" data-shown="clock">` + //nolint:gosec // has digits and constants only
		at.Format("15:04 UTC") + `</time>`)
}

// exactTime is the format of an exact instant for people.
const exactTime = "2006-01-02 15:04:05.000 UTC"

// showBytes shows a number of bytes.
func showBytes(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// labels are the titles of the fields of forms, by the members that the API names.
var labels = map[string]string{
	"name": "Name", "title": "Title", "domain": "Domain", "role": "Role", "scopes": "Scopes", "expiresInSeconds": "Last day",
	"email": "Email", "phoneNumber": "Phone", "slug": "Slug", "linkedinProfileUrl": "LinkedIn",
	"claimedName": "Name in the entry", "claimedDomain": "Domain in the entry", "publishAt": "Publish at", "unpublishAt": "Unpublish at", "content": "Content", "group": "Group", "issuer": "Identity provider", "origins": "Sites", "accountId": "Account",
	"url": "URL", "eventTypes": "Types", "sources": "Sources", "entryTypes": "Types of entries", "filter": "Condition", "rateLimit": "Rate", "headers": "Headers",
	"q": "The search", "since": "From", "until": "Until", "rate": "Rate", "provider": "Provider", "source": "Source", "secret": "Secret",
	"rule": "The search", "rule/text": "Email address or other text", "rule/textContains": "Part of a text", "rule/prospectEmail": "Email address of a prospect",
	"rule/claimedName": "Name in the entry", "rule/claimedDomain": "Domain in the entry", "rule/source": "Source", "rule/type": "Type",
	"rule/payload/pointer": "Field of the payload", "rule/payload/equals": "Value of the field",
	"mapping/type": "Type", "mapping/domain": "Domain of the account", "mapping/email": "Email address", "mapping/name": "Name of the account",
	"mapping/accountId": "ID of the account", "mapping/occurredAt": "Time", "mapping/eventId": "ID of the event", "mapping/filter": "Condition",
	"verification": "Verification", "verification/header": "Header", "verification/algorithm": "Algorithm", "verification/encoding": "Encoding",
	"verification/prefix": "Prefix", "verification/content": "What is signed", "verification/timestampHeader": "Header with the time",
	"verification/idHeader": "Header with the ID", "verification/tolerance": "Tolerance", "verification/username": "User name",
}

// label returns the title of the field that a fault is about, or the name of what is not in a form.
func label(where string) string {
	if title := labels[strings.TrimPrefix(where, "/")]; title != "" {
		return title
	}
	return where
}

// minute returns an instant of the API as the value of an input field, in UTC.
func minute(text string) string {
	const format = "2006-01-02T15:04"
	return text[:min(len(format), len(text))]
}

// showCount shows a number with separators of thousands.
func showCount(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
