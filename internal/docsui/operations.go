package docsui

import (
	"html/template"
	"net/http"
	"slices"
	"strings"
)

// A document is what a page shows.
type document struct {
	Name    string
	Summary string
	Intro   template.HTML
	Rules   []section // for all operations
	Groups  []group
}

// A section is a part of a text that begins with a heading.
type section struct {
	ID, Title string
	Text      template.HTML
}

// A group has the operations of a tag.
type group struct {
	ID, Name    string
	Description template.HTML
	Operations  []operation
}

// An operation is a method of a path.
type operation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Keyed                     bool   // takes an API key
	Keyless                   bool   // also works without one
	Key                       string // the variable that has it
	Parameters                []parameter
	Body                      *body
	Successes                 []response
	Others                    []response // without a body, or errors
	Curl                      string     // "" for a webhook
}

// A parameter is a part of a path or query, or a header.
type parameter struct {
	In, Example string
	member
}

// A body is the body of a request or a response.
type body struct {
	Media    string
	JSON     bool
	Optional bool
	Examples []example
	shape
}

// An example is a body.
type example struct {
	Summary, Text string
	Line          string // Text as an argument of a command
}

// A response is the response with a status.
type response struct {
	Status, Code string // Code is the error code, if there is one
	Description  template.HTML
	Headers      []member
	Body         *body
}

// everywhere has the headers of every request or response, which the rules describe.
var everywhere = []string{"X-Request-Id", "Cache-Control"}

// newDocument returns a document. key is the variable of its commands that has the API key.
func newDocument(root node, key string) document {
	info := root.at("info")
	intro, rules := sections(info.at("description").text())
	d := document{Name: info.at("title").text(), Summary: info.at("summary").text(), Intro: intro, Rules: rules}
	for _, tag := range root.at("tags").items() {
		name := tag.at("name").text()
		d.Groups = append(d.Groups, group{
			ID: "group-" + slug(name), Name: name, Description: markdown(tag.at("description").text()),
			Operations: operationsOf(root, name, key),
		})
	}
	return d
}

// methods are in the order in which a page shows those of a path.
var methods = []string{"get", "post", "put", "patch", "delete", "options"}

// operationsOf returns the operations with a tag, in the order of their paths in the document. Those of webhooks
// have the name of the webhook as path, and no command: the server sends them.
func operationsOf(root node, tag, key string) (all []operation) {
	keyless := slices.ContainsFunc(root.at("security").items(), func(way node) bool {
		for range way.members() {
			return false
		}
		return true
	})
	for name, item := range root.at("webhooks").members() {
		if op := item.at("post"); slices.Contains(op.at("tags").texts(), tag) {
			all = append(all, newOperation("post", name, item, op))
		}
	}
	for path, item := range root.at("paths").members() {
		for _, method := range methods {
			if op := item.at(method); slices.Contains(op.at("tags").texts(), tag) {
				o := newOperation(method, path, item, op)
				o.Keyless, o.Key = keyless, key
				o.Curl = o.curl()
				all = append(all, o)
			}
		}
	}
	return all
}

func newOperation(method, path string, item, op node) operation {
	o := operation{
		ID: op.at("operationId").text(), Method: strings.ToUpper(method), Path: path,
		Summary: op.at("summary").text(), Description: markdown(op.at("description").text()),
		Keyed: !op.at("security").exists(),
	}
	for _, p := range slices.Concat(item.at("parameters").items(), op.at("parameters").items()) {
		if !slices.Contains(everywhere, p.at("name").text()) {
			o.Parameters = append(o.Parameters, newParameter(p))
		}
	}
	slices.SortStableFunc(o.Parameters, func(a, b parameter) int { return slices.Index(places, a.In) - slices.Index(places, b.In) })
	if b := op.at("requestBody"); b.exists() {
		o.Body = newBody(b)
		o.Body.Optional = b.at("required").text() != "true"
	}
	for status, r := range op.at("responses").members() {
		if status < "300" {
			o.Successes = append(o.Successes, newResponse(status, r))
		} else {
			o.Others = append(o.Others, newResponse(status, r))
		}
	}
	return o
}

// places has the places of parameters, in the order in which they are shown.
var places = []string{"path", "query", "header"}

func newParameter(p node) parameter {
	s := p.at("schema").shape()
	s.Description = markdown(p.at("description").text())
	return parameter{p.at("in").text(), p.at("example").text(), member{p.at("name").text(), p.at("required").text() == "true", s}}
}

// newBody returns the body of a request or response, or nil if it has none.
func newBody(v node) *body {
	for media, content := range v.at("content").members() {
		b := &body{Media: media, JSON: strings.HasSuffix(media, "json") && media != "application/x-ndjson", shape: content.at("schema").shape()}
		if one := content.at("example"); one.exists() {
			b.Examples = append(b.Examples, b.example("", one))
		}
		for _, named := range content.at("examples").members() {
			b.Examples = append(b.Examples, b.example(named.at("summary").text(), named.at("value")))
		}
		return b
	}
	return nil
}

func (b *body) example(summary string, value node) example {
	if b.JSON {
		return example{summary, value.indented(), value.json()}
	}
	return example{summary, value.text(), value.text()}
}

func newResponse(status string, r node) response {
	shown := response{Status: status, Description: markdown(r.at("description").text())}
	for name, h := range r.at("headers").members() {
		if !slices.Contains(everywhere, name) {
			s := h.at("schema").shape()
			s.Description = markdown(h.at("description").text())
			shown.Headers = append(shown.Headers, member{name, false, s})
		}
	}
	if status < "300" {
		shown.Body = newBody(r)
		if shown.Body != nil && shown.Body.Description == shown.Description {
			shown.Body.Description = ""
		}
		return shown
	}
	problem := r.at("content", "application/problem+json")
	shown.Code = problem.at("example", "code").text()
	for _, named := range problem.at("examples").members() {
		shown.Code = named.at("value", "code").text()
	}
	return shown
}

// curl returns a command that sends the operation with its required parameters.
func (o operation) curl() string {
	lines := []string{"curl"}
	if o.Method != http.MethodGet && (o.Method != http.MethodPost || o.Body == nil) {
		lines[0] += " -X " + o.Method
	}
	path := o.Path
	for _, p := range o.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", p.Example)
		case p.In == "header" && p.Required:
			lines = append(lines, "-H "+shellQuote(p.Name+": "+p.Example))
		}
	}
	lines[0] += ` "$ATRIUM_SERVER` + path + `"`
	if o.Keyed {
		lines = append(lines, `-H "x-api-key: $`+o.Key+`"`)
	}
	if o.Body != nil {
		lines = append(lines, "-H "+shellQuote("Content-Type: "+o.Body.Media), "--data-binary "+shellQuote(o.Body.Examples[0].Line))
	}
	return strings.Join(lines, " \\\n  ")
}

// PathParts returns the parts of the path between which a line may break.
func (o operation) PathParts() []string { return strings.SplitAfter(o.Path, "/") }

func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
