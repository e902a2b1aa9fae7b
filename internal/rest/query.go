package rest

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"unicode/utf8"

	"atrium"
	"atrium/internal/strictjson"
)

// A Query decodes parameters of a query string and collects their faults. It ignores unknown
// parameters.
type Query struct {
	raw     string
	decoded []string // names of parameters
	faults  []atrium.Fault
}

// Query returns the query of the request. A handler calls it once.
func (r *Request) Query() *Query {
	r.query = &Query{raw: r.http.URL.RawQuery}
	return r.query
}

// Err returns an error that names every fault so far, or nil.
func (q *Query) Err() error {
	if len(q.faults) == 0 {
		return nil
	}
	return atrium.Invalid(q.faults...)
}

// Fault adds a fault of a parameter.
func (q *Query) Fault(name, detail string) {
	q.faults = append(q.faults, atrium.Fault{In: atrium.InQuery, Where: name, Detail: detail})
}

// Text decodes a parameter. It returns "" and false if it is missing. An empty, repeated, badly
// encoded or non-UTF-8 parameter is a fault.
func (q *Query) Text(name string) (string, bool) {
	if q.raw == "" {
		return "", false
	}
	q.decoded = append(q.decoded, name)
	value, count := "", 0
	for part := range strings.SplitSeq(q.raw, "&") {
		k, v, _ := strings.Cut(part, "=")
		if key, err := url.QueryUnescape(k); err == nil && key == name {
			value = v
			count++
		}
	}
	text, err := url.QueryUnescape(value)
	switch {
	case count == 0:
		return "", false
	case count > 1:
		q.Fault(name, "must not be repeated")
	case err != nil:
		q.Fault(name, "is not correctly percent-encoded")
	case text == "":
		q.Fault(name, "must not be empty")
	case !utf8.ValidString(text):
		q.Fault(name, "is not UTF-8")
	default:
		return text, true
	}
	return "", false
}

// Time decodes an instant. It returns nil if the parameter is missing.
func (q *Query) Time(name string) *atrium.Time {
	text, ok := q.Text(name)
	if !ok {
		return nil
	}
	t, err := atrium.ParseTime(text)
	if err != nil {
		q.Fault(name, err.Error())
		return nil
	}
	return &t
}

// The bounds of the parameter limit.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// Limit decodes the parameter limit: 1 to 100, 20 by default.
func (q *Query) Limit() int {
	text, ok := q.Text("limit")
	if !ok {
		return defaultLimit
	}
	n, ok := strictjson.Digits(text, maxLimit)
	if !ok || n < 1 {
		q.Fault("limit", fmt.Sprintf("must be a whole number from 1 to %d, in digits", maxLimit))
		return defaultLimit
	}
	return int(n)
}

// Page decodes the parameter page, 1 by default, and returns the number of items before it, with
// limit items per page. There is no maximum: a page that overflows is past the end.
func (q *Query) Page(limit int) (skip int64) {
	text, ok := q.Text("page")
	if !ok {
		return 0
	}
	digits := strings.TrimLeft(text, "0")
	if strings.Trim(text, "0123456789") != "" || digits == "" {
		q.Fault("page", "must be a whole number from 1, in digits")
		return 0
	}
	n, ok := strictjson.Digits(digits, math.MaxInt64/10/maxLimit)
	if !ok {
		return math.MaxInt64
	}
	return (n - 1) * int64(limit)
}
