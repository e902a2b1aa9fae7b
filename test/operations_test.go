package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium/api"
)

// An operation is an operation of a document. Tests that cover all of them also cover
// operations that are added later.
type operation struct {
	method, path string
	takesJSON    bool
	needsBody    bool
	members      []string // of the request body
	list         bool     // has the parameter cursor
	filters      []string // other parameters of a list, each with a value other than its default
}

// operations returns the operations of all documents.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	for _, d := range []api.Document{api.External, api.Manage, api.Content} {
		var document any
		if err := json.Unmarshal(d.JSON(), &document); err != nil {
			t.Fatal(err)
		}
		// at returns the value at a path in the document, and follows references.
		var at func(v any, names ...string) any
		at = func(v any, names ...string) any {
			object, _ := v.(map[string]any)
			if ref, ok := object["$ref"].(string); ok {
				return at(at(document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...), names...)
			}
			if len(names) == 0 {
				return v
			}
			return at(object[names[0]], names[1:]...)
		}
		paths, _ := at(document, "paths").(map[string]any)
		for path, item := range paths {
			for _, method := range []string{"get", "post", "put", "patch", "delete"} {
				o, ok := at(item, method).(map[string]any)
				if !ok {
					continue
				}
				found := operation{method: strings.ToUpper(method), path: path}
				if schema := at(o, "requestBody", "content", "application/json", "schema"); schema != nil {
					found.takesJSON = true
					found.needsBody, _ = at(o, "requestBody", "required").(bool)
					properties, _ := at(schema, "properties").(map[string]any)
					for name := range properties {
						found.members = append(found.members, name)
					}
				}
				parameters, _ := o["parameters"].([]any)
				for _, p := range parameters {
					name, _ := at(p, "name").(string)
					switch {
					case at(p, "in") != "query", name == "limit", name == "include": // these do not change which items the list has
					case name == "cursor":
						found.list = true
					default:
						found.filters = append(found.filters, name+"="+url.QueryEscape(sample(at(p, "schema"), at)))
					}
				}
				all = append(all, found)
			}
		}
	}
	if len(all) < 60 {
		t.Fatalf("found %d operations", len(all))
	}
	return all
}

// sample returns a value of a parameter other than its default.
func sample(schema any, at func(v any, names ...string) any) string {
	if values, ok := at(schema, "enum").([]any); ok {
		for _, v := range slices.Backward(values) {
			if v != at(schema, "default") {
				return fmt.Sprint(v)
			}
		}
	}
	pattern, _ := at(schema, "pattern").(string)
	switch kind, _, id := strings.Cut(strings.TrimPrefix(pattern, "^"), "["); {
	case at(schema, "type") == "boolean":
		return strconv.FormatBool(at(schema, "default") != true)
	case at(schema, "type") == "integer":
		return fmt.Sprint(at(schema, "minimum"))
	case at(schema, "format") == "date-time":
		return "2020-01-01T00:00:00Z"
	case id:
		return kind + strings.Repeat("0", 26)
	}
	return "x"
}

var parameter = regexp.MustCompile(`{[a-z_]+}`)

// ask sends a request with a key that has all scopes, and returns the response. It reuses
// connections, because there are many requests and only their bodies are unusual.
func (s *service) ask(t *testing.T, client *http.Client, method, target, body string) response {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.addr+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	key := s.north.key
	if isManaged(target) {
		key = s.vars["operator"]
		r.Header.Set("Atrium-Tenant", string(s.north.id))
	}
	r.Header.Set("x-api-key", key)
	if method != http.MethodGet && method != http.MethodPost {
		r.Header.Set("If-Match", "*")
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, got}
}

// newClient returns a client that reuses its connection.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: exchangeTimeout}
}
