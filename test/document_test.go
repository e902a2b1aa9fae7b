package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"atrium/api"
	"atrium/api/apitest"
	"atrium/internal/strictjson"
)

// A document is one of the OpenAPI documents, ready to validate exchanges. The mutex
// guards it.
type document struct {
	sync.Mutex
	validator validator.Validator
	problem   *jsonschema.Schema
}

var (
	external = sync.OnceValues(func() (*document, error) { return newDocument(api.External) })
	managed  = sync.OnceValues(func() (*document, error) { return newDocument(api.Manage) })
	content  = sync.OnceValues(func() (*document, error) { return newDocument(api.Content) })
	received = sync.OnceValues(func() (*document, error) { return newDocument(api.Receive) })
)

// documentOf returns the document that a target belongs to.
func documentOf(target string) (*document, error) {
	switch {
	case isManaged(target) || target == "/docs/manage":
		return managed()
	case isContent(target) || target == "/docs/content":
		return content()
	case isReceived(target) || target == "/docs/receive":
		return received()
	}
	return external()
}

// isReceived reports whether a target is the address of a receiver.
func isReceived(target string) bool { return strings.HasPrefix(target, "/in/") }

// isContent reports whether a target belongs to the content API.
func isContent(target string) bool { return strings.HasPrefix(target, "/content/") }

// isManaged reports whether a target belongs to the management API, and isStreamed whether
// it consumes or produces a stream of lines.
func isStreamed(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return slices.Contains([]string{"/manage/v0/import", "/manage/v0/export", "/manage/v0/audit/export", "/manage/v0/persons/export"}, path)
}

func isManaged(target string) bool { return strings.HasPrefix(target, "/manage/") }

func newDocument(d api.Document) (*document, error) {
	text, err := apitest.Strict(d.JSON())
	if err != nil {
		return nil, err
	}
	parsed, err := libopenapi.NewDocument(text)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(parsed)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	tree, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///openapi.json", tree); err != nil {
		return nil, err
	}
	problem, err := c.Compile("mem:///openapi.json#/components/schemas/Problem")
	return &document{validator: v, problem: problem}, err
}

// statuses are the expected statuses, by error code.
var statuses = map[string]int{
	"invalid_request": 400, "unauthenticated": 401, "unverified": 401, "forbidden": 403, "not_found": 404, "method_not_allowed": 405,
	"not_acceptable": 406, "conflict": 409, "gone": 410, "precondition_failed": 412, "payload_too_large": 413, "unsupported_media_type": 415,
	"idempotency_key_reused": 422, "precondition_required": 428, "unavailable": 503,
	"uri_too_long": 414, "rate_limited": 429, "header_too_large": 431,
}

// checkExchange checks a response against the rules that hold for all of them, and against
// the OpenAPI document of its API.
func checkExchange(t *testing.T, r request, a response) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if id := a.header.Get("X-Request-Id"); len(id) < 1 || len(id) > 128 || strings.Trim(id, visible) != "" {
		fault("X-Request-Id is %q", id)
	}
	forSites := strings.HasPrefix(r.target, "/content/v0/") && a.header.Get("Access-Control-Expose-Headers") != ""
	if c := a.header.Values("Cache-Control"); !slices.Equal(c, []string{"private, no-cache"}) && !forSites && r.method != http.MethodOptions {
		fault("Cache-Control is %q", c)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") && !forSites && (!isContent(r.target) || r.method != http.MethodOptions) || name == "Location" {
			fault("header %s is there", name)
		}
	}
	if forSites {
		faults = append(faults, checkSite(r, a)...)
	}
	streamed := isStreamed(r.target) && a.status < 400
	bare := r.method == http.MethodHead || a.status == http.StatusNotModified || a.status == http.StatusNoContent
	switch {
	case a.status >= 300 && a.status != http.StatusNotModified && a.status < 400:
		fault("status %d sends the client elsewhere", a.status)
	case bare && len(a.body) > 0:
		fault("the response has a body of %d bytes", len(a.body))
	case !bare && !streamed && len(a.body) == 0:
		fault("the response has no body")
	}
	if length, err := strconv.Atoi(a.header.Get("Content-Length")); !bare && !streamed && (err != nil || length != len(a.body)) {
		fault("Content-Length is %q for %d bytes", a.header.Get("Content-Length"), len(a.body))
	}
	for _, name := range []string{"Content-Type", "Content-Length"} {
		if a.status == http.StatusNoContent && a.header.Get(name) != "" {
			fault("header %s describes a body that is not there", name)
		}
	}
	path, _, _ := strings.Cut(r.target, "?")
	report := r.method == http.MethodPost && a.header.Get("ETag") == "" // a report of an action, not the state of a resource
	if tag := a.header.Get("ETag"); !strings.HasSuffix(path, "z") && !report && !streamed && (a.status == 200 || a.status == 304) && !kinds["tag"].MatchString(tag) {
		fault("ETag is %q", tag)
	}
	d, err := documentOf(r.target)
	if err != nil {
		t.Fatal(err)
	}
	d.Lock()
	defer d.Unlock()
	if a.status >= 400 && !bare {
		faults = append(faults, d.checkProblem(a)...)
	}
	return append(faults, d.checkByDocument(r, a)...)
}

