package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"atrium/terraform/internal/client"
)

// everything is a configuration with every resource and data source. The values in braces change in the tests.
const everything = `
variable "protect" { default = true }
variable "name"    { default = "first" }
variable "trigger" { default = "one" }
variable "wo"      { default = 1 }
variable "type"    { default = "github" }

resource "atrium_tenant" "shop" {
  name                = "Shop ${var.name}"
  deletion_protection = var.protect
}

resource "atrium_key" "crm" {
  tenant_id        = atrium_tenant.shop.id
  name             = "crm"
  scopes           = ["account_logs:write", "accounts:read"]
  rotation_trigger = var.trigger
}

resource "atrium_key" "site" {
  tenant_id          = atrium_tenant.shop.id
  name               = "site"
  scopes             = ["content:read"]
  origins            = ["https://www.example.com"]
  expires_in_seconds = 86400
}

resource "atrium_brand" "main" {
  tenant_id = atrium_tenant.shop.id
  name      = "Main ${var.name}"
}

resource "atrium_page" "launch" {
  tenant_id    = atrium_tenant.shop.id
  brand_id     = atrium_brand.main.id
  name         = "Launch"
  title        = "Title ${var.name}"
  status       = "published"
  unpublish_at = "2090-10-31T23:00:00+01:00"
  actions      = jsonencode([{ actionId = "call", actionIndex = 0, weight = 1.50 }])
  metadata     = jsonencode({ campaign = var.name, nested = { b = 1, a = [true, null] } })
  footer_links = <<-EOT
    [
      {"id": "company", "title": "Company"}
    ]
  EOT
}

resource "atrium_page" "least" {
  tenant_id = atrium_tenant.shop.id
  brand_id  = atrium_brand.main.id
  name      = "Least"
}

resource "atrium_webhook" "warehouse" {
  tenant_id          = atrium_tenant.shop.id
  url                = "https://hooks.example.com/${var.name}"
  description        = "For the warehouse"
  event_types        = ["account_log.created", "account.merged"]
  sources            = ["crm"]
  filter             = "data.payload.amount > 1000"
  format             = "cloudevents"
  ordered            = true
  rate_limit         = 50
  headers_wo         = { Authorization = "Bearer header-${var.name}-secret" }
  headers_wo_version = var.wo
  rotation_trigger   = var.trigger
}

resource "atrium_webhook" "least" {
  tenant_id = atrium_tenant.shop.id
  url       = "https://hooks.example.com/all"
  enabled   = false
}

resource "atrium_receiver" "pushes" {
  tenant_id        = atrium_tenant.shop.id
  name             = "Pushes ${var.name}"
  provider_type    = var.type
  mapping          = { domain = "\"example.com\"" }
  rotation_trigger = var.trigger
}

resource "atrium_receiver" "payments" {
  tenant_id         = atrium_tenant.shop.id
  name              = "Payments"
  provider_type     = "stripe"
  secret_wo         = "given-${var.name}-secret"
  secret_wo_version = var.wo
}

resource "atrium_receiver" "machine" {
  tenant_id     = atrium_tenant.shop.id
  name          = "Machine"
  provider_type = "hmac"
  source        = "machines"
  verification = {
    header           = "X-Signature"
    algorithm        = "sha256"
    encoding         = "hex"
    content          = "{timestamp}.{body}"
    timestamp_header = "X-Timestamp"
  }
}

data "atrium_tenant" "own" {
  tenant_id = atrium_tenant.shop.id
}
`

// operator returns the environment of a provider with the operator key.
func operator(s *server) map[string]string {
	return map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": s.operatorKey}
}

func (w *workspace) set(name, value string) { w.env["TF_VAR_"+name] = value }

