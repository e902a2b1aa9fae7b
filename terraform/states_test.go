package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/terraform/internal/client"
)

// The provider is installed and used as docs/terraform.md says.
func TestDocumentedConfigurationWorks(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	content, err := os.ReadFile("../docs/terraform.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(content), "\n```hcl\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of HCL", len(blocks))
	}
	_, key := s.newTenant(t, "Documented")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key})
	const mirror = "/usr/local/share/terraform"
	if !strings.Contains(blocks[0], mirror) {
		t.Fatalf("the settings do not name %s", mirror)
	}
	w.file("tofu.rc", strings.ReplaceAll(blocks[0], mirror, w.install("1.0.0")))
	if err := os.Remove(filepath.Join(w.dir, "versions.tf")); err != nil {
		t.Fatal(err)
	}
	w.config(blocks[1])
	w.must("init", "-no-color", "-input=false")
	w.apply()
	w.noChanges()
	if out := w.must("fmt", "-check", "-diff", "-no-color"); out != "" {
		t.Errorf("the configuration is not formatted:\n%s", out)
	}
	if out := w.must("output", "-no-color", "-raw", "crm_key"); !strings.HasPrefix(out, "atr_") {
		t.Error("the output is not a key")
	}
	w.must("destroy", "-auto-approve", "-no-color", "-input=false")

	w.env["ATRIUM_KEY"] = s.operatorKey
	w.config(strings.Join(strings.SplitAfter(blocks[1], "provider \"atrium\" {}\n")[:1], "") + blocks[2])
	w.apply()
	w.noChanges()
}

// What a schedule has done is not a difference. What others do is.
func TestSchedulesRunTheirCourse(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "Schedule")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key})
	config := func(publish time.Time) string {
		return fmt.Sprintf(`
resource "atrium_brand" "b" { name = "b" }
resource "atrium_page" "p" {
  brand_id   = atrium_brand.b.id
  name       = "p"
  status     = "draft"
  publish_at = %q
}
`, publish.Format(time.RFC3339Nano))
	}
	w.config(config(time.Now().Add(-time.Minute)))
	wantErrors(t, w.errors("plan", "-input=false"), fault{"publish_at", "in the future"})
	w.config(config(time.Now().Add(time.Hour)))
	w.apply()
	w.noChanges()
	id := w.state()["atrium_page.p"]["id"].(string)
	path := "/pages/" + id
	s.call(t, http.MethodDelete, tenant, path+"/schedule", nil, nil)
	wantPlan(t, w.plan(), map[string]string{"atrium_page.p": "update"}) // the schedule is missing before its time
	at := time.Now().Add(10 * time.Second)
	w.config(config(at))
	w.apply()
	var page struct {
		Status   string
		Schedule struct{ PublishAt string }
	}
	for deadline := time.Now().Add(time.Minute); page.Status != "published"; time.Sleep(200 * time.Millisecond) {
		if s.call(t, http.MethodGet, tenant, path, nil, &page); time.Now().After(deadline) {
			t.Fatal("the page is not published")
		}
	}
	w.noChanges()
	s.call(t, http.MethodPost, tenant, path+"/archive", nil, nil)
	wantPlan(t, w.plan(), map[string]string{"atrium_page.p": "update"})
	w.config(strings.ReplaceAll(config(at), "draft", "archived"))
	w.noChanges()
}

func TestProvidersThatMakeTheirSecretsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "Secrets")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key})
	for _, kind := range []string{"github", "stripe", "hubspot", "slack", "shopify", "intercom", "segment", "meta", "standard_webhooks"} {
		_, err := s.client.Do(t.Context(), client.Request{Method: http.MethodPost, Tenant: tenant, Path: "/receivers", Body: map[string]any{"name": kind, "provider": kind}})
		w.config(fmt.Sprintf("resource \"atrium_receiver\" \"r\" {\n  name = \"r\"\n  provider_type = %q\n}\n", kind))
		_, code := w.tofu("validate", "-no-color")
		if server, plan := err == nil, code == 0; server != plan {
			t.Errorf("%s without a secret: accepted by the server %t, by validate %t", kind, server, plan)
		}
	}
}

// A change between the read and the change of an update is found by If-Match: the update is repeated if the change is of
// something that the provider does not manage, and fails otherwise.
func TestUpdatesDoNotOverwriteConcurrentChanges(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "Concurrent")
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	patches, concurrent := map[string]int{}, map[string]func(){} // by path: the requests, and what happens before the first
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			path := strings.TrimPrefix(r.URL.Path, "/manage/v0")
			mu.Lock()
			patches[path]++
			if change := concurrent[path]; change != nil && patches[path] == 1 {
				change()
			}
			mu.Unlock()
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": proxy.URL, "ATRIUM_KEY": key})
	const config = `
resource "atrium_brand" "b" { name = "b" }
resource "atrium_page" "p" {
  brand_id = atrium_brand.b.id
  name     = "p"
  title    = "before"
}
resource "atrium_webhook" "w" {
  url         = "https://hooks.example.com/"
  description = "before"
}
`
	w.config(config)
	w.apply()
	state := w.state()
	page, hook := "/pages/"+state["atrium_page.p"]["id"].(string), "/webhooks/"+state["atrium_webhook.w"]["id"].(string)
	change := func(r client.Request) func() {
		return func() {
			if _, err := s.client.Do(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
	}
	concurrent[page] = change(client.Request{Method: http.MethodPost, Tenant: tenant, Path: page + "/audiences", Body: map[string]any{"name": "a"}})
	concurrent[hook] = change(client.Request{Method: http.MethodPatch, Tenant: tenant, Path: hook, Body: map[string]any{"sources": []string{"crm"}}, IfMatch: "*"})
	w.config(strings.ReplaceAll(config, "before", "after"))
	out, code := w.tofu("apply", "-auto-approve", "-no-color", "-input=false")
	if code == 0 || strings.Count(out, "Error:") != 1 || !strings.Contains(out, "The attribute sources of atrium_webhook has changed since this plan was made") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if patches[page] != 2 || patches[hook] != 1 {
		t.Errorf("changed the page %d times, the webhook %d times", patches[page], patches[hook])
	}
	if title := w.state()["atrium_page.p"]["title"]; title != "after" {
		t.Errorf("the title is %s", title)
	}
	var webhook struct {
		Description string
		Sources     []string
	}
	if s.call(t, http.MethodGet, tenant, hook, nil, &webhook); webhook.Description != "before" || !slices.Equal(webhook.Sources, []string{"crm"}) {
		t.Errorf("the webhook is %+v", webhook)
	}
	w.apply()
	w.noChanges()
}
