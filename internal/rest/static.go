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
		Write(w, r, http.StatusOK, kind, body)
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

// startPage returns a handler that shows browsers a page at "/", and passes all other requests on. The page
// links to the console if the server has one.
func startPage(next http.Handler, console bool) http.Handler {
	shown := browserHeaders(page(frontPage, console))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Vary", "Accept")
		if !prefersHTML(r.Header["Accept"]) {
			next.ServeHTTP(w, r)
			return
		}
		exchangeOf(w).Route = "/{$}"
		shown.ServeHTTP(w, r)
	})
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
