package rest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// Operations for sites: browsers call them from pages of other origins (the CORS protocol of the Fetch
// standard, https://fetch.spec.whatwg.org/#http-cors-protocol). The path names the tenant.
//
// A request without a key may read what is public. One with a key may read what its tenant has
// published, from the origins of the key. Credentials such as cookies are never used, so any site may
// read what needs no key.

// Header names in canonical form, and values that responses share: do not modify.
const (
	headerAllowOrigin   = "Access-Control-Allow-Origin"
	headerExposeHeaders = "Access-Control-Expose-Headers"
	headerVary          = "Vary"
)

var (
	anyOrigin    = []string{"*"}
	varyOrigin   = []string{"Origin"}
	exposed      = []string{"ETag, Retry-After, X-Request-Id"}
	siteMethods  = []string{"GET, HEAD, OPTIONS"}
	siteHeaders  = []string{"x-api-key, if-none-match, x-request-id"}
	preflightAge = []string{"7200"} // seconds: the maximum of Chromium; Firefox allows more
)

// preflight answers whether a browser may send a request: always, as a preflight has no key. The
// response to the request itself decides whether a page may read it.
func preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Allow"], h["Access-Control-Allow-Methods"], h[headerAllowOrigin] = siteMethods, siteMethods, anyOrigin
	h["Access-Control-Allow-Headers"], h["Access-Control-Max-Age"] = siteHeaders, preflightAge
	w.WriteHeader(http.StatusNoContent)
}

// handleSite is handle for a route with ForSites, whose pattern has {tenant_id}. The Principal has that
// tenant, and no KeyID without a key. Then the response must be public, or permitted by a token (see
// UseToken); any other looks like a resource that does not exist.
func (a *API) handleSite(
	route Route, reads *recentReads, held *memory, w http.ResponseWriter, r *http.Request,
) (response Response, err error) {
	ctx, h, exchange := r.Context(), w.Header(), exchangeOf(w)
	h[headerAllowOrigin], h[headerExposeHeaders] = anyOrigin, exposed
	defer func() {
		if len(r.Header[headerKey]) == 0 && atrium.CodeOf(err) == atrium.CodeNotFound {
			err = atrium.Errorf(atrium.CodeNotFound,
				"Nothing public is published here. What is not public needs a key with the scope content:read.")
		}
	}()
	who, slots, err := a.identifySite(ctx, route, w, r)
	if err != nil {
		return Response{}, err
	}
	if !accepts(r.Header["Accept"], route.Produces) {
		return Response{}, notAcceptable(route)
	}
	held.tenant = quotaKey(who)
	request := &Request{http: r, id: exchange.RequestID, log: a.Log, requestLimits: requestLimits{
		limits: &a.Limits, writer: w, memory: held, tenant: held.tenant,
	}}
	client := held.tenant
	if who.KeyID == "" {
		client = atrium.TenantID(limit.Network(exchange.Client).String())
	}
	if err := admit(ctx, w, slots, client); err != nil {
		return Response{}, err
	}
	defer slots.Release(client)
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	release, err := request.admitRead(ctx, reads.expected(who.TenantID))
	if err != nil {
		return Response{}, err
	}
	defer release()
	response, err = route.Handle(ctx, who, request)
	if request.token && atrium.CodeOf(err) == atrium.CodeRateLimited {
		exchange.Refused = telemetry.ByAuthFailures
	}
	if err == nil && who.KeyID == "" && response.MaxAge == nil && !request.token {
		err = atrium.NotFound()
	}
	if err != nil {
		return Response{}, err
	}
	body, err := Encode(response.Body)
	response.Body, response.reader = body, held.tenant
	reads.record(who.TenantID, len(body), response.Rows) // of the tenant, not the client: the next one may be another client's
	return response, err
}

// identifySite returns the principal of a request for a site, and the semaphore that it is subject to.
// It checks the key, its origins and its scope, and the rates.
func (a *API) identifySite(ctx context.Context, route Route, w http.ResponseWriter, r *http.Request) (
	who auth.Principal, slots *limit.Semaphore[atrium.TenantID], err error,
) {
	tenant, ok := atrium.ParseID[atrium.TenantID](r.PathValue("tenant_id"))
	if len(r.Header[headerKey]) == 0 {
		if err := a.countAnonymous(w); err != nil {
			return who, nil, err
		}
		if !ok {
			err = atrium.NotFound()
		}
		return auth.Principal{TenantID: tenant}, a.Limits.Anonymous, err
	}
	h := w.Header()
	h[headerVary] = varyOrigin
	if who, err = a.authenticate(ctx, w, r); err != nil {
		return who, nil, err
	}
	// Any site may read why the request is refused. The reason reveals nothing about the content, and only
	// clients that have the key get this far.
	origins := r.Header["Origin"]
	allowed := len(origins) == 1 && slices.Contains(who.Origins, origins[0])
	if allowed {
		h[headerAllowOrigin] = origins
	}
	if err := a.Limits.Rates.checkKey(who, w); err != nil {
		return who, nil, err
	}
	if err := authorize(route, who); err != nil {
		return who, nil, err
	}
	if len(origins) > 0 && !allowed {
		return who, nil, atrium.Errorf(atrium.CodeForbidden, "The key does not allow this origin.")
	}
	if !allowed {
		delete(h, headerAllowOrigin)
	}
	if who.TenantID != tenant {
		return who, nil, atrium.NotFound()
	}
	return who, a.Limits.Sites, nil
}

