package rest

import (
	"bytes"
	"html/template"
	"net/http"
)

// Static returns a handler that serves a document that never changes while the
// process lives, with an entity tag.
func Static(contentType string, body []byte) http.Handler {
	tag := hashTag(body)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("ETag", `"`+tag+`"`)
		h.Set("Cache-Control", cacheControl)
		if noneMatch(r.Header["If-None-Match"], tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, http.StatusOK, contentType, body)
	})
}

// ErrorPages returns the handlers of the pages that explain the codes, by their
// paths: what the type of a problem leads to.
func ErrorPages() map[string]http.Handler {
	pages := map[string]http.Handler{"/errors/{$}": page(indexPage, Codes)}
	for _, info := range Codes {
		pages["/errors/"+string(info.Code)] = page(errorPage, info)
	}
	return pages
}

// Page returns a handler that serves an HTML page under a content security policy.
func Page(policy string, html []byte) http.Handler {
	static := Static("text/html; charset=utf-8", html)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		static.ServeHTTP(w, r)
	})
}

// page renders a template once. The policy lets nothing in that the page does
// not carry itself.
func page(t *template.Template, data any) http.Handler {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		panic(err) //nolint:forbidigo // the templates and their data are constants of this package
	}
	return Page("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", b.Bytes())
}

var layout = template.Must(template.New("layout").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{block "title" .}}{{end}} – Atrium</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 1rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1.5rem; }
  h1 { font-size: 1.6rem; line-height: 1.25; margin: .25rem 0 1.5rem; }
  h2 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
  p { margin: 0 0 1rem; }
  code { font-family: ui-monospace, monospace; }
  table { border-collapse: collapse; width: 100%; }
  td { padding: .4rem .75rem .4rem 0; vertical-align: top; border-top: 1px solid color-mix(in srgb, currentcolor 20%, transparent); }
</style>
<main>{{block "main" .}}{{end}}</main>
</html>
`))

var errorPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}{{.Title}}{{end}}
{{define "main"}}
<p><code>{{.Status}} {{.Code}}</code></p>
<h1>{{.Title}}</h1>
<h2>What it means</h2>
<p>{{.Meaning}}</p>
<h2>What to do</h2>
<p>{{.Remedy}}</p>
<p><a href="/errors/">All error codes</a></p>
{{end}}`))

var indexPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}Error codes{{end}}
{{define "main"}}
<h1>Error codes</h1>
<p>Every error is a problem document (RFC 9457) whose <code>code</code> is one of these.</p>
<table>
{{range .}}<tr><td><code>{{.Status}}</code></td><td><a href="/errors/{{.Code}}"><code>{{.Code}}</code></a></td><td>{{.Title}}</td></tr>
{{end}}</table>
{{end}}`))
