package rest

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"atrium/internal/strictjson"
)

// headerIgnored names the members and parameters of a request that had no effect, in responses of
// routes with Route.ReportIgnored. It is in canonical form.
const headerIgnored = "Atrium-Ignored"

// Limits of the header, which contains names that the client has chosen.
const (
	maxIgnoredNames = 10
	maxIgnoredName  = 64 // bytes of an encoded name, without ignoredMore
)

// ignoredMore stands for the rest of a name, and for further names.
const ignoredMore = "..."

// ignoredFields are members and parameters of a request that had no effect.
type ignoredFields struct {
	names []string // the first maxIgnoredNames different ones
	more  bool     // there are other names
	count int      // with repetitions
}

func (f *ignoredFields) add(name string) {
	switch f.count++; {
	case slices.Contains(f.names, name):
	case len(f.names) == maxIgnoredNames:
		f.more = true
	default:
		f.names = append(f.names, name)
	}
}

// IgnoreUnknown notes the members of the body that no method of o has decoded: they have no effect.
func (r *Request) IgnoreUnknown(o *strictjson.Object) {
	count, names := o.Unknown(maxIgnoredNames)
	r.ignored = ignoredFields{names, count > len(names), count}
}

// reportIgnored sets the header, unless everything in the request had an effect. The parameters that
// the handler has not asked for have none.
func (r *Request) reportIgnored() {
	if raw := r.http.URL.RawQuery; raw != "" {
		for part := range strings.SplitSeq(raw, "&") {
			if name, ignored := r.query.ignores(part); ignored {
				r.ignored.add(name)
			}
		}
	}
	if r.ignored.count > 0 {
		r.writer.Header()[headerIgnored] = []string{r.ignored.header()}
		exchangeOf(r.writer).IgnoredFields = r.ignored.count
	}
}

// ignores returns the name of a part of the query that no method has decoded. q is nil if the
// operation has no parameters.
func (q *Query) ignores(part string) (name string, ignored bool) {
	name, _, _ = strings.Cut(part, "=")
	if part == "" || q != nil && slices.Contains(q.decoded, name) {
		return "", false
	}
	if unescaped, err := url.QueryUnescape(name); err == nil {
		name = unescaped
	}
	return name, q == nil || !slices.Contains(q.decoded, name)
}

// header returns the names, separated by commas. Names can be any text: all bytes are
// percent-encoded except those that are safe in a list and in a log. The empty name is "".
func (f *ignoredFields) header() string {
	var b []byte
	for i, name := range f.names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendIgnored(b, name)
	}
	if f.more {
		b = append(b, ", "+ignoredMore...)
	}
	return string(b)
}

func appendIgnored(b []byte, name string) []byte {
	if name == "" {
		return append(b, `""`...)
	}
	start := len(b)
	for len(name) > 0 {
		_, size := utf8.DecodeRuneInString(name) // whole characters, so that a shortened name can be decoded
		before := len(b)
		for _, c := range []byte(name[:size]) {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~$", c) >= 0 {
				b = append(b, c)
				continue
			}
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
		if len(b)-start > maxIgnoredName {
			return append(b[:before], ignoredMore...)
		}
		name = name[size:]
	}
	return b
}
