package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/rest"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// served returns the whole service without a network, and a replacer for keys of a tenant:
// {{key}} has all scopes of the external API, {{manage}} the scope manage.
func served(f *testing.F) (http.Handler, *strings.Replacer) {
	f.Helper()
	s, err := store.Open(f.Context(), "sqlite:"+filepath.Join(f.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	c := Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(f.Output(), "text", "error")}
	c.Settings.Addr = "127.0.0.1:0"
	a, err := New(f.Context(), c)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = a.listener.Close()
		_ = a.writer.Close(f.Context())
	})
	tenant, _, err := s.CreateTenant(f.Context(), atrium.CommandLine(atrium.OperatorChain), "fuzz")
	if err != nil {
		f.Fatal(err)
	}
	key := func(scopes []atrium.Scope) string {
		id, text, hash := auth.NewKey()
		k := atrium.APIKey{ID: id, TenantID: tenant.ID, Name: "fuzz", Scopes: scopes}
		if _, _, err := s.CreateKey(f.Context(), atrium.CommandLine(tenant.ID), k, hash); err != nil {
			f.Fatal(err)
		}
		return text
	}
	return a.Handler(), strings.NewReplacer("{{key}}", key(atrium.ExternalScopes()), "{{manage}}", key([]atrium.Scope{atrium.ScopeManage}))
}

// FuzzRequest checks that every request that net/http accepts gets a response as
// documented, and never a 500.
func FuzzRequest(f *testing.F) {
	handler, keys := served(f)
	for _, seed := range []string{
		"GET /v0/pages?limit=1&status=draft&cursor=x HTTP/1.1\r\nHost: a\r\nx-api-key: {{key}}\r\nIf-None-Match: *\r\n\r\n",
		"HEAD /v0/accounts/account_00000000000000000000000000 HTTP/1.1\r\nHost: a\r\nx-api-key: {{key}}\r\n\r\n",
		"POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nx-api-key: {{key}}\r\nIdempotency-Key: k\r\nContent-Length: 46\r\n\r\n" + `{"source":"a","payload":{},"domain":"a.example"}`,
		"POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nx-api-key: {{key}}\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" + `{"source":"a","payload":{}}  ` + "\r\n0\r\n\r\n",
		"PATCH /v0/accounts/account_00000000000000000000000000 HTTP/1.1\r\nHost: a\r\nx-api-key: {{key}}\r\nIf-Match: \"a-b\"\r\nContent-Length: 12\r\n\r\n" + `{"name":"a"}`,
		"GET /v0/pages/a/audiences/b/versions?include=archived&page=1 HTTP/1.0\r\nx-api-key: {{key}}\r\n\r\n",
		"POST /manage/v0/brands HTTP/1.1\r\nHost: a\r\nx-api-key: {{manage}}\r\nContent-Length: 12\r\n\r\n" + `{"name":"a"}`,
		"POST /manage/v0/import HTTP/1.1\r\nHost: a\r\nx-api-key: {{manage}}\r\nContent-Type: application/x-ndjson\r\nContent-Length: 3\r\n\r\n{}\n",
		"GET /manage/v0/export HTTP/1.1\r\nHost: a\r\nAccept: application/x-ndjson\r\nx-api-key: {{manage}}\r\n\r\n",
		"GET /manage/v0/audit?since=2020-01-01T00:00:00Z HTTP/1.1\r\nHost: a\r\nAtrium-Tenant: tenant_00000000000000000000000000\r\nx-api-key: {{manage}}\r\n\r\n",
		"GET /manage/v0/accounts?search=%ff&order=newest HTTP/1.1\r\nHost: a\r\nx-api-key: {{manage}}\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET http://a//v0/..;/pages HTTP/1.1\r\nHost: b\r\nX-Request-Id: \xff\r\n\r\n", "GET /docs HTTP/1.1\r\nHost: a\r\n\r\n", "GET /errors/%00 HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(keys.Replace(string(raw)))))
		if err != nil {
			return // net/http responds to it
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if err := judge(r, w); err != "" {
			t.Fatalf("%q: %s: %d %v %s", raw, err, w.Code, w.Header(), w.Body)
		}
	})
}

// judge returns the fault of a response, or "".
func judge(r *http.Request, w *httptest.ResponseRecorder) string {
	id := w.Header().Get("X-Request-Id")
	switch {
	case w.Code < 200 || w.Code >= 500 || w.Code >= 300 && w.Code < 400 && w.Code != http.StatusNotModified:
		return "not a response to a client"
	case id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "the request id is none"
	case w.Code < 400 || r.Method == http.MethodHead:
		return ""
	}
	var problem struct {
		Status          int
		Code            atrium.Code
		Type, RequestID string
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	known := slices.ContainsFunc(rest.Codes, func(c rest.CodeInfo) bool { return c.Status == w.Code })
	if err := d.Decode(&problem); err != nil || d.More() || !known || w.Header().Get("Content-Type") != "application/problem+json" ||
		problem.Status != w.Code || rest.Info(problem.Code).Status != w.Code || problem.Type != "/errors/"+string(problem.Code) || problem.RequestID != id {
		return "not a problem document"
	}
	return ""
}