func TestResourcesFollowTheirConfiguration(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	w := newWorkspace(t, operator(s))
	w.config(everything)
	output := w.must("validate", "-no-color") + w.apply()
	w.noChanges()
	state := w.state()
	id := func(address string) string { return state[address]["id"].(string) }
	tenant := id("atrium_tenant.shop")

	// secrets
	crm, hook, pushes := state["atrium_key.crm"]["key"].(string), state["atrium_webhook.warehouse"]["secret"].(string), state["atrium_receiver.pushes"]["secret"].(string)
	if !strings.HasPrefix(crm, "atr_") || !strings.HasPrefix(hook, "whsec_") || len(pushes) < 40 {
		t.Fatal("generated secrets are not in the state")
	}
	stored, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"header-first-secret", "given-first-secret"} {
		if strings.Contains(string(stored), secret) {
			t.Errorf("the state contains %s", secret)
		}
	}
	if secret := state["atrium_receiver.payments"]["secret"]; secret != nil {
		t.Error("a receiver with secret_wo has a secret in the state")
	}

	// update in place
	for name, value := range map[string]string{"name": "second", "trigger": "two", "wo": "2"} {
		w.set(name, value)
	}
	updated := map[string]string{
		"atrium_tenant.shop": "update", "atrium_key.crm": "update", "atrium_brand.main": "update", "atrium_page.launch": "update", "atrium_webhook.warehouse": "update",
		"atrium_receiver.pushes": "update", "atrium_receiver.payments": "update",
	}
	wantPlan(t, w.plan(), updated)
	output += w.must("show", "-no-color", "plan") + w.must("apply", "-no-color", "plan")
	w.noChanges()
	after := w.state()
	for _, secret := range []struct{ address, attribute string }{{"atrium_key.crm", "key"}, {"atrium_webhook.warehouse", "secret"}, {"atrium_receiver.pushes", "secret"}} {
		before, now := state[secret.address], after[secret.address]
		if before["id"] != now["id"] || before[secret.attribute] == now[secret.attribute] || now[secret.attribute] == nil {
			t.Errorf("%s is not rotated in place", secret.address)
		}
	}
	var page struct {
		Title, Status string
		Metadata      struct{ Campaign string }
		Schedule      struct{ UnpublishAt string }
	}
	s.call(t, http.MethodGet, tenant, "/pages/"+id("atrium_page.launch"), nil, &page)
	if page.Title != "Title second" || page.Status != "published" || page.Metadata.Campaign != "second" || page.Schedule.UnpublishAt != "2090-10-31T22:00:00.000Z" {
		t.Errorf("the page is %+v", page)
	}
	for _, secret := range []string{
		crm, hook, pushes, after["atrium_key.crm"]["key"].(string), after["atrium_webhook.warehouse"]["secret"].(string), "header-first-secret", "header-second-secret",
		"given-first-secret", "given-second-secret", s.operatorKey,
	} {
		if strings.Contains(output, secret) {
			t.Error("the output of a command contains a secret")
		}
	}
	rotated, err := client.New(s.url, after["atrium_key.crm"]["key"].(string), "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rotated.Do(t.Context(), client.Request{Method: http.MethodGet, Path: "/tenant"}); !client.HasStatus(err, http.StatusForbidden) {
		t.Errorf("the rotated key is not accepted: %v", err) // it works, without the scope for this
	}

	// changed outside
	s.call(t, http.MethodPatch, tenant, "/webhooks/"+id("atrium_webhook.warehouse"), map[string]any{"url": "https://other.example.com/", "eventTypes": []string{}}, nil)
	s.call(t, http.MethodPost, tenant, "/webhooks/"+id("atrium_webhook.least")+"/enable", nil, nil)
	s.call(t, http.MethodPatch, tenant, "/receivers/"+id("atrium_receiver.machine"), map[string]any{"mapping": map[string]any{"type": `"x"`}}, nil)
	s.call(t, http.MethodPost, tenant, "/pages/"+id("atrium_page.launch")+"/archive", nil, nil)
	s.call(t, http.MethodPost, tenant, "/pages/"+id("atrium_page.least")+"/publish", nil, nil) // its status is not configured
	s.call(t, http.MethodPatch, tenant, "/pages/"+id("atrium_page.launch"), map[string]any{
		"footerLinks": json.RawMessage(`[{"title": "Company", "id": "company"}]`), // equal
	}, nil)
	wantPlan(t, w.plan(), map[string]string{
		"atrium_webhook.warehouse": "update", "atrium_webhook.least": "update", "atrium_receiver.machine": "update", "atrium_page.launch": "update",
	})
	w.must("apply", "-no-color", "plan")
	w.noChanges()

	// deleted outside
	for _, path := range []string{"/webhooks/" + id("atrium_webhook.least"), "/receivers/" + id("atrium_receiver.machine"), "/pages/" + id("atrium_page.least")} {
		s.call(t, http.MethodDelete, tenant, path, nil, nil)
	}
	s.call(t, http.MethodPost, tenant, "/keys/"+id("atrium_key.site")+"/revoke", nil, nil)
	wantPlan(t, w.plan(), map[string]string{"atrium_webhook.least": "create", "atrium_receiver.machine": "create", "atrium_page.least": "create", "atrium_key.site": "create"})
	w.must("apply", "-no-color", "plan")
	w.noChanges()

	// changed between the plan and its application
	w.set("name", "third")
	w.plan()
	s.call(t, http.MethodPatch, tenant, "/brands/"+id("atrium_brand.main"), map[string]any{"name": "Else"}, nil)
	found := w.errors("apply", "plan")
	wantErrors(t, found, fault{"name", "has changed since this plan was made"})
	w.apply()

	// replaced
	w.set("type", "segment")
	wantPlan(t, w.plan(), map[string]string{"atrium_receiver.pushes": "delete,create"})
	w.must("apply", "-no-color", "plan")

	// imported: only the secrets are missing
	state = w.state()
	for address, attributes := range state {
		if strings.HasPrefix(address, "data.") {
			continue
		}
		w.must("state", "rm", address)
		name := attributes["id"].(string)
		if address != "atrium_tenant.shop" {
			name = tenant + "/" + name
		}
		w.must("import", "-no-color", "-input=false", address, name)
	}
	// Triggers and versions are in no response: the first apply after an import rotates.
	wantPlan(t, w.plan(), map[string]string{
		"atrium_key.crm": "update", "atrium_webhook.warehouse": "update", "atrium_receiver.pushes": "update", "atrium_receiver.payments": "update",
	})
	w.must("apply", "-no-color", "plan")
	w.noChanges()

	// protected, then destroyed
	wantErrors(t, w.errors("destroy", "-auto-approve", "-input=false", "-target=atrium_tenant.shop", "-refresh=false"), fault{"", "deletion_protection = false"})
	w.set("protect", "false")
	w.apply()
	w.must("destroy", "-auto-approve", "-no-color", "-input=false")
	if status := s.status(t, "", "/tenants/"+tenant); status != http.StatusNotFound {
		t.Errorf("the tenant is left: %d", status)
	}
	if left := w.state(); len(left) > 0 {
		t.Errorf("left in the state: %v", slices.Collect(maps.Keys(left)))
	}
}

