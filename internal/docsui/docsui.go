// Package docsui serves the OpenAPI documents and a page for people that shows each of them. The
// pages are rendered here, so they need no script to be read and load nothing from other servers.
package docsui

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"sync"

	"atrium/api"
	"atrium/internal/rest"
)

//go:embed page.html page.css page.js
var files embed.FS

// policy is the content security policy of the pages. It allows only files of this server, and
// no inline styles or scripts. The empty icon needs data:.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A view is a page that shows a document.
type view struct {
	Path     string
	Title    string
	Document string // the path of the document, without the suffix of its form
	document api.Document
	Key      string // the variable of curl commands that has the API key
}

var views = []view{
	{"/docs", "External API", "/openapi", api.External, "ATRIUM_KEY"},
	{"/docs/manage", "Management API", "/manage/openapi", api.Manage, "ATRIUM_MANAGE_KEY"},
	{"/docs/content", "Content API", "/content/openapi", api.Content, "ATRIUM_SITE_KEY"},
	{"/docs/receive", "Receivers", "/receive/openapi", api.Receive, ""},
	{"/docs/events", "Events", "/events/openapi", api.Events, ""},
}

// Documents returns the handlers of the documents by path. JSON is made when it is first requested: that takes as long as the
// rest of a start.
func Documents() map[string]http.Handler {
	served := map[string]http.Handler{}
	for _, v := range views {
		served[v.Document+".yaml"] = rest.Static("application/yaml", v.document.YAML())
		served[v.Document+".json"] = onDemand(func() http.Handler { return rest.Static("application/json", v.document.JSON()) })
	}
	return served
}

// onDemand returns a handler that is made when it is first requested.
func onDemand(handler func() http.Handler) http.Handler {
	made := sync.OnceValue(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

// Pages returns the handlers of the pages and their files by path. A page is rendered when it is
// first requested.
func Pages() map[string]http.Handler {
	pages := map[string]http.Handler{
		"/docs/page.css": rest.Static("text/css; charset=utf-8", read("page.css")),
		"/docs/page.js":  rest.Static("text/javascript; charset=utf-8", read("page.js")),
	}
	for _, v := range views {
		pages[v.Path] = onDemand(func() http.Handler { return rest.Page(policy, render(v)) })
	}
	return pages
}

var layout = template.Must(template.New("page").Parse(string(read("page.html"))))

// render returns the page of a view, with links to all views.
func render(shown view) []byte {
	d, err := parse(shown.document)
	if err != nil {
		panic(err) //nolint:forbidigo // the documents are constants, which tests render
	}
	var b bytes.Buffer
	if err := layout.Execute(&b, struct {
		Shown view
		All   []view
		document
	}{shown, views, newDocument(d, shown.Key)}); err != nil {
		panic(err) //nolint:forbidigo // the template and its data are constants of this package
	}
	return b.Bytes()
}

// read returns an embedded file. A test reads all of them.
func read(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) //nolint:forbidigo // the names are constants of this file
	}
	return b
}
