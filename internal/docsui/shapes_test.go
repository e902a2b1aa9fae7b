package docsui

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSchemasAreDescribed(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(`
components:
  schemas:
    Name: {type: string, minLength: 1, maxLength: 5, description: A name.}
    Thing: {type: object, required: [name], properties: {name: {$ref: '#/components/schemas/Name'}}}
    List: {allOf: [{type: object, properties: {more: {type: boolean}}}, {type: object, required: [items], properties: {items: {type: array, maxItems: 1, items: {$ref: '#/components/schemas/Thing'}}}}]}
`), &root); err != nil {
		t.Fatal(err)
	}
	document := node{root.Content[0], root.Content[0]}
	for schema, want := range map[string]shape{
		`{$ref: '#/components/schemas/Name'}`:                                                 {Type: "string", Limits: []string{"1 to 5 characters"}, Description: "<p>A name.</p>\n"},
		`{description: Other., $ref: '#/components/schemas/Name'}`:                            {Type: "string", Limits: []string{"1 to 5 characters"}, Description: "<p>Other.</p>\n"},
		`{oneOf: [{type: string, maxLength: 1}, {type: 'null'}]}`:                             {Type: "string or null", Limits: []string{"at most 1 character"}},
		`{oneOf: [{$ref: '#/components/schemas/Name'}, {type: 'null'}]}`:                      {Type: "string or null", Limits: []string{"1 to 5 characters"}, Description: "<p>A name.</p>\n"},
		`{description: Other., oneOf: [{$ref: '#/components/schemas/Name'}, {type: 'null'}]}`: {Type: "string or null", Limits: []string{"1 to 5 characters"}, Description: "<p>Other.</p>\n"},
		`{oneOf: [{oneOf: [{type: a}, {type: b}]}, {type: 'null'}]}`:                          {Type: "one of 2 forms or null", Choices: []choice{{"", shape{Type: "a"}}, {"", shape{Type: "b"}}}},
		`{oneOf: [{type: a}, {type: b}, {type: 'null'}]}`:                                     {Type: "one of 3 forms", Choices: []choice{{"", shape{Type: "a"}}, {"", shape{Type: "b"}}, {"", shape{Type: "null"}}}},
		`{type: array, description: Names., items: {type: string, description: A name.}}`:     {Type: "array of strings", Description: "<p>Names.</p>\n<p>A name.</p>\n"},
		`{type: integer, minimum: 0, maximum: 9, default: 2}`:                                 {Type: "integer", Limits: []string{"at most 9", "default 2"}},
		`{type: integer, minimum: 1}`:                                                         {Type: "integer", Limits: []string{"at least 1"}},
		`{type: string, format: date-time, pattern: Z}`:                                       {Type: "string, date-time"},
		`{type: string, pattern: '^a$', minLength: 1}`:                                        {Type: "string", Limits: []string{"matches ^a$"}},
		`{type: string, pattern: '^[^\x00]*$'}`:                                               {Type: "string"},
		`{type: string, enum: [a, b]}`:                                                        {Type: "string", Values: []string{"a", "b"}},
		`{type: integer, const: 201}`:                                                         {Type: "integer", Values: []string{"201"}},
		`{}`:                                                                                  {Type: "any JSON value"},
		`{type: array, items: {}}`:                                                            {Type: "array of any JSON values"},
		`{type: array, uniqueItems: true, items: {type: string}}`:                             {Type: "array of strings", Limits: []string{"without duplicates"}},
		`{type: object, additionalProperties: true}`:                                          {Type: "object"},
		`{type: array, minItems: 1, items: {type: object}}`:                                   {Type: "array of objects", Limits: []string{"at least 1 item"}},
		`{oneOf: [{$ref: '#/components/schemas/Name'}, {type: 'x'}]}`:                         {Type: "one of 2 forms", Choices: []choice{{"Name", shape{Type: "string", Limits: []string{"1 to 5 characters"}, Description: "<p>A name.</p>\n"}}, {"", shape{Type: "x"}}}},
		`{$ref: '#/components/schemas/List'}`: {Type: "object", Members: []member{
			{"more", false, shape{Type: "boolean"}},
			{"items", true, shape{Type: "array of Thing", Limits: []string{"at most 1 item"}, Members: []member{
				{"name", true, shape{Type: "string", Limits: []string{"1 to 5 characters"}, Description: "<p>A name.</p>\n"}},
			}}},
		}},
	} {
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(schema), &value); err != nil {
			t.Fatal(err)
		}
		if got := (node{document.root, value.Content[0]}).shape(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", schema, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"1. the response is\n   404. It wins\n2. b": "<ol>\n<li>the response is\n404. It wins</li>\n<li>b</li>\n</ol>\n",
		"### A `b`":       "<h4>A <code>b</code></h4>\n",
		"a <b onclick=x>": "<p>a <!-- raw HTML omitted --></p>\n",
	} {
		if got := string(markdown(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := string(markdown("| a |\n|---|\n| b |")); !strings.Contains(got, `<div class="table"`) || !strings.HasSuffix(got, "</table></div>\n") {
		t.Errorf("a table is %s", got)
	}
}

func TestCommandsQuoteTheirArguments(t *testing.T) {
	o := operation{
		Method: "PATCH", Path: "/a/{id}", Keyed: true, Key: "ATRIUM_KEY",
		Parameters: []parameter{{"path", "x1", member{Name: "id", Required: true}}, {"header", `"1"`, member{Name: "If-Match", Required: true}}, {"query", "q", member{Name: "q"}}},
		Body:       &body{Media: "application/json", Examples: []example{{Line: `{"a":"it's"}`}}},
	}
	want := `curl -X PATCH "$ATRIUM_SERVER/a/x1" \
  -H 'If-Match: "1"' \
  -H "x-api-key: $ATRIUM_KEY" \
  -H 'Content-Type: application/json' \
  --data-binary '{"a":"it'\''s"}'`
	if got := o.curl(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
