package api

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"atrium/api/apitest"
)

// onEveryDocument runs a test for each document as it is served.
func onEveryDocument(t *testing.T, test func(t *testing.T, d Document)) {
	t.Helper()
	onEveryAPI(t, test)
	t.Run(Events.name, func(t *testing.T) { test(t, Events) })
}

// onEveryAPI runs a test for each document of operations that the server has.
func onEveryAPI(t *testing.T, test func(t *testing.T, d Document)) {
	t.Helper()
	for _, d := range []Document{External, Manage, Content, Receive} {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

// strict returns the document with the constraints that are only for tests.
func (d Document) strict(t *testing.T) Document {
	t.Helper()
	text, err := apitest.Strict(d.JSON())
	if err != nil {
		t.Fatal(err)
	}
	return Document{"strict " + d.name, text, func() []byte { return text }}
}

// checkBodies validates bodies, by the component schema and as requests to the path. It
// checks that both accept and reject the same bodies as the lists.
func (d Document) checkBodies(t *testing.T, schema, method, path string, accepted, rejected []string) {
	t.Helper()
	d = d.strict(t)
	compiled := d.newSchemas(t).compile(t, "/components/schemas/"+schema)
	v := d.newValidator(t)
	for i, body := range slices.Concat(accepted, rejected) {
		want := i < len(accepted)
		if err := compiled.Validate(decode(t, []byte(body))); (err == nil) != want {
			t.Errorf("%.100s: accepted %v: %v", body, !want, err)
		}
		if strings.Contains(body, "1e400") {
			continue // the validator decodes numbers as float64, which overflows
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("x-api-key", "k")
		r.Header.Set("If-Match", "*")
		if ok, errs := v.ValidateHttpRequestSync(r); ok != want {
			t.Errorf("%.100s: accepted %v as a request: %s", body, !want, explain(errs))
		}
	}
}

func (d Document) newValidator(t *testing.T) validator.Validator {
	t.Helper()
	doc, err := libopenapi.NewDocument(d.YAML())
	if err != nil {
		t.Fatal(err)
	}
	// The hashes by which the validator caches schemas are sometimes equal for different ones.
	v, errs := validator.NewValidator(doc, config.WithSchemaCache(nil))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return v
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

// schemas compiles parts of the document with a second implementation of JSON Schema, which
// also validates formats.
type schemas struct{ compiler *jsonschema.Compiler }

const base = "mem:///openapi.json"

func (d Document) newSchemas(t *testing.T) schemas {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(base, decode(t, d.JSON())); err != nil {
		t.Fatal(err)
	}
	return schemas{c}
}

func (s schemas) compile(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	compiled, err := s.compiler.Compile(base + "#" + (&url.URL{Path: pointer}).EscapedPath())
	if err != nil {
		t.Fatalf("%s: %v", pointer, err)
	}
	return compiled
}

// decode decodes JSON without converting numbers to floating point.
func decode(t *testing.T, b []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// trees has the decoded documents, by name.
var trees sync.Map

// tree returns the decoded document. Tests must not modify it.
func (d Document) tree(t *testing.T) object {
	t.Helper()
	if v, ok := trees.Load(d.name); ok {
		return v.(object)
	}
	var v object
	if err := json.Unmarshal(d.JSON(), &v); err != nil {
		t.Fatal(err)
	}
	trees.Store(d.name, v)
	return v
}

// walk calls visit for every object of the document, with its JSON Pointer. It skips
// examples.
func walk(node any, at string, visit func(at string, node object)) {
	switch node := node.(type) {
	case object:
		visit(at, node)
		for name, value := range node {
			if name != "example" && name != "examples" {
				walk(value, at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), visit)
			}
		}
	case []any:
		for i, value := range node {
			walk(value, at+"/"+strconv.Itoa(i), visit)
		}
	}
}

func examplesOf(node object) []any {
	var all []any
	if example, ok := node["example"]; ok {
		all = append(all, example)
	}
	named, _ := node["examples"].(object)
	for _, example := range named {
		all = append(all, example.(object)["value"])
	}
	return all
}

func operations(item any) map[string]object {
	ops := make(map[string]object)
	for _, method := range []string{"get", "head", "post", "patch", "put", "delete", "options", "trace"} {
		if op, ok := item.(object)[method].(object); ok {
			ops[method] = op
		}
	}
	return ops
}

// scopesOf returns the scopes of an operation, any of which suffices. It returns nil if the
// operation needs no key.
func scopesOf(op object) (scopes []string) {
	if scope, ok := op["x-scope"].(string); ok {
		return []string{scope}
	}
	list, _ := op["x-scopes"].([]any)
	for _, scope := range list {
		scopes = append(scopes, scope.(string))
	}
	return scopes
}

// An exampleResponse is a response with an example of the document.
type exampleResponse struct {
	status int
	header http.Header
	body   []byte
}

func (a exampleResponse) http() *http.Response {
	r := &http.Response{StatusCode: a.status, Header: a.header, Body: http.NoBody}
	if a.body != nil {
		r.Body = io.NopCloser(bytes.NewReader(a.body))
	}
	return r
}

// responses returns a response for each example of a documented response, or one without a
// body if it has no examples.
func (d Document) responses(t *testing.T, status string, response any) []exampleResponse {
	t.Helper()
	code, err := strconv.Atoi(strings.ReplaceAll(status, "XX", "00"))
	if err != nil {
		t.Fatal(err)
	}
	resolved := d.resolve(t, response)
	header := make(http.Header)
	for name, h := range resolved["headers"].(object) {
		text, isText := d.resolve(t, h)["example"].(string)
		if !isText {
			b, _ := json.Marshal(d.resolve(t, h)["example"])
			text = string(b)
		}
		header.Set(name, text)
	}
	content, _ := resolved["content"].(object)
	if content == nil {
		return []exampleResponse{{status: code, header: header}}
	}
	var all []exampleResponse
	for media, described := range content {
		header := maps.Clone(header)
		header.Set("Content-Type", media)
		if !strings.Contains(media, "json") {
			all = append(all, exampleResponse{code, header, []byte("text")})
		}
		for _, example := range examplesOf(described.(object)) {
			body, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, exampleResponse{code, header, body})
		}
	}
	return all
}

func (d Document) resolve(t *testing.T, node any) object {
	t.Helper()
	ref, ok := node.(object)["$ref"].(string)
	if !ok {
		return node.(object)
	}
	resolved := any(d.tree(t))
	for _, name := range strings.Split(ref, "/")[1:] {
		resolved = resolved.(object)[name]
	}
	return d.resolve(t, resolved)
}
