package rest

import (
	"context"
	"errors"
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
	KeyRate         *limit.Rates[atrium.KeyID]
	TenantRate      *limit.Rates[atrium.TenantID]
	Bodies          *limit.Pool[atrium.TenantID] // bytes of memory for bodies that come or are worked on, and for answers that are sent
	Work            *limit.Gate                  // what has come passes through it; what is streamed does not
}

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

// checkRates counts a request of the caller, and has its answer say what is left
// (draft-ietf-httpapi-ratelimit-headers-10).
func (l *Limits) checkRates(who auth.Principal, w http.ResponseWriter) error {
	if l.KeyRate == nil && l.TenantRate == nil {
		return nil
	}
	fields := rateFields{make([]byte, 0, rateFieldSize), make([]byte, 0, rateFieldSize)}
	err := rated(&fields, l.KeyRate, who.KeyID, "key")
	by := telemetry.ByKeyRate
	if err == nil && who.TenantID != "" { // an operator's key has none of its own
		err, by = rated(&fields, l.TenantRate, who.TenantID, "tenant"), telemetry.ByTenantRate
	}
	if len(fields.policy) > 0 {
		h := w.Header()
		h[headerRatePolicy], h[headerRate] = []string{string(fields.policy)}, []string{string(fields.left)}
	}
	if err != nil {
		note(w).Refused = by
	}
	return err
}

// The fields in the form that http.Header has them in.
const (
	headerRatePolicy = "Ratelimit-Policy"
	headerRate       = "Ratelimit"
)

// rateFieldSize is more than most values have.
const rateFieldSize = 64

// rateFields are the values of two header fields, each a list of structured items (RFC
// 9651).
type rateFields struct{ policy, left []byte }

func rated[K comparable](fields *rateFields, rates *limit.Rates[K], who K, name string) error {
	if rates == nil {
		return nil
	}
	count, window := rates.Policy()
	b := rates.Take(who)
	fields.policy = item(fields.policy, name, 'q', count, 'w', seconds(window))
	fields.left = item(fields.left, name, 'r', b.Left, 't', seconds(b.Wait))
	if b.OK {
		return nil
	}
	e := atrium.Errorf(atrium.CodeRateLimited, "There were too many requests. Try again after the time in Retry-After.")
	e.Retry = b.Wait
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

// enter waits for the turn of a request, which then leaves l.Work when it is done.
func (l *Limits) enter(ctx context.Context, w http.ResponseWriter) error {
	if err := l.Work.Enter(ctx); err != nil {
		if errors.Is(err, limit.ErrBusy) {
			note(w).Refused = telemetry.ByOverload
		}
		return atrium.Unavailable(err)
	}
	return nil
}
