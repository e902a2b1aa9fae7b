// Package docsui serves the OpenAPI documents and a viewer for them, Swagger UI. The viewer is
// vendored in swagger-ui/ with its license, so it works offline and contacts no other server.
package docsui

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"

	"atrium/api"
	"atrium/internal/rest"
)

//go:embed swagger-ui/swagger-ui.css swagger-ui/swagger-ui-bundle.js swagger-ui/favicon-32x32.png page.html page.css start.js
var files embed.FS

// policy is the content security policy of the pages. It allows only files of this server, and
// no inline scripts. The icons in the style sheet need data:.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A view is a page that shows a document.
type view struct {
	Path     string
	Title    string
	Document string // the path of the document
}

var views = []view{
	{"/docs", "External API", "/openapi.json"},
	{"/docs/manage", "Management API", "/manage/openapi.json"},
}

// Documents returns the handlers of the documents by path.
func Documents() map[string]http.Handler {
	return map[string]http.Handler{
		"/openapi.yaml":        rest.Static("application/yaml", api.External.YAML()),
		"/openapi.json":        rest.Static("application/json", api.External.JSON()),
		"/manage/openapi.yaml": rest.Static("application/yaml", api.Manage.YAML()),
		"/manage/openapi.json": rest.Static("application/json", api.Manage.JSON()),
	}
}

// Pages returns the handlers of the viewer by path. The viewer loads the documents from the paths
// of Documents.
func Pages() map[string]http.Handler {
	pages := map[string]http.Handler{
		"/docs/start.js":    rest.Static("text/javascript; charset=utf-8", read("start.js")),
		"/docs/viewer.js":   rest.Static("text/javascript; charset=utf-8", read("swagger-ui/swagger-ui-bundle.js")),
		"/docs/viewer.css":  rest.Static("text/css; charset=utf-8", read("swagger-ui/swagger-ui.css")),
		"/docs/page.css":    rest.Static("text/css; charset=utf-8", read("page.css")),
		"/docs/favicon.png": rest.Static("image/png", read("swagger-ui/favicon-32x32.png")),
	}
	for _, v := range views {
		pages[v.Path] = rest.Page(policy, page(v))
	}
	return pages
}

var layout = template.Must(template.New("page").Parse(string(read("page.html"))))

// page returns the page of a view, with links to all views.
func page(shown view) []byte {
	var b bytes.Buffer
	if err := layout.Execute(&b, struct {
		Shown view
		All   []view
	}{shown, views}); err != nil {
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
