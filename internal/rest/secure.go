package rest

import (
	"net/http"
	"strconv"
	"time"
)

// Security headers. Every response has noSniffing. Responses that browsers show also forbid
// scripts, frames, use by other sites, and referrers; a page has its own policy. API
// responses do without them: with more than eight fields, an http.Header takes ten times as much
// memory. All responses share the values: do not modify.
var (
	noSniffing   = []string{"nosniff"}
	noReferrer   = []string{"no-referrer"}
	sameOrigin   = []string{"same-origin"}
	denyAll      = []string{"default-src 'none'; frame-ancestors 'none'"}
	headerSniff  = "X-Content-Type-Options"
	headerRefer  = "Referrer-Policy"
	headerOrigin = "Cross-Origin-Resource-Policy"
	headerPolicy = "Content-Security-Policy"
)

// headerHSTS is only for responses over TLS (RFC 6797, sections 6.1 and 7.2).
const headerHSTS = "Strict-Transport-Security"

// secure sets the security headers of every response. hsts is nil for none.
func secure(h http.Header, hsts []string) {
	h[headerSniff] = noSniffing
	if hsts != nil {
		h[headerHSTS] = hsts
	}
}

// browserHeaders sets the headers of responses that browsers show.
func browserHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h[headerRefer], h[headerOrigin], h[headerPolicy] = noReferrer, sameOrigin, denyAll
		next.ServeHTTP(w, r)
	})
}

// hsts returns the value of headerHSTS; nil if age is 0.
func hsts(age time.Duration) []string {
	if age == 0 {
		return nil
	}
	return []string{"max-age=" + strconv.FormatInt(int64(age/time.Second), 10)}
}
