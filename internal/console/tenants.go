package console

import (
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"atrium"
)

// nothing is the page of a path that does not exist. A slash after the path of the console is ignored.
func nothing(r *request) error {
	if r.http.URL.Path == prefix+"/" {
		http.Redirect(r.w, r.http, prefix, http.StatusMovedPermanently)
		return nil
	}
	return atrium.NotFound()
}

// home shows a user its tenant, and an operator the list of tenants.
func (c *Console) home(r *request) error {
	if r.user.TenantID == "" {
		http.Redirect(r.w, r.http, prefix+"/tenants", http.StatusSeeOther)
		return nil
	}
	r.tenant = r.user.TenantID
	http.Redirect(r.w, r.http, r.path(), http.StatusSeeOther)
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
	a, err := r.call(call{method: http.MethodPost, path: "/tenants", body: map[string]any{"name": r.form("name")}})
	if err != nil {
		return err
	}
	var made tenant
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	r.tenant = made.TenantID
	return r.redirect(r.path(), "tenantcreated", r.form("name"))
}

type tenantPage struct {
	Tenant tenant
	Tag    string // what the operator has seen
}

// showTenant shows a tenant to operators, also while it is being deleted.
func (c *Console) showTenant(r *request) error {
	if r.user.TenantID != "" {
		return atrium.NotFound()
	}
	var p tenantPage
	var err error
	if p.Tag, err = r.asOperator().get(&p.Tenant, "/tenants/"+string(r.tenant), nil); err != nil {
		return err
	}
	if p.Tenant.Deletion != nil { // nothing else of the tenant can be seen
		r.tenant = ""
	}
	return r.show("tenant", "", p.Tenant.Name, p)
}

// asOperator returns the request without its tenant, for operations on tenants.
func (r *request) asOperator() *request {
	operator := *r
	operator.tenant = ""
	return &operator
}

// changeTenant renames a tenant, or begins to delete it when the operator has typed its name.
func (c *Console) changeTenant(r *request) error {
	path, back := "/tenants/"+string(r.tenant), r.path("tenant")
	change := call{method: http.MethodPatch, path: path, ifMatch: r.form("tag"), body: map[string]any{"name": r.form("name")}}
	message := "tenantrenamed"
	switch r.http.PathValue("action") {
	case "rename":
	case "delete":
		var current tenant
		if _, err := r.asOperator().get(&current, path, nil); err != nil {
			return err
		}
		if name := r.form("confirmName"); name != current.Name {
			return wrong("confirmName", "You typed %q, which is not the name of the tenant.", atrium.Shorten(80, name))
		}
		change.method, change.body, message = http.MethodDelete, nil, "deleting"
		change.query = url.Values{"confirmName": {r.form("confirmName")}}
	default:
		return atrium.NotFound()
	}
	if _, err := r.asOperator().call(change); err != nil {
		return err
	}
	return r.redirect(back, message)
}
