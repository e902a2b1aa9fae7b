package provider

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type tenantResource struct{ base }

type tenantView struct {
	TenantID  string    `json:"tenantId"`
	Name      string    `json:"name"`
	CreatedAt string    `json:"createdAt"`
	Deletion  *struct{} `json:"deletion"`
}

type tenantModel struct {
	ID                 types.String `tfsdk:"id"`
	Name               types.String `tfsdk:"name"`
	CreatedAt          types.String `tfsdk:"created_at"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
}

func newTenant() resource.Resource {
	return &tenantResource{base{kind: "tenant", path: "/tenants", schema: tenantSchema}}
}

func tenantSchema() schema.Schema {
	return schema.Schema{
		Description: "A tenant. The provider needs an operator key to manage tenants.",
		Attributes: map[string]schema.Attribute{
			"id":         idAttribute("tenant"),
			"name":       schema.StringAttribute{Required: true, Description: "Name, 1 to 255 characters.", Validators: []validator.String{length(1, 255)}},
			"created_at": createdAttribute(),
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				Description: "Whether destroying the tenant is an error. A deletion is permanent and includes all data of the tenant. Default: `true`. " +
					"Apply `false` before you destroy it.",
			},
		},
	}
}

// set takes over what the API has returned.
func (m *tenantModel) set(v *tenantView) {
	m.ID, m.Name, m.CreatedAt = types.StringValue(v.TenantID), types.StringValue(v.Name), types.StringValue(v.CreatedAt)
}

func (r *tenantResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m tenantModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	made, _, err := create[tenantView](ctx, &r.base, "", map[string]any{"name": m.Name.ValueString()})
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(&made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *tenantResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m tenantModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v tenantView
	_, err := r.Get(ctx, "", r.one(m.ID), nil, &v)
	switch {
	case client.HasStatus(err, http.StatusNotFound) || err == nil && v.Deletion != nil:
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		r.fault(ctx, &resp.Diagnostics, "read", err)
		return
	}
	m.set(&v)
	if m.DeletionProtection.IsNull() { // imported
		m.DeletionProtection = types.BoolValue(true)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *tenantResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior tenantModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	patch := map[string]any{}
	if !plan.Name.Equal(prior.Name) {
		patch["name"] = plan.Name.ValueString()
	}
	v, diags := update(ctx, &r.base, "", r.one(prior.ID), patch, func(v tenantView) diag.Diagnostics {
		current := prior
		current.set(&v)
		return r.checkUnchanged(ctx, current, req.State, req.Plan)
	})
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	plan.set(&v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// How long the deletion of a tenant is waited for, and how often its progress is read.
const (
	deletionPatience = 10 * time.Minute
	deletionInterval = time.Second
)

func (r *tenantResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m tenantModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if m.DeletionProtection.ValueBool() {
		resp.Diagnostics.AddAttributeError(path.Root("deletion_protection"), "The tenant is protected",
			"Destroying "+m.ID.ValueString()+" would delete all of its data permanently. Apply deletion_protection = false first.")
		return
	}
	// The name in the state confirms the deletion: the server refuses it if the tenant has another one by now.
	_, err := r.Do(ctx, client.Request{Method: http.MethodDelete, Path: r.one(m.ID), Query: url.Values{"confirmName": {m.Name.ValueString()}}})
	for end := time.Now().Add(deletionPatience); err == nil; {
		var v tenantView
		if _, err = r.Get(ctx, "", r.one(m.ID), nil, &v); err != nil {
			break
		}
		if time.Now().After(end) {
			resp.Diagnostics.AddWarning("The tenant is still being deleted", "The server continues to delete the data of "+m.ID.ValueString()+" in the background.")
			return
		}
		err = wait(ctx, deletionInterval)
	}
	if err != nil && !client.HasStatus(err, http.StatusNotFound) {
		r.fault(ctx, &resp.Diagnostics, "delete", err)
	}
}

// ImportState imports a tenant by its identifier.
func (r *tenantResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if !idPattern("tenant").MatchString(req.ID) {
		resp.Diagnostics.AddError("Not an identifier for import", "Import atrium_tenant by its identifier, such as tenant_01kerkhc50emq8k9w39qsaekf4.")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
