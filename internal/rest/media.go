package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"atrium"
)

// acceptsJSON applies RFC 9110 section 12.5.1 to application/json: the most
// specific range that covers it decides, and a range that cannot be read says
// nothing.
func acceptsJSON(accept []string) bool {
	if len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json") {
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
			case "application/json":
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

// checkContentType takes a body that is JSON in UTF-8 without a content coding,
// or says nothing of its type.
func checkContentType(w http.ResponseWriter, r *http.Request) error {
	for _, coding := range r.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			w.Header().Set("Accept-Encoding", "identity") // RFC 9110 section 15.5.16
			return atrium.Errorf(atrium.CodeUnsupportedMediaType, "The body must have no content coding.")
		}
	}
	values := r.Header["Content-Type"]
	if len(values) == 0 || len(values) == 1 && (values[0] == "" || values[0] == "application/json") {
		return nil
	}
	if len(values) == 1 {
		media, params, err := mime.ParseMediaType(values[0])
		charset, given := params["charset"]
		if err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return atrium.Errorf(atrium.CodeUnsupportedMediaType, "The body must be application/json in UTF-8.")
}
