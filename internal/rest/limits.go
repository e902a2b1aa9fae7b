package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// Limits are what holds callers back. The zero Limits hold back nobody.
type Limits struct {
	URL             int // how long the target of a request may be, in bytes
	HeaderFields    int // how many a request may have
	QueryParameters int // how many a query may have
	Proxies         limit.Proxies
	Rates           *Rates
	Bodies          *limit.Quota[atrium.TenantID]      // bytes of memory for bodies that come or are worked on, and for answers that are sent
	InFlight        *limit.Semaphore[atrium.TenantID] // held by every request that has arrived whole; streams do not count
	Changes         *limit.Semaphore[atrium.TenantID] // held by transactions that change something, apart from entries, which have a queue
	LargeChanges    *limit.Semaphore[atrium.TenantID] // held by those that read or write much, instead of Changes
	Documents       *limit.Semaphore[atrium.TenantID] // held while a Document is sent, which keeps a snapshot of the database open
	Heavy           *limit.Semaphore[atrium.TenantID] // held while a request takes more of the processor than a small one does
}

// heavyBody is the size in bytes above which a body is decoded as heavy work. Below it,
// decoding takes half a millisecond at most, whatever the body holds.
const heavyBody = 16 << 10

// checkHead holds what a request says of itself against the limits.
func (l *Limits) checkHead(r *http.Request) error {
	if l.URL > 0 && len(r.RequestURI) > l.URL {
		return atrium.Errorf(atrium.CodeURITooLong, "The target of the request may have %d bytes at most.", l.URL)
	}
	if l.QueryParameters > 0 && strings.Count(r.URL.RawQuery, "&") >= l.QueryParameters {
		return atrium.Errorf(atrium.CodeURITooLong, "The query of the request may have %d parameters at most.", l.QueryParameters)
	}
	if l.HeaderFields == 0 {
		return nil
	}
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > l.HeaderFields {
		return atrium.Errorf(atrium.CodeHeaderTooLarge, "The request may have %d header fields at most.", l.HeaderFields)
	}
	return nil
}

// Rates hold keys and tenants to their rates, and say so in answers
// (draft-ietf-httpapi-ratelimit-headers-10). Nil Rates hold nobody to any.
type Rates struct {
	keys    *limit.Rates[atrium.KeyID]
	tenants *limit.Rates[atrium.TenantID]
	// The values of headerRatePolicy, shared by all answers: they must not be written to.
	forOperators, forTenants []string
}

// NewRates returns Rates of keys and of tenants. Either may be nil, and with both there are
// none.
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

// The fields in the form that http.Header has them in.
const (
	headerRatePolicy = "Ratelimit-Policy"
	headerRate       = "Ratelimit"
)

// rateSize is more than most values of headerRate have.
const rateSize = 64

// check counts a request of the caller, and has its answer say what is left. What the rate
// of the tenant refuses does not count for the key.
func (r *Rates) check(who auth.Principal, w http.ResponseWriter) error {
	if r == nil {
		return nil
	}
	policy, refused, wait := r.forTenants, telemetry.Refusal(""), time.Duration(0)
	key, tenant := r.keys.Take(who.KeyID), limit.Budget{OK: true}
	ofTenant := who.TenantID != "" && r.tenants != nil // an operator's key has none of its own
	if who.TenantID == "" {
		policy = r.forOperators
	}
	if !key.OK {
		refused, wait = telemetry.ByKeyRate, key.Wait
	} else if ofTenant {
		if tenant = r.tenants.Take(who.TenantID); !tenant.OK {
			refused, wait = telemetry.ByTenantRate, tenant.Wait
			r.keys.Return(who.KeyID)
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
	note(w).Refused = refused
	e := atrium.Errorf(atrium.CodeRateLimited, "There were too many requests. Try again after the time in Retry-After.")
	e.Retry = wait
	return e
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

// seconds returns a time in whole seconds, none of which is too early.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// AdmitCheck waits for what a check of an account with many prospects needs: a snapshot of
// the database and a processor. yield lets other tenants have the processor for a moment.
// The code of its errors is atrium.CodeUnavailable.
func (l *Limits) AdmitCheck(ctx context.Context, tenant atrium.TenantID) (yield func() error, release func(), err error) {
	if err := l.Documents.Acquire(ctx, tenant); err != nil {
		return nil, nil, atrium.Unavailable(err)
	}
	work := heavyWork{ctx: ctx, places: l.Heavy, tenant: tenant}
	yield = func() error {
		work.pause()
		return work.resume()
	}
	release = func() {
		work.pause()
		l.Documents.Release(tenant)
	}
	if err := work.resume(); err != nil {
		release()
		return nil, nil, err
	}
	return yield, release, nil
}
