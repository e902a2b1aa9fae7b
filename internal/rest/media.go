package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"atrium"
)

// maxMediaHeader is the maximum number of bytes of a header with media types that is parsed. Browsers send
// about 150 bytes in Accept. Parsing thousands of ranges or parameters takes longer than most requests.
const maxMediaHeader = 1 << 10

// tooLong reports whether a header has more than maxMediaHeader bytes.
func tooLong(header []string) bool {
	bytes := 0
	for _, value := range header {
		bytes += len(value)
	}
	return bytes > maxMediaHeader
}

// accepts reports whether an Accept header accepts a media type (RFC 9110 section 12.5.1): the
// most specific range that covers it decides. Malformed ranges are ignored, and a header that is too
// long is disregarded, which that section allows.
func accepts(accept []string, form Media) bool {
	if len(accept) == 1 && (accept[0] == "*/*" || accept[0] == form.String()) || tooLong(accept) {
		return true
	}
	best, accepted := -1, true
	for _, value := range accept {
		for part := range strings.SplitSeq(value, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			specific := -1
			switch media {
			case form.String():
				specific = 2
			case "application/*":
				specific = 1
			case "*/*":
				specific = 0
			}
			if specific > best {
				q, err := strconv.ParseFloat(params["q"], 64)
				best, accepted = specific, err != nil || q > 0
			} else if best < 0 {
				accepted = false
			}
		}
	}
	return accepted
}

// prefersHTML reports whether an Accept header names text/html, as those of browsers do, and does not
// prefer JSON to it.
func prefersHTML(accept []string) bool {
	if tooLong(accept) {
		return false
	}
	html, json := 0.0, 0.0
	for _, value := range accept {
		for part := range strings.SplitSeq(value, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			if err != nil {
				q = 1
			}
			switch media {
			case "text/html":
				html = q
			case JSON.String():
				json = q
			}
		}
	}
	return html > 0 && html >= json
}

func notAcceptable(route Route) error {
	return atrium.Errorf(atrium.CodeNotAcceptable,
		"The response is %s, which the Accept header does not allow.", route.Produces)
}

// checkContentType returns nil for a body of the media type in UTF-8 without a content coding,
// or without a Content-Type.
func checkContentType(w http.ResponseWriter, r *http.Request, form Media) error {
	for _, coding := range r.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			w.Header().Set("Accept-Encoding", "identity") // RFC 9110 section 15.5.16
			return atrium.Errorf(atrium.CodeUnsupportedMediaType, "The body must not have a content coding.")
		}
	}
	values := r.Header["Content-Type"]
	if len(values) == 0 || len(values) == 1 && (values[0] == "" || values[0] == form.String()) {
		return nil
	}
	if len(values) == 1 && !tooLong(values) {
		media, params, err := mime.ParseMediaType(values[0])
		charset, given := params["charset"]
		if err == nil && media == form.String() && (!given || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return atrium.Errorf(atrium.CodeUnsupportedMediaType, "The body must be %s in UTF-8.", form)
}
