package rest

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// Limits limit requests. The zero Limits limit nothing.
type Limits struct {
	URL             int // maximum length of a request target, in bytes
	HeaderFields    int // maximum number in a request
	QueryParameters int // maximum number in a query
	Proxies         limit.Proxies
	Rates           *Rates

	// Bytes of request bodies, and of responses being sent.
	Bodies *limit.Quota[atrium.TenantID]

	// Of Bodies, those of requests that are verified by their bodies, by client, so that no client uses up the share of a tenant.
	UnverifiedBodies *limit.Quota[netip.Addr]

	// Held by every request whose body has arrived, except streams.
	InFlight *limit.Semaphore[atrium.TenantID]

	// Held by write transactions, except those of entries, which are queued. LargeChanges is
	// for those that read or write much.
	Changes, LargeChanges *limit.Semaphore[atrium.TenantID]

	// Held while a Document is sent, with a snapshot of the database open.
	Documents *limit.Semaphore[atrium.TenantID]

	// SnapshotsMustEnd reports that Documents older than snapshotAge must end, and that others must
	// wait. nil for never.
	SnapshotsMustEnd func() bool

	// Requests without a key, by client, and requests with a key for sites, by tenant. They hold these
	// instead of InFlight.
	Anonymous *limit.Semaphore[atrium.TenantID]
	Sites     *limit.Semaphore[atrium.TenantID]

	AnonymousRate *limit.Rates[netip.Addr] // of requests without a key, by client; see API.Anonymous

	// Held while a request uses more processor time than a small one.
	Heavy *limit.Semaphore[atrium.TenantID]

	// Held by reads of more than a few rows that are not heavy work, until their responses are encoded.
	MediumReads *limit.Semaphore[atrium.TenantID]

	// Held by requests that release Heavy for others before they have ended, and keep memory in the meantime.
	Pausing *limit.Semaphore[atrium.TenantID]
}

// Sizes in bytes above which a body is decoded, or a response encoded, as heavy work. Decoding a smaller
// body and computing its fingerprint takes at most half a millisecond, however it is nested, and so does
// encoding a smaller response.
const (
	heavyBody     = 4 << 10
	heavyResponse = 16 << 10
)

// checkHeaders checks the target and the headers of a request.
func (l *Limits) checkHeaders(r *http.Request) error {
	if l.URL > 0 && len(r.RequestURI) > l.URL {
		return atrium.Errorf(atrium.CodeURITooLong, "The request target may have at most %d bytes.", l.URL)
	}
	if l.QueryParameters > 0 && strings.Count(r.URL.RawQuery, "&") >= l.QueryParameters {
		return atrium.Errorf(atrium.CodeURITooLong,
			"The query may have at most %d parameters.", l.QueryParameters)
	}
	if l.HeaderFields == 0 {
		return nil
	}
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > l.HeaderFields {
		return atrium.Errorf(atrium.CodeHeaderTooLarge, "The request may have at most %d header fields.", l.HeaderFields)
	}
	return nil
}

// Rates limit the request rates of keys and tenants, and report them in response headers
// (draft-ietf-httpapi-ratelimit-headers-10). Nil Rates limit nothing.
type Rates struct {
	keys    *limit.Rates[atrium.KeyID]
	tenants *limit.Rates[atrium.TenantID]
	// The values of headerRatePolicy, shared by all responses: do not modify.
	forOperators, forTenants []string
}

// NewRates returns Rates of keys and tenants, either of which may be nil; nil if both are.
func NewRates(keys *limit.Rates[atrium.KeyID], tenants *limit.Rates[atrium.TenantID]) *Rates {
	if keys == nil && tenants == nil {
		return nil
	}
	r := &Rates{keys: keys, tenants: tenants}
	var policy []byte
	if keys != nil {
		count, window := keys.Policy()
		policy = item(policy, "key", 'q', count, 'w', seconds(window))
		r.forOperators = []string{string(policy)}
	}
	if tenants != nil {
		count, window := tenants.Policy()
		policy = item(policy, "tenant", 'q', count, 'w', seconds(window))
	}
	r.forTenants = []string{string(policy)}
	return r
}

