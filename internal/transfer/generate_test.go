package transfer_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"atrium"
)

// This file generates random tenants as the lines of their export, and in equivalent forms
// that other programs may write.

// A line is one line of an export, by members.
type line struct {
	place   string // sort key of the lines of an export
	members []member
}

type member struct{ name, value string }

func (l *line) add(name, value string) { l.members = append(l.members, member{name, value}) }

// exported returns the line as in an export.
func (l *line) exported() string {
	parts := make([]string, len(l.members))
	for i, m := range l.members {
		parts[i] = quote(m.name) + ":" + m.value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// written returns an equivalent line: with members and sets in any order, white space
// between tokens, and times with any offset.
func (l *line) written(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\t ", "\r"}).Draw(t, "space") }
	var parts []string
	for _, m := range rapid.Permutation(l.members).Draw(t, "members") {
		value := m.value
		if strings.HasSuffix(m.name, "At") {
			value = inSomeZone(t, value)
		}
		if m.name == "accountIds" && value != "[]" { // a set
			ids := strings.Split(strings.Trim(value, "[]"), ",")
			value = "[" + strings.Join(append(rapid.Permutation(ids).Draw(t, "ids"), ids[0]), ",") + "]"
		}
		if rapid.IntRange(0, 3).Draw(t, "spread") == 0 {
			value = spread(value, space())
		}
		parts = append(parts, space()+quote(m.name)+space()+":"+space()+value+space())
	}
	return space() + "{" + strings.Join(parts, ",") + "}" + space()
}

// spread adds white space around every token of a value.
func spread(value, space string) string {
	var b strings.Builder
	inString, escaped := false, false
	for _, c := range value {
		outside := !inString && strings.ContainsRune("{}[]:,", c)
		if outside {
			b.WriteString(space)
		}
		b.WriteRune(c)
		if outside {
			b.WriteString(space)
		}
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		}
	}
	return b.String()
}

// inSomeZone formats an exported instant with another offset, and with digits after the
// milliseconds.
func inSomeZone(t *rapid.T, value string) string {
	at, err := time.Parse(`"`+time.RFC3339Nano+`"`, value)
	if err != nil || at.Year() < 2 || at.Year() > 9997 {
		return value
	}
	minutes := rapid.SampledFrom([]int{0, 60, -60, 330, -720, 840, 1}).Draw(t, "offset")
	at = at.Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "nanoseconds")))
	return quote(at.In(time.FixedZone("", minutes*60)).Format("2006-01-02T15:04:05.000000000Z07:00"))
}

func quote(s string) string {
	b, _ := jsontext.AppendQuote(nil, s) // only of valid UTF-8
	return string(b)
}

func text(t *rapid.T, least, most int) string {
	runes := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("aZ09 _%'\"\\/<>&\t\u2028\ufeff\u0301\u202e😀")))
	return rapid.StringOfN(runes.Filter(func(r rune) bool { return r != 0 }), least, most, -1).Draw(t, "text")
}

// jsonText draws a JSON string in any valid encoding.
func jsonText(t *rapid.T) string {
	pieces := rapid.SampledFrom([]string{`a`, `é`, `\u00e9`, `\u00E9`, `\u0000`, `\/`, `/`, `\n`, `\"`, `\\`, `\ud83d\ude00`, `😀`, `\u2028`, "\u2028", `<`, ` `})
	return `"` + strings.Join(rapid.SliceOfN(pieces, 0, 4).Draw(t, "pieces"), "") + `"`
}

