package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/api"
)

// operationsWithoutRow maps operations that are not in the table of operations to the reason.
var operationsWithoutRow = map[string]string{
	"createAccountLogs": "atrium entries batch builds its body from the lines of a file",
	"checkRetention":    "atrium retention check adds the counts of several responses",
}

// reversibleDeletions are deletions that another command can undo.
var reversibleDeletions = []string{"unlinkProspect", "unschedulePage"}

// A tree is a part of the OpenAPI document of the management API.
type tree = map[string]any

// lookup returns the value at a path of member names, following references, or nil.
func lookup(root tree, from any, path ...string) any {
	for {
		node, _ := from.(tree)
		if ref, ok := node["$ref"].(string); ok {
			from = lookup(root, root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
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

// members returns the schemas of all members that a value of the schema can have.
func members(root tree, schema any) tree {
	s, _ := lookup(root, schema).(tree)
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

// hasMember reports whether a value of the schema can have the member of a column.
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

// types returns the types that a value of the schema can have.
func types(root tree, schema any) []string {
	s, _ := lookup(root, schema).(tree)
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

// A documented is an operation of the document, with the parameters of its path.
type documented struct {
	id         string
	parameters map[string]tree // by name
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
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			op, has := item.(tree)[strings.ToLower(method)].(tree)
			if !ok || !has {
				continue
			}
			d := documented{id: op["operationId"].(string), parameters: map[string]tree{}, op: op}
			for _, list := range []any{item.(tree)["parameters"], op["parameters"]} {
				list, _ := list.([]any)
				for _, p := range list {
					p := lookup(root, p).(tree)
					d.parameters[p["name"].(string)] = p
				}
			}
			operations[method+" "+rest] = d
		}
	}
	return root, operations
}

// The table of docs/cli.md is where an operator looks for a command.
func TestThePageOfTheCommandLineNamesEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Groups\n")
	rows := map[string]string{} // by the name of a group or command
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				rows[name] = cells[2]
			}
		}
	}
	root := NewCommand()
	root.InitDefaultCompletionCmd()
	for _, group := range root.Commands() {
		if group.Hidden || group.IsAdditionalHelpTopicCommand() || group.Name() == "help" {
			continue
		}
		row, ok := rows[group.Name()]
		if !ok {
			t.Errorf("no row has %s", group.Name())
			continue
		}
		for _, c := range group.Commands() {
			if group.Name() != "completion" && !c.Hidden && !strings.Contains(row, "`"+c.Name()+"`") {
				t.Errorf("the row of %s has no %s", group.Name(), c.Name())
			}
		}
	}
}

func TestEveryManagementOperationHasACommand(t *testing.T) {
	root, operations := readDocument(t)
	commands := map[string]bool{}
	for _, g := range append(groups(),
		group{name: "streams", operations: []operation{importOperation, exportOperation, personExport}}) {
		for i := range g.operations {
			o := &g.operations[i]
			where := o.method + " " + o.path
			commands[where] = true
			d, ok := operations[where]
			if !ok {
				t.Errorf("%s %s: the document has no %s", g.name, o.use, where)
				continue
			}
			t.Run(d.id, func(t *testing.T) { compareOperation(t, root, o, d) })
		}
	}
	ids := map[string]bool{}
	for where, d := range operations {
		ids[d.id] = true
		if operationsWithoutRow[d.id] != "" == commands[where] {
			t.Errorf("%s (%s): in the table: %v; reason why not: %q", d.id, where, commands[where],
				operationsWithoutRow[d.id])
		}
	}
	for id := range operationsWithoutRow {
		if !ids[id] {
			t.Errorf("the document has no operation %s", id)
		}
	}
}