// Header names in canonical form.
const (
	headerRatePolicy = "Ratelimit-Policy"
	headerRate       = "Ratelimit"
)

// rateSize is the length of most values of headerRate.
const rateSize = 64

// check counts a request of the caller and sets the headers of its response. A request that
// the rate of the tenant refuses does not count for the key.
func (r *Rates) check(who auth.Principal, w http.ResponseWriter) error {
	if r == nil {
		return nil
	}
	policy, refused, wait := r.forTenants, telemetry.Refusal(""), time.Duration(0)
	caller := who.KeyID
	if who.UserID != "" {
		caller = atrium.KeyID(who.UserID) // a user has the rate of a key
	} else if who.Receiver != "" {
		caller = atrium.KeyID(who.Receiver) // and so has a receiver
	}
	key, tenant := r.keys.Take(caller), limit.Budget{OK: true}
	ofTenant := who.TenantID != "" && r.tenants != nil // operators have no tenant
	if who.TenantID == "" {
		policy = r.forOperators
	}
	if !key.OK {
		refused, wait = telemetry.ByKeyRate, key.Wait
	} else if ofTenant {
		if tenant = r.tenants.Take(who.TenantID); !tenant.OK {
			refused, wait = telemetry.ByTenantRate, tenant.Wait
			r.keys.Return(caller)
			key.Left++
		}
	}
	left := make([]byte, 0, rateSize)
	if r.keys != nil {
		left = item(left, "key", 'r', key.Left, 't', seconds(key.Wait))
	}
	if key.OK && ofTenant {
		left = item(left, "tenant", 'r', tenant.Left, 't', seconds(tenant.Wait))
	}
	if len(left) > 0 {
		h := w.Header()
		h[headerRatePolicy], h[headerRate] = policy, []string{string(left)}
	}
	if refused == "" {
		return nil
	}
	exchangeOf(w).Refused = refused
	e := atrium.Errorf(atrium.CodeRateLimited, "%s. Try again after the time in Retry-After.", r.allowance(refused, who))
	e.Retry = wait
	return e
}

// allowance says which rate has refused a request of the caller, and what it allows.
func (r *Rates) allowance(refused telemetry.Refusal, who auth.Principal) string {
	subject := "This key"
	count, window := r.keys.Policy()
	switch {
	case refused == telemetry.ByTenantRate:
		subject = "All keys of this tenant together"
		count, window = r.tenants.Policy()
	case who.UserID != "":
		subject = "This user"
	case who.Receiver != "":
		subject = "This receiver"
	}
	unit := strconv.Itoa(seconds(window)) + " seconds"
	switch window {
	case time.Second:
		unit = "second"
	case time.Minute:
		unit = "minute"
	case time.Hour:
		unit = "hour"
	}
	return fmt.Sprintf("%s may send %s per %s", subject, atrium.Count(int64(count), "request", "requests"), unit)
}

// TakeRate counts a request to an open handler. It returns an error with the code atrium.CodeRateLimited if the caller or its
// tenant has sent too many.
func (l *Limits) TakeRate(w http.ResponseWriter, who auth.Principal) error {
	return l.Rates.check(who, w)
}

// checkKey is check for a key whose requests do not count for its tenant.
func (r *Rates) checkKey(who auth.Principal, w http.ResponseWriter) error {
	if r == nil || r.keys == nil {
		return nil
	}
	return r.check(auth.Principal{KeyID: who.KeyID}, w)
}

// item appends an item with two parameters to a list.
func item(list []byte, name string, first byte, a int, second byte, b int) []byte {
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	list = append(list, '"')
	list = append(list, name...)
	list = append(list, '"', ';', first, '=')
	list = strconv.AppendInt(list, int64(a), 10)
	list = append(list, ';', second, '=')
	return strconv.AppendInt(list, int64(b), 10)
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