// jsonValue draws a JSON value without white space between tokens.
func jsonValue(t *rapid.T, depth int) string {
	kinds := []string{"number", "number", "text", "literal"}
	if depth > 0 {
		kinds = append(kinds, "object", "array")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "number":
		return rapid.OneOf(
			rapid.SampledFrom([]string{"1.50", "1E400", "-0", "1e-999999999", "0.10", "1234567890123456789012345678901234567890", "-0.0E+00"}),
			rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`),
		).Draw(t, "number")
	case "text":
		return jsonText(t)
	case "literal":
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
	case "object":
		return jsonObject(t, depth)
	default:
		return jsonArray(t, depth)
	}
}

func jsonArray(t *rapid.T, depth int) string {
	var parts []string
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		parts = append(parts, jsonValue(t, depth-1))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func jsonObject(t *rapid.T, depth int) string {
	var parts []string
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		name := jsonText(t)
		name = fmt.Sprintf(`%s%d"`, name[:len(name)-1], 9-i) // no duplicate names
		parts = append(parts, name+":"+jsonValue(t, depth-1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func instant(t *rapid.T) string {
	ms := rapid.OneOf(rapid.Int64Range(-62167219200000, 253402300799999), rapid.Int64Range(1.7e12, 1.8e12)).Draw(t, "instant")
	return quote(atrium.Time(ms * 1000).String())
}

// identifiers draws distinct identifiers of one kind, sorted.
func identifiers(t *rapid.T, prefix string, most int) []string {
	suffix := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789abcdefghijklmnopqrstuvwxyz")), 26, 26, -1)
	ids := rapid.SliceOfNDistinct(suffix, 0, most, rapid.ID).Draw(t, prefix)
	slices.Sort(ids)
	for i := range ids {
		ids[i] = prefix + ids[i]
	}
	return ids
}

// maybe calls add for about half of all draws.
func maybe(t *rapid.T, what string, add func()) {
	if rapid.Bool().Draw(t, what) {
		add()
	}
}

// tenantLines draws all data of a tenant, in the order of an export.
func tenantLines(t *rapid.T) []*line {
	var all []*line
	begin := func(kind, idName, id string) *line {
		l := &line{place: fmt.Sprintf("%d %s", slices.Index(kinds, kind), id)}
		l.add("kind", quote(kind))
		l.add(idName, quote(id))
		all = append(all, l)
		return l
	}
	accounts := identifiers(t, "account_", 3)
	for i, id := range accounts {
		l := begin("account", "accountId", id)
		l.add("domain", quote(rapid.SampledFrom([]string{"a%d.example", "not a host %d", "xn--bcher-kva%d.example", "%d", "https://ab--cd.example/%d", "www.ab--cd%d.example"}).Draw(t, "domain")))
		l.members[2].value = strings.Replace(l.members[2].value, "%d", strconv.Itoa(i), 1)
		maybe(t, "named", func() { l.add("name", quote(text(t, 1, 255))) })
		l.add("createdAt", instant(t))
		l.add("updatedAt", instant(t))
	}
	mergesOf(t, accounts, begin)
	for _, id := range identifiers(t, "prospect_", 3) {
		l := begin("prospect", "prospectId", id)
		for _, name := range []string{"name", "email", "domain", "slug", "phoneNumber", "linkedinProfileUrl"} {
			maybe(t, name, func() { l.add(name, quote(text(t, 0, 20))) })
		}
		linked := slices.DeleteFunc(slices.Clone(accounts), func(string) bool { return rapid.Bool().Draw(t, "linked") })
		for i := range linked {
			linked[i] = quote(linked[i])
		}
		l.add("accountIds", "["+strings.Join(linked, ",")+"]")
		l.add("createdAt", instant(t))
		l.add("updatedAt", instant(t))
	}
	for _, id := range identifiers(t, "brand_", 2) {
		l := begin("brand", "brandId", id)
		l.add("name", quote(text(t, 1, 255)))
		l.add("createdAt", instant(t))
		l.add("updatedAt", instant(t))
	}
	pages := identifiers(t, "page_", 2)
	for _, id := range pages {
		l := begin("page", "pageId", id)
		l.add("brandId", quote(text(t, 1, 20)))
		l.add("name", quote(text(t, 0, 20)))
		l.add("pageContext", quote(text(t, 0, 20)))
		l.add("title", quote(text(t, 0, 20)))
		l.add("status", quote(rapid.SampledFrom([]string{"archived", "draft", "published"}).Draw(t, "status")))
		l.add("actions", jsonArray(t, 2))
		l.add("scripts", jsonArray(t, 2))
		l.add("footerLinks", jsonArray(t, 2))
		maybe(t, "header", func() { l.add("headerActionId", quote(text(t, 0, 20))) })
		maybe(t, "metadata", func() {
			if v := jsonValue(t, 2); v != "null" {
				l.add("metadata", v)
			}
		})
		maybe(t, "public", func() { l.add("public", "true") })
		maybe(t, "max age", func() {
			l.add("maxAgeSeconds", strconv.FormatInt(rapid.SampledFrom([]int64{0, 1, atrium.MaxMaxAge}).Draw(t, "max age"), 10))
		})
		l.add("createdAt", instant(t))
		l.add("updatedAt", instant(t))
		maybe(t, "deleted", func() { l.add("deletedAt", instant(t)) })
		maybe(t, "publish", func() { l.add("publishAt", quote("2026-03-02T09:14:07.321Z")) })
		maybe(t, "unpublish", func() { l.add("unpublishAt", quote("2026-03-02T09:14:07.322Z")) })
	}
	versionsOfPages(t, pages, begin)
	entriesOf(t, accounts, begin)
	slices.SortStableFunc(all, func(a, b *line) int { return cmp.Compare(a.place, b.place) })
	return all
}

var kinds = []string{"account", "merge", "prospect", "brand", "page", "audience", "audienceVersion", "tombstone", "accountLog"}

// mergesOf draws merges of accounts, in any direction.
func mergesOf(t *rapid.T, accounts []string, begin func(kind, idName, id string) *line) {
	into := map[string]string{}
	order := rapid.Permutation(accounts).Draw(t, "order")
	for i := 1; i < len(order); i++ {
		maybe(t, "merged", func() { into[order[i]] = rapid.SampledFrom(order[:i]).Draw(t, "into") })
	}
	for _, id := range accounts {
		if into[id] == "" {
			continue
		}
		l := begin("merge", "accountId", id)
		l.add("into", quote(into[id]))
		end := id
		for into[end] != "" {
			end = into[end]
		}
		l.place = "2 " + end + " " + id
	}
}

func versionsOfPages(t *rapid.T, pages []string, begin func(kind, idName, id string) *line) {
	if len(pages) == 0 {
		return
	}
	audiences := identifiers(t, "audience_", 2)
	pageOf := map[string]string{}
	for _, id := range audiences {
		l := begin("audience", "audienceId", id)
		pageOf[id] = rapid.SampledFrom(pages).Draw(t, "page")
		l.add("pageId", quote(pageOf[id]))
		l.add("name", quote(text(t, 0, 20)))
		l.add("archived", strconv.FormatBool(rapid.Bool().Draw(t, "archived")))
		l.add("createdAt", instant(t))
		l.add("updatedAt", instant(t))
	}
	if len(audiences) == 0 {
		return
	}
	shown := map[string]bool{}
	for i, id := range identifiers(t, "version_", 4) {
		audience := rapid.SampledFrom(audiences).Draw(t, "audience")
		number := rapid.SampledFrom([]int64{1, 100, atrium.MaxVersionNumber - 10}).Draw(t, "number") + int64(i)
		l := begin("audienceVersion", "id", id)
		l.place = fmt.Sprintf("6 %s %016d", audience, number)
		l.add("pageId", quote(pageOf[audience]))
		l.add("audienceId", quote(audience))
		l.add("versionNumber", strconv.FormatInt(number, 10))
		archived := rapid.Bool().Draw(t, "archived")
		l.add("archived", strconv.FormatBool(archived))
		if !archived && !shown[audience] && rapid.Bool().Draw(t, "published") {
			shown[audience] = true
			l.add("published", "true")
		}
		maybe(t, "note", func() { l.add("note", quote(text(t, 1, 1000))) })
		maybe(t, "content", func() { l.add("content", jsonValue(t, 3)) })
		l.add("createdAt", instant(t))
	}
}

func entriesOf(t *rapid.T, accounts []string, begin func(kind, idName, id string) *line) {
	if len(accounts) == 0 {
		return
	}
	for i, id := range identifiers(t, "prospectlog_", 4) {
		if rapid.IntRange(0, 3).Draw(t, "erased") == 0 {
			tombstoneOf(t, i, begin("tombstone", "accountLogId", id))
			continue
		}
		l := begin("accountLog", "accountLogId", id)
		l.add("accountId", quote(rapid.SampledFrom(accounts).Draw(t, "account")))
		l.add("source", quote(text(t, 1, 100)))
		l.add("type", quote(text(t, 1, 100)))
		l.add("payload", jsonObject(t, 4))
		maybe(t, "keyed", func() {
			l.add("idempotencyKey", quote(text(t, 0, 254)+strconv.Itoa(i)))
			maybe(t, "identified by key", func() { l.add("identifiedByKey", "true") })
		})
		maybe(t, "claimed", func() {
			c := &line{}
			maybe(t, "by identifier", func() { c.add("accountId", quote("account_"+strings.Repeat("7", 26))) })
			maybe(t, "by domain", func() { c.add("domain", quote(" WWW."+text(t, 1, 20)+".x")) })
			maybe(t, "by name", func() { c.add("name", quote(text(t, 1, 255))) })
			if len(c.members) > 0 {
				l.add("claimed", c.exported())
			}
		})
		maybe(t, "occurred", func() { l.add("occurredAt", instant(t)) })
		maybe(t, "moved", func() { l.add("acknowledgedAccountId", quote("account_"+strings.Repeat("7", 26))) })
		l.add("createdAt", instant(t))
	}
}

// tombstoneOf draws the tombstone of an erased entry.
func tombstoneOf(t *rapid.T, i int, l *line) {
	l.add("accountId", quote("account_"+strings.Repeat("7", 26)))
	l.add("source", quote(text(t, 1, 100)))
	l.add("type", quote(text(t, 1, 100)))
	maybe(t, "keyed", func() {
		l.add("secret", quote(hmacs+rapid.SampledFrom([]string{"A=", "Q="}).Draw(t, "secret")))
		l.add("keyHmac", quote(hmacs+[]string{"A=", "E=", "I=", "M="}[i]))
		l.add("requestHmac", quote(hmacs+"A="))
	})
	maybe(t, "expires", func() { l.add("expiresAt", instant(t)) })
	l.add("createdAt", instant(t))
}
