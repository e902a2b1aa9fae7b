// Package docsui serves the OpenAPI documents, and a viewer for them: Swagger UI,
// vendored in swagger-ui/ with its license, so that it works offline and asks
// nobody.
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

// The policy lets the pages load only what this server has, and run only the
// scripts in files of their own. data: is for the icons in the style sheet.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A view is the page that shows one document.
type view struct {
	Path     string
	Title    string
	Document string // its path
}

var views = []view{
	{"/docs", "External API", "/openapi.json"},
	{"/docs/manage", "Management API", "/manage/openapi.json"},
}

// Documents returns the handlers of the documents by their paths.
func Documents() map[string]http.Handler {
	return map[string]http.Handler{
		"/openapi.yaml":        rest.Static("application/yaml", api.External.YAML()),
		"/openapi.json":        rest.Static("application/json", api.External.JSON()),
		"/manage/openapi.yaml": rest.Static("application/yaml", api.Manage.YAML()),
		"/manage/openapi.json": rest.Static("application/json", api.Manage.JSON()),
	}
}

// Pages returns the handlers of the viewer by their paths. It shows the documents
// at the paths of Documents.
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

// page returns the page of a view, with links to all of them.
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

// read returns an embedded file. The names are constants of this file, which its
// test reads all.
func read(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) //nolint:forbidigo // the names are constants of this file
	}
	return b
}