// CountAnonymous is countAnonymous for an open handler. uncount is for a request that turns out to be verified.
func (a *API) CountAnonymous(w http.ResponseWriter) (uncount func(), err error) {
	return func() { a.Limits.AnonymousRate.Return(limit.Network(exchangeOf(w).Client)) }, a.countAnonymous(w)
}

// countAnonymous counts a request without a key. It returns an error if its client has sent too many.
func (a *API) countAnonymous(w http.ResponseWriter) error {
	b := a.Limits.AnonymousRate.Take(limit.Network(exchangeOf(w).Client))
	if b.OK {
		return nil
	}
	exchangeOf(w).Refused = telemetry.ByAnonymousRate
	e := atrium.Errorf(atrium.CodeRateLimited, "This address has sent too many requests without a key.")
	e.Retry = b.Wait
	return e
}

// anonymousBytes is how many bytes of a response to a request without a key count as another request.
const anonymousBytes = 64 << 10

// countResponse counts a large response to a request without a key.
func (a *API) countResponse(w http.ResponseWriter) {
	x := exchangeOf(w)
	a.Limits.AnonymousRate.Add(limit.Network(x.Client), x.Bytes/anonymousBytes)
}

// Anonymous returns a handler that serves requests without a key up to the rate of each client.
func (a *API) Anonymous(h http.Handler) http.Handler {
	return a.AnonymousExcept(Visitors{
		Known:  func(*http.Request) bool { return false },
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) { writeProblem(w, r, a.Log, err) },
	}, h)
}

// Visitors are the callers of a handler that identifies users itself.
type Visitors struct {
	// Known reports whether to serve a request although its client has sent too many: it probably is a user's. It does not
	// read the store.
	Known func(*http.Request) bool

	// Refuse sends the response to another request whose client has sent too many.
	Refuse func(http.ResponseWriter, *http.Request, error)
}

// AnonymousExcept is Anonymous for visitors. Requests that h identifies as a user's do not count, and those above the rate that
// are served do not make others wait longer.
func (a *API) AnonymousExcept(v Visitors, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.countAnonymous(w)
		if err != nil && !v.Known(r) {
			v.Refuse(w, r, err)
			return
		}
		if err != nil {
			exchangeOf(w).Refused = ""
		}
		h.ServeHTTP(w, r)
		switch {
		case err != nil:
		case exchangeOf(w).UserID != "":
			a.Limits.AnonymousRate.Return(limit.Network(exchangeOf(w).Client))
		default:
			a.countResponse(w)
		}
	})
}

// quotaKey returns the key under which a request for a site counts toward heavy work and memory, instead
// of its tenant, so that visitors do not use up the share of the tenant's other clients. All visitors
// without a key share one, because a client can have many addresses and visit many sites.
func quotaKey(who auth.Principal) atrium.TenantID {
	if who.KeyID == "" {
		return "visitors"
	}
	return sitesOf + who.TenantID
}

const (
	sitesOf      = "sites of "
	receiversOf  = "receivers of "
	deliveriesOf = "deliveries of "
)

// QuotaOfReceivers returns the key under which requests to the receivers of a tenant count toward heavy work and memory until
// they are verified, instead of their tenant: everyone who knows an address can send them.
func QuotaOfReceivers(tenant atrium.TenantID) atrium.TenantID { return receiversOf + tenant }

// HeavyGroup returns the group of a key of Limits.Heavy: requests for the sites of a tenant, and to its receivers, and its
// deliveries have their own queues, but count toward the slots of their tenant.
func HeavyGroup(key atrium.TenantID) atrium.TenantID {
	for _, prefix := range []string{sitesOf, receiversOf, deliveriesOf} {
		if tenant, ok := strings.CutPrefix(string(key), prefix); ok {
			return atrium.TenantID(tenant)
		}
	}
	return key
}

// AcquireDelivery waits until the deliveries of a tenant may do heavy work, as requests do. The caller releases it.
func (l *Limits) AcquireDelivery(ctx context.Context, tenant atrium.TenantID) (release func(), err error) {
	key := deliveriesOf + tenant
	if err := l.Heavy.Acquire(ctx, key); err != nil {
		return nil, err
	}
	return func() { l.Heavy.Release(key) }, nil
}

// publish sets the headers of a public response.
func publish(h http.Header, maxAge time.Duration) {
	h[headerCache] = []string{"public, max-age=" + strconv.FormatInt(int64(maxAge/time.Second), 10)}
	h[headerAllowOrigin] = anyOrigin
	delete(h, headerVary)
	delete(h, headerRate) // of one key
	delete(h, headerRatePolicy)
}

// UseToken says that the request has a token that permits it. No cache may store the response, even an
// error. A browser that shows it does not send its address, which has the token, to other sites. Call
// UseToken before the token is verified.
func (r *Request) UseToken() {
	r.token = true
	h := r.writer.Header()
	h[headerCache], h[headerRefer] = noStore, noReferrer
}