// checkSite checks the rules for responses of the content API: what anyone may cache, anyone may read; a
// response for one origin says so; and what a token shows is not stored.
func checkSite(r request, a response) (faults []string) {
	public := strings.HasPrefix(a.header.Get("Cache-Control"), "public, max-age=")
	origin := a.header.Get("Access-Control-Allow-Origin")
	keyed := r.has("x-api-key")
	switch {
	case public && (origin != "*" || a.status != 200 && a.status != 304 || a.header.Get("Vary") != ""):
		faults = append(faults, fmt.Sprintf("a %d is public with %v", a.status, a.header))
	case !public && keyed && a.header.Get("Vary") != "Origin":
		faults = append(faults, fmt.Sprintf("the response to a key has Vary: %q", a.header.Get("Vary")))
	case !keyed && origin != "*":
		faults = append(faults, fmt.Sprintf("without a key, the allowed origin is %q", origin))
	case strings.Contains(r.target, "preview=a") != (a.header.Get("Cache-Control") == "no-store"),
		strings.Contains(r.target, "preview=a") != (a.header.Get("Referrer-Policy") == "no-referrer"):
		if a.status != http.StatusUnauthorized || !keyed { // an invalid key is refused first
			faults = append(faults, fmt.Sprintf("the response to a token has %v", a.header))
		}
	}
	return faults
}

// visible are the characters of a request ID.
var visible = func() string {
	var b []byte
	for c := byte('!'); c <= '~'; c++ {
		b = append(b, c)
	}
	return string(b)
}()

func (d *document) checkProblem(a response) (faults []string) {
	if media := a.header.Get("Content-Type"); media != "application/problem+json" {
		return []string{fmt.Sprintf("an error is %q: %s", media, clip(string(a.body)))}
	}
	var p struct {
		Type, Code, RequestID string
		Status                int
		Errors                []any
	}
	tree, err := readJSON(a.body)
	if err := errors.Join(err, json.Unmarshal(a.body, &p)); err != nil {
		return []string{err.Error()}
	}
	if err := d.problem.Validate(tree); err != nil {
		faults = append(faults, err.Error())
	}
	if p.Status != a.status || statuses[p.Code] != a.status || p.Type != "/errors/"+p.Code || p.RequestID != a.header.Get("X-Request-Id") {
		faults = append(faults, fmt.Sprintf("the problem contradicts its response, a %d with X-Request-Id %q: %s",
			a.status, a.header.Get("X-Request-Id"), a.body))
	}
	if invalid := p.Code == "invalid_request"; invalid != (len(p.Errors) > 0) {
		faults = append(faults, fmt.Sprintf("a response with the code %s names %d faults", p.Code, len(p.Errors)))
	}
	return faults
}