func TestDestroyLeavesOnlyTheBrandOfDeletedPages(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	tenant, key := s.newTenant(t, "Destroy")
	w := newWorkspace(t, map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key})
	w.config(`
resource "atrium_key" "k" { name = "k" }
resource "atrium_brand" "used" { name = "used" }
resource "atrium_brand" "free" { name = "free" }
resource "atrium_page" "p" {
  brand_id = atrium_brand.used.id
  name     = "p"
}
resource "atrium_webhook" "w" { url = "https://hooks.example.com/" }
resource "atrium_receiver" "r" {
  name          = "r"
  provider_type = "segment"
}
`)
	w.apply()
	state := w.state()
	if out := w.must("destroy", "-auto-approve", "-no-color", "-input=false"); !strings.Contains(out, "The brand stays on the server") {
		t.Errorf("no warning about the brand:\n%s", out)
	}
	for _, path := range []string{"/webhooks", "/receivers", "/pages", "/keys?state=active", "/brands"} {
		name, query, _ := strings.Cut(path, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []struct{ Name string } }
		if _, err := s.client.Get(t.Context(), tenant, name, values, &list); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, item := range list.Items {
			if item.Name != "terraform" { // the key of the test
				left = append(left, item.Name)
			}
		}
		want := map[string][]string{"/brands": {"used"}}[path]
		if !slices.Equal(left, want) {
			t.Errorf("%s: left %v, want %v", path, left, want)
		}
	}
	if got := s.status(t, tenant, "/brands/"+state["atrium_brand.free"]["id"].(string)); got != http.StatusNotFound {
		t.Errorf("the unused brand is left: %d", got)
	}
}

