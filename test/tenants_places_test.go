package test

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"atrium/api"
)

// operators are the places that only operator keys reach. They have no other tenant.
var operators = []string{
	"GET /manage/v0/tenants query cursor",
	"POST /manage/v0/tenants body tenantId",
	"GET /manage/v0/tenants/{tenant_id} path tenant_id",
	"PATCH /manage/v0/tenants/{tenant_id} path tenant_id",
	"DELETE /manage/v0/tenants/{tenant_id} path tenant_id",
}

// The matrix must have every place of all documents that takes an identifier or a cursor,
// including those of operations that are added later.
func TestTenantMatrixIsComplete(t *testing.T) {
	db := engines[0].open(t)
	s := start(t, db)
	asked := map[string]bool{}
	for _, place := range operators {
		asked[place] = true
	}
	for _, r := range append([]resource{externalResources, contentResource}, managedResources...) {
		north, south := r.has(t, s, s.north), r.has(t, s, s.south)
		unknown := r.places(north, s.nobodys(south))
		for name, foreign := range r.places(north, south) {
			for _, place := range differences(t, foreign, unknown[name]) {
				asked[place] = true
			}
		}
	}
	for _, d := range []api.Document{api.External, api.Manage, api.Content} {
		for _, place := range identifiersIn(t, d) {
			if !asked[place] {
				t.Errorf("no request with another tenant's data in: %s", place)
			}
		}
	}
}

// differences returns the places in which two requests of one operation differ.
func differences(t *testing.T, a, b request) (places []string) {
	t.Helper()
	pathA, queryA, _ := strings.Cut(a.target, "?")
	pathB, queryB, _ := strings.Cut(b.target, "?")
	d := api.External
	switch {
	case isManaged(a.target):
		d = api.Manage
	case isContent(a.target):
		d = api.Content
	}
	template := templateOf(t, d, pathA)
	operation := a.method + " " + template
	segmentsA, segmentsB := strings.Split(pathA, "/"), strings.Split(pathB, "/")
	for i, name := range strings.Split(template, "/") {
		if segmentsA[i] != segmentsB[i] {
			places = append(places, operation+" path "+strings.Trim(name, "{}"))
		}
	}
	valuesA, _ := url.ParseQuery(queryA)
	valuesB, _ := url.ParseQuery(queryB)
	for name := range valuesA {
		if valuesA.Get(name) != valuesB.Get(name) {
			places = append(places, operation+" query "+name)
		}
	}
	for i, line := range a.header {
		if line != b.header[i] {
			name, _, _ := strings.Cut(line, ":")
			places = append(places, operation+" header "+name)
		}
	}
	for _, member := range different(jsonOf(a.body), jsonOf(b.body), "") {
		places = append(places, operation+" body "+member)
	}
	return places
}

// different returns the members in which two values of the same shape differ. Items of any
// array are named [].
func different(a, b any, at string) (members []string) {
	switch a := a.(type) {
	case map[string]any:
		for name, value := range a {
			members = append(members, different(value, b.(map[string]any)[name], strings.TrimPrefix(at+"."+name, "."))...)
		}
	case []any:
		for i, value := range a {
			members = append(members, different(value, b.([]any)[i], at+"[]")...)
		}
	default:
		if a != b {
			members = append(members, at)
		}
	}
	return members
}

func jsonOf(body []byte) (value any) {
	_ = json.Unmarshal(body, &value)
	return value
}

// templateOf returns the path template of a document that a path matches.
func templateOf(t *testing.T, d api.Document, path string) string {
	t.Helper()
	segments := strings.Split(path, "/")
	var found []string
	for template := range treeOf(t, d)["paths"].(map[string]any) {
		parts := strings.Split(template, "/")
		if len(parts) == len(segments) && !slices.ContainsFunc(parts, func(part string) bool {
			i := slices.Index(parts, part)
			return part != segments[i] && !strings.HasPrefix(part, "{")
		}) {
			found = append(found, template)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s is one of %q", path, found)
	}
	return found[0]
}

func treeOf(t *testing.T, d api.Document) (tree map[string]any) {
	t.Helper()
	if err := json.Unmarshal(d.JSON(), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// identifiersIn returns every place of a document that takes a cursor, or an identifier of
// a tenant's resource according to its pattern.
func identifiersIn(t *testing.T, d api.Document) (places []string) {
	t.Helper()
	tree := treeOf(t, d)
	var resolve func(any) map[string]any
	resolve = func(node any) map[string]any {
		object, _ := node.(map[string]any)
		ref, ok := object["$ref"].(string)
		if !ok {
			return object
		}
		var at any = tree
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
		}
		return resolve(at)
	}
	identifies := func(schema map[string]any) bool {
		pattern, _ := schema["pattern"].(string)
		return strings.HasSuffix(pattern, "_[a-z0-9]{26}$")
	}
	var members func(schema map[string]any, at string) []string
	members = func(schema map[string]any, at string) (all []string) {
		if identifies(schema) {
			all = append(all, at)
		}
		for name, member := range resolve(schema["properties"]) {
			all = append(all, members(resolve(member), strings.TrimPrefix(at+"."+name, "."))...)
		}
		if items := resolve(schema["items"]); items != nil {
			all = append(all, members(items, at+"[]")...)
		}
		for _, of := range []string{"allOf", "oneOf", "anyOf"} {
			alternatives, _ := schema[of].([]any)
			for _, alternative := range alternatives {
				all = append(all, members(resolve(alternative), at)...)
			}
		}
		return all
	}
	for path, item := range tree["paths"].(map[string]any) {
		shared, _ := item.(map[string]any)["parameters"].([]any)
		for method, node := range item.(map[string]any) {
			operation, ok := node.(map[string]any)
			if !ok || operation["responses"] == nil {
				continue
			}
			name := strings.ToUpper(method) + " " + path
			own, _ := operation["parameters"].([]any)
			for _, node := range append(slices.Clone(shared), own...) {
				p := resolve(node)
				if p["name"] == "cursor" || identifies(resolve(p["schema"])) {
					places = append(places, name+" "+p["in"].(string)+" "+p["name"].(string))
				}
			}
			content := resolve(resolve(operation["requestBody"])["content"])
			for _, media := range slices.Sorted(maps.Keys(content)) {
				for _, member := range members(resolve(resolve(content[media])["schema"]), "") {
					places = append(places, name+" body "+member)
				}
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}
