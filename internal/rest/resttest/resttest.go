// Package resttest compares the routes of an HTTP API with its OpenAPI document: the server
// must accept a body if and only if the document does.
package resttest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"atrium"
	"atrium/api"
	"atrium/api/apitest"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// An Operation is an operation of a document. Its request bodies are validated by its handler,
// without a network, and by the document.
type Operation struct {
	handler      http.Handler
	method, path string
	accepted     []int // statuses of accepted requests
	optional     bool  // a request may have no body
	schema       *jsonschema.Schema
}

// Tenant is the tenant that requests name.
const Tenant atrium.TenantID = "tenant_01kerkhc50emq8k9w39qsaekf4"

// everything authenticates every request as a principal with all scopes.
type everything struct{ who auth.Principal }

func (e everything) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return e.who, nil
}

// New returns the operation of the document with the operationId, which one of the routes
// serves. Requests with a valid body get one of the accepted statuses: every path parameter
// is "none", so an operation on one resource returns 404. The If-Match header of requests
// always matches.
func New(tb testing.TB, d api.Document, operationID string, routes []rest.Route, accepted ...int) *Operation {
	tb.Helper()
	service := &rest.API{
		Keys: everything{auth.Principal{
			KeyID: atrium.NewID[atrium.KeyID](), Scopes: atrium.AllScopes(), Operator: operators(routes),
		}},
		Tenants: func(context.Context, atrium.TenantID) error { return nil },
		Log:     slog.New(slog.DiscardHandler),
	}
	o := &Operation{handler: service.Handler(routes, nil), accepted: accepted}
	template := o.find(tb, d, operationID)
	pointer := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(template) +
		"/" + strings.ToLower(o.method) + "/requestBody/content/application~1json/schema"
	text, err := apitest.Strict(d.JSON())
	if err != nil {
		tb.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///document.json", tree); err != nil {
		tb.Fatal(err)
	}
	if o.schema, err = c.Compile("mem:///document.json#" + pointer); err != nil {
		tb.Fatal(err)
	}
	return o
}

// find sets the method and the path of o, and returns the path template of the document.
func (o *Operation) find(tb testing.TB, d api.Document, operationID string) (template string) {
	tb.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(d.JSON(), &document); err != nil {
		tb.Fatal(err)
	}
	for path, item := range document.Paths {
		for method, raw := range item {
			var operation struct {
				OperationID string
				RequestBody struct{ Required bool }
			}
			if json.Unmarshal(raw, &operation) != nil || operation.OperationID != operationID {
				continue // another operation, or another member of the path item
			}
			o.method, o.path, o.optional = strings.ToUpper(method), path, !operation.RequestBody.Required
			for before, rest, ok := strings.Cut(o.path, "{"); ok; before, rest, ok = strings.Cut(o.path, "{") {
				_, after, _ := strings.Cut(rest, "}")
				o.path = before + "none" + after
			}
			return path
		}
	}
	tb.Fatalf("the document has no operation %s", operationID)
	return ""
}

// Check sends a body. The test fails unless the server and the document both accept or both
// reject it. Check returns the response to an accepted body, and nil otherwise.
func (o *Operation) Check(tb testing.TB, body []byte) []byte {
	tb.Helper()
	if len(body) > rest.DefaultMaxBody {
		return nil
	}
	r := httptest.NewRequest(o.method, o.path, bytes.NewReader(body))
	r.Header.Set("If-Match", "*")
	r.Header.Set("Atrium-Tenant", string(Tenant))
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)

	want := []int{http.StatusBadRequest}
	if o.accepts(tb, body) {
		want = o.accepted
	}
	if !slices.Contains(want, w.Code) {
		tb.Fatalf("%s %s with %q: got %d, want one of %d: %s", o.method, o.path, body, w.Code, want, w.Body)
	}
	if w.Code == http.StatusBadRequest {
		return nil
	}
	return w.Body.Bytes()
}

// accepts reports whether the document accepts the body.
func (o *Operation) accepts(tb testing.TB, body []byte) bool {
	tb.Helper()
	if len(body) == 0 && o.optional {
		body = []byte("{}") // equivalent
	}
	if _, err := strictjson.Parse(body); err != nil {
		return false
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		tb.Fatalf("decode %q, which is strict JSON: %v", body, err)
	}
	return o.schema.Validate(v) == nil
}

// AddBodies seeds a fuzz target with bodies that are invalid for every operation, with each
// valid body, and with invalid variations of it.
func AddBodies(f *testing.F, valid ...string) {
	f.Helper()
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `"x"`, `1`, ` { } `, "\ufeff{}", `{"unknown":null}`, `{"":{"a":[]}}`,
		`{"a":` + strings.Repeat(`[`, 64) + strings.Repeat(`]`, 64) + `}`,
	} {
		f.Add([]byte(body))
	}
	for _, body := range valid {
		open := strings.TrimSuffix(body, "}")
		for _, b := range []string{
			body, " " + body + "\n", body + "x", open, open + `,}`, open + `,"unknown":1}`,
			open + `,"":null}`, open + `,"a":"\ud800"}`, open + ",\"a\":\"\xff\"}",
		} {
			f.Add([]byte(b))
		}
	}
}

// operators reports whether operators may call one of the routes.
func operators(routes []rest.Route) bool {
	return slices.ContainsFunc(routes, func(r rest.Route) bool { return r.For != rest.KeyTenant })
}
