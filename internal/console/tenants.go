package console

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"atrium"
)

// nothing is the page of a path that does not exist.
func nothing(*request) error { return atrium.NotFound() }

// home shows a user its tenant, and an operator the list of tenants.
func (c *Console) home(r *request) error {
	if r.user.TenantID == "" {
		http.Redirect(r.w, r.http, prefix+"/tenants", http.StatusSeeOther)
		return nil
	}
	r.tenant = r.user.TenantID
	return c.tenantHome(r)
}

func (c *Console) tenantHome(r *request) error {
	http.Redirect(r.w, r.http, r.path("accounts"), http.StatusSeeOther)
	return nil
}

func (c *Console) listTenants(r *request) error {
	if r.user.TenantID != "" {
		return atrium.NotFound()
	}
	tenants, err := readList[tenant](r, "/tenants")
	if err != nil {
		return err
	}
	return r.show("tenants", "", "Tenants", tenants)
}

func (c *Console) createTenant(r *request) error {
	if r.user.TenantID != "" {
		return atrium.NotFound()
	}
	a, err := r.call(call{method: http.MethodPost, path: "/tenants", body: map[string]any{"name": r.form("name")}})
	if err != nil {
		return err
	}
	var made tenant
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	r.tenant = made.TenantID
	return r.redirect(r.path("accounts"), "created")
}
