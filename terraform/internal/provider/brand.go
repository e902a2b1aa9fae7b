package provider

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type brandResource struct{ base }

type brandView struct {
	BrandID   string `json:"brandId"`
	TenantID  string `json:"tenantId"`
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
}

type brandModel struct {
	ID        types.String `tfsdk:"id"`
	TenantID  types.String `tfsdk:"tenant_id"`
	Name      types.String `tfsdk:"name"`
	CreatedAt types.String `tfsdk:"created_at"`
}

func newBrand() resource.Resource {
	return &brandResource{base{kind: "brand", path: "/brands", schema: brandSchema}}
}

func brandSchema() schema.Schema {
	return schema.Schema{
		Description: "A brand, which groups pages. A brand whose pages are deleted stays on the server, because deleted pages can be undeleted: destroying it " +
			"removes it from the state, with a warning.",
		Attributes: map[string]schema.Attribute{
			"id":         idAttribute("brand"),
			"tenant_id":  tenantAttribute(),
			"name":       schema.StringAttribute{Required: true, Description: "Name, 1 to 255 characters.", Validators: []validator.String{length(1, 255)}},
			"created_at": createdAttribute(),
		},
	}
}

// set takes over what the API has returned.
func (m *brandModel) set(v *brandView) {
	m.ID, m.TenantID, m.Name = types.StringValue(v.BrandID), types.StringValue(v.TenantID), types.StringValue(v.Name)
	m.CreatedAt = types.StringValue(v.CreatedAt)
}

func (r *brandResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.planTenant(ctx, req, resp)
}

func (r *brandResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m brandModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	made, _, err := create[brandView](ctx, &r.base, r.tenantOf(m.TenantID), map[string]any{"name": m.Name.ValueString()})
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(&made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *brandResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m brandModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v brandView
	_, err := r.Get(ctx, r.tenantOf(m.TenantID), r.one(m.ID), nil, &v)
	err = r.checkMissing(ctx, r.tenantOf(m.TenantID), err)
	switch {
	case client.HasStatus(err, http.StatusNotFound):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		r.fault(ctx, &resp.Diagnostics, "read", err)
		return
	}
	m.set(&v)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *brandResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior brandModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	patch := map[string]any{}
	setText(patch, "name", prior.Name, plan.Name)
	v, diags := update(ctx, &r.base, r.tenantOf(prior.TenantID), r.one(prior.ID), patch, func(v brandView) diag.Diagnostics {
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

func (r *brandResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m brandModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	tenant := r.tenantOf(m.TenantID)
	err := r.remove(ctx, tenant, r.one(m.ID))
	if client.HasStatus(err, http.StatusConflict) {
		var pages struct {
			Items []struct{} `json:"items"`
		}
		if _, listErr := r.Get(ctx, tenant, "/pages", url.Values{"brandId": {m.ID.ValueString()}, "limit": {"1"}}, &pages); listErr == nil && len(pages.Items) == 0 {
			resp.Diagnostics.AddWarning("The brand stays on the server",
				"Deleted pages use the brand "+m.ID.ValueString()+", and could be undeleted. It is removed from the state only.")
			return
		}
	}
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "delete", err)
	}
}