func TestFaultsAreReportedAtTheirAttributes(t *testing.T) {
	t.Parallel()
	s := atriumServer(t)
	_, key := s.newTenant(t, "Faults")
	env := map[string]string{"ATRIUM_SERVER": s.url, "ATRIUM_KEY": key}

	t.Run("of the API", func(t *testing.T) {
		w := newWorkspace(t, env)
		w.config(`
resource "atrium_webhook" "w" {
  url        = "http://hooks.example.com/"
  filter     = "nothing =="
  headers_wo = { Host = "x" }
  headers_wo_version = 1
}
`)
		wantErrors(t, w.errors("apply", "-auto-approve", "-input=false"), fault{"url", "url: must"}, fault{"filter", "filter: "}, fault{"headers_wo", "Host"})
		w.config(`
resource "atrium_receiver" "r" {
  name          = "r"
  provider_type = "hmac"
  verification  = { header = "X-Signature" }
  mapping = {
    domain = "nowhere("
    type   = "1 +"
  }
}
`)
		wantErrors(t, w.errors("apply", "-auto-approve", "-input=false"), fault{"resource", "verification.algorithm: is required"}, fault{"resource", "verification.encoding: is required"},
			fault{"resource", "mapping.domain: "}, fault{"resource", "mapping.type: "})
	})

	t.Run("before a plan", func(t *testing.T) {
		w := newWorkspace(t, env)
		w.config(`
resource "atrium_key" "k" {
  name               = ""
  scopes             = ["manage:everything"]
  origins            = ["https://www.example.com:443"]
  expires_in_seconds = 0
}
resource "atrium_webhook" "w" {
  url         = "https://hooks.example.com/"
  event_types = ["account.renamed"]
  format      = "xml"
  rate_limit  = 10001
  headers_wo  = { A = "b" }
}
resource "atrium_receiver" "r" {
  name          = "r"
  provider_type = "stripe"
  verification  = { header = "X" }
}
resource "atrium_page" "p" {
  brand_id     = "brand"
  name         = "p"
  actions      = jsonencode({})
  metadata     = jsonencode(null)
  status       = "deleted"
  publish_at   = "tomorrow"
}
`)
		wantErrors(t, w.errors("validate"),
			fault{"name", "between 1"}, fault{"scopes", "manage:everything"}, fault{"origins", "default port"}, fault{"expires_in_seconds", "between 1"},
			fault{"event_types", "account.renamed"}, fault{"format", "cloudevents"}, fault{"rate_limit", "10000"}, fault{"headers_wo", "headers_wo_version"},
			fault{"verification", "takes no verification"}, fault{"resource", "requires secret_wo"}, fault{"actions", "array"}, fault{"metadata", "null"},
			fault{"status", "published"}, fault{"publish_at", "RFC 3339"})
	})

	t.Run("of the provider", func(t *testing.T) {
		w := newWorkspace(t, nil)
		w.config(`
provider "atrium" {}
data "atrium_tenant" "own" {}
`)
		out, code := w.tofu("plan", "-no-color", "-input=false")
		if code == 0 || !strings.Contains(out, "No server") || !strings.Contains(out, "ATRIUM_SERVER") || !strings.Contains(out, "No API key") || !strings.Contains(out, "ATRIUM_KEY") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		w.env["ATRIUM_SERVER"], w.env["ATRIUM_KEY"] = s.url, "atr_wrong"
		out, code = w.tofu("plan", "-no-color", "-input=false")
		if code == 0 || !strings.Contains(out, "Check api_key") || strings.Contains(out, "atr_wrong") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		w.config(`
provider "atrium" { server = "atrium.example.com" }
data "atrium_tenant" "own" {}
`)
		wantErrors(t, w.errors("validate"), fault{"provider", "must be a URL"})
	})
}
