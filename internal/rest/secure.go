package rest

import (
	"net/http"
	"strconv"
	"time"
)

// The headers that tell browsers to do nothing clever with an answer: not to guess what
// it is, to run nothing in it, not to show it in a frame or to another site, and not to
// tell others where they were. A page has a policy of its own. Each is shared by all
// answers and must not be written to.
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
	h[headerSniff], h[headerRefer], h[headerOrigin], h[headerPolicy] = noSniffing, noReferrer, sameOrigin, noneOfIt
	if hsts != nil {
		h[headerHSTS] = hsts
	}
}

// hsts returns the value of headerHSTS; nil for no time.
func hsts(age time.Duration) []string {
	if age == 0 {
		return nil
	}
	return []string{"max-age=" + strconv.FormatInt(int64(age/time.Second), 10)}
}