// compareOperation compares a row of the table of operations with the document.
func compareOperation(t *testing.T, root tree, o *operation, d documented) {
	for _, m := range pathParam.FindAllStringSubmatch(o.path, -1) {
		if _, ok := identifiers[m[1]]; !ok {
			t.Errorf("unknown path parameter %s", m[1])
		}
	}
	for _, word := range strings.Fields(o.use)[1:] {
		trailing := slices.ContainsFunc(o.params,
			func(p param) bool { return p.trailing && "["+strings.ToUpper(p.flag)+"]" == word })
		optional := slices.Contains(o.pathFlags(), strings.ToLower(strings.Trim(word, "[]"))) && strings.HasPrefix(word, "[")
		if strings.Trim(word, "[]") != "FILE" && !trailing && !optional && !slices.Contains(o.pathArgs(), strings.ToLower(word)) {
			t.Errorf("%s is not a path parameter", word)
		}
	}
	if idempotent := d.parameters["Idempotency-Key"] != nil; idempotent != o.idempotent {
		t.Errorf("takes an idempotency key: %v in the document, %v here", idempotent, o.idempotent)
	}
	want := noIfMatch
	if match := d.parameters["If-Match"]; match["required"] == true {
		want = requiredIfMatch
	} else if match != nil {
		want = optionalIfMatch
	}
	if o.ifMatch != want {
		t.Errorf("If-Match is %v, want %v", o.ifMatch, want)
	}
	if (o.layout == layoutList) != (d.parameters["cursor"] != nil) {
		t.Error("exactly lists must have a cursor")
	}
	if o.method == http.MethodDelete && !slices.Contains(reversibleDeletions, d.id) && o.confirm == "" ||
		o.confirm != "" && len(o.pathArgs()) == 0 && o.affected == nil {
		t.Error("a deletion requires a prompt, and a prompt requires an argument")
	}
	compareParams(t, root, o, d)
	compareColumns(t, root, o, d)
}

func compareParams(t *testing.T, root tree, o *operation, d documented) {
	schema := lookup(root, d.op, "requestBody", "content", "application/json", "schema")
	body, required := members(root, schema), words(lookup(root, schema, "required"))
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
				t.Errorf("--%s is not a query parameter", p.flag)
				continue
			}
			s, must = parameter["schema"], parameter["required"] == true
		}
		if s == nil {
			t.Errorf("--%s is not a member of the body", p.flag)
			continue
		}
		if must != p.required {
			t.Errorf("--%s: required: %v in the document, %v here", p.flag, must, p.required)
		}
		compareKind(t, root, p, s)
		unset := members(root, s)
		for _, part := range p.parts {
			path := strings.ReplaceAll(part.member(), "/", ".")
			if !hasMember(root, s, path) {
				t.Errorf("--%s sets no member of %s", part.flag, p.member())
			}
			first, _, _ := strings.Cut(path, ".")
			delete(unset, first)
		}
		if len(p.parts) > 0 && len(unset) > 0 {
			t.Errorf("no flag sets %v of %s", slices.Sorted(maps.Keys(unset)), p.member())
		}
	}
	for name := range left {
		t.Errorf("no flag for %s", name)
	}
}

// kindTypes maps kinds of flags to the JSON types that they can have in the API.
var kindTypes = map[kind][]string{
	text: {"string"}, integer: {"integer"}, boolean: {"boolean"}, list: {"array", "string"},
	private: {"string"}, seconds: {"integer"}, instant: {"string"}, document: {"array", "object", "string", "number", "integer", "boolean", "null"},
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
	enum := lookup(root, schema, "enum")
	if p.kind == list && enum == nil {
		enum = lookup(root, schema, "items", "enum")
	}
	values := slices.DeleteFunc(slices.Clone(p.values), func(v string) bool { return v == string(atrium.RoleOperator) }) // only on the database
	have, want := slices.Sorted(slices.Values(values)), slices.Sorted(slices.Values(words(enum)))
	if !slices.Equal(have, want) {
		t.Errorf("--%s can be %q, in the document %q", p.flag, have, want)
	}
}

func compareColumns(t *testing.T, root tree, o *operation, d documented) {
	var schema any
	for _, status := range []string{"201", "200", "202"} {
		if schema = lookup(root, d.op, "responses", status, "content", "application/json", "schema"); schema != nil {
			break
		}
	}
	if printed := o.layout != layoutRaw && o.layout != layoutNone; printed != (len(o.columns) > 0) {
		t.Errorf("columns: %v", o.columns)
	} else if !printed {
		return
	}
	checked := lookup(root, d.op, "responses", "200", "content", "application/json", "schema")
	compareMembers(t, root, o.checkRows, lookup(root, members(root, checked)["items"], "items"))
	switch o.layout {
	case layoutMember:
		schema = lookup(root, members(root, schema)[o.rowsMember], "items")
	case layoutList:
		schema = lookup(root, members(root, schema)["items"], "items")
	}
	compareMembers(t, root, slices.Concat(o.columns, o.included), schema)
}

// compareMembers checks that values of the schema can have the members of all columns.
func compareMembers(t *testing.T, root tree, columns []column, schema any) {
	t.Helper()
	for _, c := range columns {
		for member := range strings.SplitSeq(c.member, ":") {
			if !hasMember(root, schema, member) {
				t.Errorf("the response has no %s", member)
			}
		}
	}
}
