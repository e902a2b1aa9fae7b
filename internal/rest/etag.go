package rest

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"atrium"
)

// hashTag returns the entity tag of a body. It is the same on every node.
func hashTag(body []byte) string {
	return strconv.FormatUint(xxhash.Sum64(body), 36)
}

// noneMatch reports whether If-None-Match names the tag or is "*": the client has the current
// state. The comparison is weak (RFC 9110 section 13.1.2).
func noneMatch(header []string, tag string) bool {
	return matches(header, func(_ bool, t string) bool { return t == tag })
}

// CheckIfMatch returns an error with CodePreconditionFailed if the request has an If-Match
// header that is not "*" and has no tag for which same reports true. The comparison is strong
// (RFC 9110 section 13.1.1).
func (r *Request) CheckIfMatch(same func(tag string) bool) error {
	header := r.Header("If-Match")
	if len(header) == 0 || matches(header, func(weak bool, t string) bool { return !weak && same(t) }) {
		return nil
	}
	return atrium.Errorf(atrium.CodePreconditionFailed, "It has changed since the version that If-Match names.")
}

// matches reports whether match reports true for one of the tags in a header, or the header is
// "*". A malformed header matches nothing.
func matches(header []string, match func(weak bool, tag string) bool) bool {
	found := false
	for _, value := range header {
		rest := strings.Trim(value, " \t")
		if rest == "*" {
			found = true
			continue
		}
		for rest = strings.TrimLeft(rest, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
			unweak, weak := strings.CutPrefix(rest, "W/")
			quoted, opened := strings.CutPrefix(unweak, `"`)
			tag, after, closed := strings.Cut(quoted, `"`)
			rest = strings.TrimLeft(after, " \t")
			if !opened || !closed || rest != "" && rest[0] != ',' {
				return false
			}
			found = match(weak, tag) || found
		}
	}
	return found
}