// checkByDocument skips what the validator does not support: paths and methods that the
// document does not have, targets that it cannot parse as URLs, and streams of lines.
func (d *document) checkByDocument(r request, a response) (faults []string) {
	sent, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.bytes())))
	if err != nil || a.status == http.StatusMethodNotAllowed || oddPath(r.target) || isStreamed(r.target) {
		return nil
	}
	sent.Body = io.NopCloser(bytes.NewReader(r.body))
	if sent.Header.Get("Content-Type") == "" && r.body != nil {
		sent.Header.Set("Content-Type", "application/json") // the default
	}
	received := &http.Response{StatusCode: a.status, Header: a.header.Clone(), Body: http.NoBody}
	received.Header.Set("X-Request-Id", "checked") // already checked; the validator would read 1 and true as other types
	if len(a.body) > 0 {
		received.Body = io.NopCloser(bytes.NewReader(a.body))
	}
	ok, errs := d.validator.ValidateHttpResponse(sent, received)
	if !ok && decodable(a.body) && (a.status != http.StatusNotFound || !unknownPath(errs)) {
		faults = append(faults, "the document does not have this response: "+explain(errs))
	}
	switch {
	case a.status < 400 && decodable(r.body) && !hugeNumber.MatchString(r.target) && !isReceived(r.target): // a receiver takes any body
		if ok, errs := d.validator.ValidateHttpRequestSync(sent); !ok {
			faults = append(faults, "the document does not have this request, which succeeds: "+explain(errs))
		}
	case a.status == http.StatusBadRequest && strings.HasPrefix(placesOf(a), "/") && decodable(r.body) && !onlyUndocumented(a):
		if _, err := strictjson.Parse(r.body); err == nil {
			if ok, _ := d.validator.GetRequestBodyValidator().ValidateRequestBody(sent); ok {
				faults = append(faults, "the document has this body, which is refused")
			}
		}
	}
	return faults
}

// oddPath reports whether the validator misreads the path or fails on it.
func oddPath(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") ||
		strings.Contains(path, "/.") || strings.Contains(path, "%")
}

func unknownPath(errs []*validation.ValidationError) bool {
	return len(errs) == 1 && errs[0].ValidationType == "path"
}

// decodable reports whether the validator can decode the body: it does not support numbers
// beyond float64, nor parameters beyond int64.
func decodable(body []byte) bool {
	var v any
	return !json.Valid(body) || json.Unmarshal(body, &v) == nil
}

var hugeNumber = regexp.MustCompile(`=[0-9]{19,}`)

// undocumented are details of faults that a schema cannot express: they depend on stored
// data, on the time, or on a combination of members.
var undocumented = []string{
	"names a brand that does not exist",
	"must be in the future",
	"must be after publishAt",
	"is not a date-time such as 2026-01-02T15:04:05.678Z, with any offset, between the years 0000 and 9999 (UTC)",
	"is not a nextCursor of the same move",
	"is not a nextCursor of the same check",
	"is not a nextCursor of the same receiver",
	"is required for this provider",
	"is required for this provider, which makes it",
	"is not for this provider",
}

// onlyUndocumented reports whether all faults of a problem are undocumented.
func onlyUndocumented(a response) bool {
	var p struct{ Errors []struct{ Detail string } }
	_ = json.Unmarshal(a.body, &p) // anything but a problem has no faults
	for _, e := range p.Errors {
		if !slices.Contains(undocumented, e.Detail) {
			return false
		}
	}
	return true
}

// placesOf returns the sorted locations of a problem's faults: /member, (body), ?parameter
// or Header:.
func placesOf(a response) string {
	var p struct {
		Errors []struct{ Pointer, Parameter, Header *string }
	}
	_ = json.Unmarshal(a.body, &p) // anything but a problem has no faults
	var places []string
	for _, e := range p.Errors {
		switch {
		case e.Pointer != nil && *e.Pointer == "":
			places = append(places, "(body)")
		case e.Pointer != nil:
			places = append(places, *e.Pointer)
		case e.Parameter != nil:
			places = append(places, "?"+*e.Parameter)
		case e.Header != nil:
			places = append(places, *e.Header+":")
		}
	}
	slices.Sort(places)
	return strings.Join(places, " ")
}

func explain(errs []*validation.ValidationError) string {
	var b strings.Builder
	for _, e := range errs {
		b.WriteString(e.Message + ": " + e.Reason)
		for _, s := range e.SchemaValidationErrors {
			b.WriteString("\n\t" + s.Location + ": " + s.Reason)
		}
	}
	return b.String()
}
