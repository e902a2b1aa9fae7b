package rest

import (
	"net/http"
	"strconv"
	"time"
)

// The headers that tell browsers to do nothing clever with an answer. Not to guess what it
// is: that holds for all. Where somebody looks at it: to run nothing in it, not to show it
// in a frame or to another site, and not to tell others where they were; a page has a
// policy of its own. Programs, who ask most, pay for none of that: with more than eight
// fields a header takes ten times as much memory. Each value is shared by all answers and
// must not be written to.
var (
	noSniffing   = []string{"nosniff"}
	noReferrer   = []string{"no-referrer"}
	sameOrigin   = []string{"same-origin"}
	noneOfIt     = []string{"default-src 'none'; frame-ancestors 'none'"}
	headerSniff  = "X-Content-Type-Options"
	headerRefer  = "Referrer-Policy"
	headerOrigin = "Cross-Origin-Resource-Policy"
	headerPolicy = "Content-Security-Policy"
)

// headerHSTS is of RFC 6797, section 6.1, and is for answers over TLS alone (7.2).
const headerHSTS = "Strict-Transport-Security"

// secure sets the headers that every answer has. hsts is nil for none.
func secure(h http.Header, hsts []string) {
	h[headerSniff] = noSniffing
	if hsts != nil {
		h[headerHSTS] = hsts
	}
}

// shown sets the headers of what people look at in a browser.
func shown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h[headerRefer], h[headerOrigin], h[headerPolicy] = noReferrer, sameOrigin, noneOfIt
		next.ServeHTTP(w, r)
	})
}

// hsts returns the value of headerHSTS; nil for no time.
func hsts(age time.Duration) []string {
	if age == 0 {
		return nil
	}
	return []string{"max-age=" + strconv.FormatInt(int64(age/time.Second), 10)}
}
