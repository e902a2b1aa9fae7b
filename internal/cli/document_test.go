package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"atrium/api"
)

// withoutRow are the operations that no row of the table is, and why.
var withoutRow = map[string]string{
	"createAccountLogs": "atrium entries batch makes its body of the lines of a file",
}

// undone are deletions that another command takes back.
var undone = []string{"unlinkProspect", "unschedulePage"}

// tree is a part of the document of the management API.
type tree = map[string]any

// at returns what the path of member names leads to, through references; nil if it
// leads nowhere.
func at(root tree, from any, path ...string) any {
	for {
		node, _ := from.(tree)
		if ref, ok := node["$ref"].(string); ok {
			from = at(root, root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(path) == 0 || node == nil {
			return from
		}
		from, path = node[path[0]], path[1:]
		if from == nil {
			return nil
		}
	}
}

// members returns the schemas of all members that a value of the schema may have.
func members(root tree, schema any) tree {
	s, _ := at(root, schema).(tree)
	all := tree{}
	if properties, ok := s["properties"].(tree); ok {
		maps.Copy(all, properties)
	}
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		parts, _ := s[word].([]any)
		for _, part := range parts {
			maps.Copy(all, members(root, part))
		}
	}
	return all
}

// hasMember reports whether a value of the schema may have what a column shows.
func hasMember(root tree, schema any, path string) bool {
	first, rest, deeper := strings.Cut(path, ".")
	member, ok := members(root, schema)[first]
	return ok && (!deeper || hasMember(root, member, rest))
}

func words(list any) (all []string) {
	values, _ := list.([]any)
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// types returns the types that a value of the schema may have.
func types(root tree, schema any) []string {
	s, _ := at(root, schema).(tree)
	all := words(s["type"])
	if one, ok := s["type"].(string); ok {
		all = append(all, one)
	}
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		parts, _ := s[word].([]any)
		for _, part := range parts {
			all = append(all, types(root, part)...)
		}
	}
	return all
}

// A documented operation, with what is said of it on any level.
type documented struct {
	id         string
	parameters map[string]tree // by their names
	op         tree
}

func readDocument(t *testing.T) (root tree, operations map[string]documented) {
	t.Helper()
	if err := json.Unmarshal(api.Manage.JSON(), &root); err != nil {
		t.Fatal(err)
	}
	operations = map[string]documented{}
	for path, item := range root["paths"].(tree) {
		rest, ok := strings.CutPrefix(path, apiPrefix)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			op, has := item.(tree)[strings.ToLower(method)].(tree)
			if !ok || !has {
				continue
			}
			d := documented{id: op["operationId"].(string), parameters: map[string]tree{}, op: op}
			for _, list := range []any{item.(tree)["parameters"], op["parameters"]} {
				list, _ := list.([]any)
				for _, p := range list {
					p := at(root, p).(tree)
					d.parameters[p["name"].(string)] = p
				}
			}
			operations[method+" "+rest] = d
		}
	}
	return root, operations
}

func TestEveryOperationOfTheManagementAPIHasACommand(t *testing.T) {
	root, operations := readDocument(t)
	commands := map[string]bool{}
	for _, g := range append(groups(), group{name: "streams", operations: []operation{importing, exporting}}) {
		for i := range g.operations {
			o := &g.operations[i]
			where := o.method + " " + o.path
			commands[where] = true
			d, ok := operations[where]
			if !ok {
				t.Errorf("%s %s: the document has no %s", g.name, o.use, where)
				continue
			}
			t.Run(d.id, func(t *testing.T) { compare(t, root, o, d) })
		}
	}
	ids := map[string]bool{}
	for where, d := range operations {
		ids[d.id] = true
		if withoutRow[d.id] != "" == commands[where] {
			t.Errorf("%s (%s): has a row: %v; why it needs none: %q", d.id, where, commands[where], withoutRow[d.id])
		}
	}
	for id := range withoutRow {
		if !ids[id] {
			t.Errorf("there is no operation %s", id)
		}
	}
}

