package rest

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"atrium"
)

// hashTag returns the entity tag of a body: the same bytes have the same tag on
// every node.
func hashTag(body []byte) string {
	return strconv.FormatUint(xxhash.Sum64(body), 36)
}

// noneMatch reports whether If-None-Match names the tag, or any: the client has
// the current state. Weak tags count (RFC 9110 section 13.1.2).
func noneMatch(header []string, tag string) bool {
	return matches(header, func(_ bool, t string) bool { return t == tag })
}

// CheckIfMatch returns an error of CodePreconditionFailed unless the request has
// no If-Match header, or one that names a tag which same takes for the current
// one, or any. Weak tags do not count (RFC 9110 section 13.1.1).
func (r *Request) CheckIfMatch(same func(tag string) bool) error {
	header := r.Header("If-Match")
	if len(header) == 0 || matches(header, func(weak bool, t string) bool { return !weak && same(t) }) {
		return nil
	}
	return atrium.Errorf(atrium.CodePreconditionFailed, "It was changed since the state that If-Match names.")
}

// matches reports whether one of the tags in a header is taken by match, or the
// header is "*". A header that is no list of tags matches nothing: what its sender
// meant is not known.
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
