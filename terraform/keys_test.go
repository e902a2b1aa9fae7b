package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"atrium/terraform/internal/client"
)

func TestKeyFileAndDefaultTenant(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, _ := s.newTenant(t, "Default")
	other, _ := s.newTenant(t, "Other")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_TENANT": tenant})
	w.file("key", s.operatorKey+"\n")
	w.env["ATRIUM_KEY_FILE"] = filepath.Join(w.dir, "key")
	w.config(`
resource "atrium_brand" "b" { name = "b" }
data "atrium_tenant" "own" {}
data "atrium_account" "acme" { domain = "https://WWW.Acme.example/" }
`)
	found := w.errors("plan", "-input=false")
	wantErrors(t, found, fault{"data", "No account of the tenant has the domain"})
	s.call(t, http.MethodPost, tenant, "/accounts", map[string]any{"domain": "acme.example", "name": "Acme"}, nil)
	w.apply()
	w.noChanges()
	state := w.state()
	if state["atrium_brand.b"]["tenant_id"] != tenant || state["data.atrium_tenant.own"]["name"] != "Default" || state["data.atrium_account.acme"]["canonical_domain"] != "acme.example" {
		t.Errorf("state %v", state)
	}
	w.env["ATRIUM_TENANT"] = other
	w.config(`resource "atrium_brand" "b" { name = "b" }`)
	wantPlan(t, w.plan(), map[string]string{"atrium_brand.b": "delete,create"})
}

// A create request whose response is lost is repeated. There is one key, and its secret works.
func TestLostResponseCreatesOneKeyWithASecret(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "Lost")
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	lost := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/manage/v0/keys" && lost == 0 {
			lost++
			forward.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": proxy.URL, "ATRIUM_KEY": key})
	w.config(`
resource "atrium_key" "k" {
  name   = "retried"
  scopes = ["manage:read"]
}
`)
	w.apply()
	w.noChanges()
	if lost != 1 {
		t.Fatal("no response was lost")
	}
	c, err := client.New(s.url, w.state()["atrium_key.k"]["key"].(string), "test")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []struct{ Name string } }
	if _, err := c.Get(t.Context(), tenant, "/keys", nil, &list); err != nil {
		t.Fatalf("the key does not work: %v", err)
	}
	if n := strings.Count(fmt.Sprint(list.Items), "retried"); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
}

// With the key of another tenant, resources seem not to exist. They stay in the state.
func TestKeyOfAnotherTenantIsAnError(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "One")
	_, other := s.newTenant(t, "Another")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key})
	w.config(`
resource "atrium_brand" "b" { name = "b" }
resource "atrium_key" "k" { name = "k" }
`)
	w.apply()
	w.env["ATRIUM_KEY"] = other
	wantErrors(t, w.errors("plan", "-input=false"), fault{"resource", "belongs to " + tenant}, fault{"resource", "belongs to " + tenant})
	wantErrors(t, w.errors("destroy", "-auto-approve", "-input=false", "-refresh=false"), fault{"", "belongs to " + tenant}, fault{"", "belongs to " + tenant})
	w.env["ATRIUM_KEY"] = key
	w.noChanges()

	// With an operator key, resources of a tenant that was deleted do not exist.
	w.env["ATRIUM_KEY"] = s.operatorKey
	if _, err := s.client.Do(t.Context(), client.Request{Method: http.MethodDelete, Path: "/tenants/" + tenant, Query: url.Values{"confirmName": {"One"}}}); err != nil {
		t.Fatal(err)
	}
	w.must("apply", "-refresh-only", "-auto-approve", "-no-color", "-input=false")
	if left := w.state(); len(left) > 0 {
		t.Errorf("left in the state: %v", left)
	}
}