// compare holds a row of the table to what the document says.
func compare(t *testing.T, root tree, o *operation, d documented) {
	for _, m := range pathParam.FindAllStringSubmatch(o.path, -1) {
		if _, ok := identifiers[m[1]]; !ok {
			t.Errorf("nothing is known of %s", m[1])
		}
	}
	for _, word := range strings.Fields(o.use)[1:] {
		trailing := slices.ContainsFunc(o.params, func(p param) bool { return p.trailing && "["+strings.ToUpper(p.flag)+"]" == word })
		if strings.Trim(word, "[]") != "FILE" && !trailing && !slices.Contains(o.arguments(), strings.ToLower(word)) {
			t.Errorf("%s is no parameter of the path", word)
		}
	}
	if once := d.parameters["Idempotency-Key"] != nil; once != o.once {
		t.Errorf("takes an idempotency key: %v in the document, %v here", once, o.once)
	}
	want := anyState
	if match := d.parameters["If-Match"]; match["required"] == true {
		want = seenState
	} else if match != nil {
		want = givenState
	}
	if o.state != want {
		t.Errorf("the state that it takes is %v, want %v", o.state, want)
	}
	if (o.shows == rows) != (d.parameters["cursor"] != nil) {
		t.Error("a list has a cursor, and nothing else has")
	}
	if o.method == http.MethodDelete && !slices.Contains(undone, d.id) && o.confirm == "" || o.confirm != "" && len(o.arguments()) == 0 {
		t.Error("a deletion must be confirmed, and says of what")
	}
	compareParams(t, root, o, d)
	compareColumns(t, root, o, d)
}

func compareParams(t *testing.T, root tree, o *operation, d documented) {
	schema := at(root, d.op, "requestBody", "content", "application/json", "schema")
	body, required := members(root, schema), words(at(root, schema, "required"))
	left := maps.Clone(body)
	for name, p := range d.parameters {
		if p["in"] == "query" && name != "cursor" && name != "limit" {
			left[name] = p
		}
	}
	for i := range o.params {
		p := &o.params[i]
		delete(left, p.member())
		s, must := body[p.member()], slices.Contains(required, p.member())
		if p.inQuery || o.method == http.MethodGet {
			parameter := d.parameters[p.member()]
			if parameter["in"] != "query" {
				t.Errorf("--%s is no parameter of the query", p.flag)
				continue
			}
			s, must = parameter["schema"], parameter["required"] == true
		}
		if s == nil {
			t.Errorf("--%s is no member of the body", p.flag)
			continue
		}
		if must != p.required {
			t.Errorf("--%s: required: %v in the document, %v here", p.flag, must, p.required)
		}
		compareKind(t, root, p, s)
	}
	for name := range left {
		t.Errorf("there is no flag for %s", name)
	}
}

// kindTypes are the types of JSON that a flag of a kind can have in the API.
var kindTypes = map[kind][]string{
	text: {"string"}, integer: {"integer"}, boolean: {"boolean"}, list: {"array", "string"},
	seconds: {"integer"}, document: {"array", "object", "string", "number", "integer", "boolean", "null"},
}

func compareKind(t *testing.T, root tree, p *param, schema any) {
	all := types(root, schema)
	nullable := slices.Contains(all, "null")
	if p.kind != document && nullable != p.nullable {
		t.Errorf("--%s: can be null: %v in the document, %v here", p.flag, nullable, p.nullable)
	}
	for _, name := range all {
		if name != "null" && !slices.Contains(kindTypes[p.kind], name) {
			t.Errorf("--%s is %s in the document", p.flag, name)
		}
	}
	enum := at(root, schema, "enum")
	if p.kind == list && enum == nil {
		enum = at(root, schema, "items", "enum")
	}
	if have, want := slices.Sorted(slices.Values(p.values)), slices.Sorted(slices.Values(words(enum))); !slices.Equal(have, want) {
		t.Errorf("--%s can be %q, in the document %q", p.flag, have, want)
	}
}

func compareColumns(t *testing.T, root tree, o *operation, d documented) {
	var schema any
	for _, status := range []string{"200", "201", "202"} {
		if schema = at(root, d.op, "responses", status, "content", "application/json", "schema"); schema != nil {
			break
		}
	}
	if shown := o.shows != verbatim && o.shows != nothing; shown != (len(o.columns) > 0) {
		t.Errorf("the columns are %v", o.columns)
	} else if !shown {
		return
	}
	switch o.shows {
	case parts:
		schema = at(root, members(root, schema)[o.partsIn], "items")
	case rows:
		schema = at(root, members(root, schema)["items"], "items")
	}
	for _, c := range o.columns {
		for member := range strings.SplitSeq(c.member, ":") {
			if !hasMember(root, schema, member) {
				t.Errorf("the answer has no %s", member)
			}
		}
	}
}
