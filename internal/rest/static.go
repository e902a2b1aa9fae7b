package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// Static returns a handler that serves a constant document with an entity tag.
func Static(contentType string, body []byte) http.Handler {
	tag, kind := hashTag(body), []string{contentType}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("ETag", `"`+tag+`"`)
		h[headerCache] = privateCache
		if noneMatch(r.Header["If-None-Match"], tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, r, http.StatusOK, kind, body)
	})
}

// ErrorPages returns the handlers of the pages that explain the codes, by path. The type of a
// problem is the path of its page.
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
		w.Header().Set(headerPolicy, policy)
		static.ServeHTTP(w, r)
	})
}

// page renders a template once. The policy allows only the style of the page, by its hash, so
// that 'unsafe-inline' is not needed, and its empty icon, a data: URL. Without one, browsers
// would request /favicon.ico, which the policy forbids.
func page(t *template.Template, data any) http.Handler {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		panic(err) //nolint:forbidigo // the templates and their data are constants of this package
	}
	_, rest, _ := bytes.Cut(b.Bytes(), []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	hash := sha256.Sum256(style)
	return Page("default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", b.Bytes())
}

var layout = template.Must(template.New("layout").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{block "title" .}}{{end}} – Atrium</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --paper: #fff; --ink: #1f252b; --quiet: #5a6470; --line: #dfe3e7; --link: #1a5fb0; }
  @media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e3e6e9; --quiet: #a0a9b2; --line: #32383e; --link: #8cbcf5; } }
  body { font: 1rem/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 42rem; margin: 0 auto; padding: 4rem 1.5rem; }
  h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 2rem; }
  h2 { font-size: .875rem; font-weight: 600; color: var(--quiet); margin: 2rem 0 .25rem; }
  p { margin: 0 0 1rem; overflow-wrap: break-word; }
  a { color: var(--link); text-underline-offset: .2em; text-decoration-thickness: 1px; }
  li a:not(:hover, :focus-visible) { text-decoration: none; }
  code { font-family: ui-monospace, monospace; font-size: .9375em; }
  nav { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; }
  .code { color: var(--quiet); margin: 0 0 .5rem; }
  ul { list-style: none; margin: 2rem 0 0; padding: 0; }
  li { display: grid; grid-template-columns: 3rem 15rem 1fr; gap: 0 1rem; padding: .6rem 0; border-top: 1px solid var(--line); }
  li > :first-child { color: var(--quiet); }
  @media (max-width: 40rem) {
    body { padding: 2rem 1.25rem; }
    li { grid-template-columns: 3rem 1fr; }
    li > :last-child { grid-column: 2; }
  }
</style>
<main>{{block "main" .}}{{end}}</main>
</html>
`))

var errorPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}{{.Title}}{{end}}
{{define "main"}}
<p class="code"><code>{{.Status}} {{.Code}}</code></p>
<h1>{{.Title}}</h1>
<h2>What it means</h2>
<p>{{.Meaning}}</p>
<h2>What to do</h2>
<p>{{.Remedy}}</p>
<nav><a href="/errors/">All error codes</a></nav>
{{end}}`))

var indexPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}Error codes{{end}}
{{define "main"}}
<h1>Error codes</h1>
<p>Every error is a problem document (RFC 9457) whose <code>code</code> is one of these.</p>
<ul>
{{range .}}<li><code>{{.Status}}</code> <a href="/errors/{{.Code}}"><code>{{.Code}}</code></a> <span>{{.Title}}</span></li>
{{end}}</ul>
<nav><a href="/docs">All operations</a></nav>
{{end}}`))
