package provider

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type keyResource struct{ base }

type keyView struct {
	KeyID     string   `json:"keyId"`
	TenantID  string   `json:"tenantId"`
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	Origins   []string `json:"origins"`
	CreatedAt string   `json:"createdAt"`
	ExpiresAt string   `json:"expiresAt"`
	RevokedAt string   `json:"revokedAt"`
	Key       string   `json:"key"`
}

type keyModel struct {
	ID                   types.String `tfsdk:"id"`
	TenantID             types.String `tfsdk:"tenant_id"`
	Name                 types.String `tfsdk:"name"`
	Scopes               types.Set    `tfsdk:"scopes"`
	Origins              types.Set    `tfsdk:"origins"`
	ExpiresInSeconds     types.Int64  `tfsdk:"expires_in_seconds"`
	RotationTrigger      types.String `tfsdk:"rotation_trigger"`
	RotationGraceSeconds types.Int64  `tfsdk:"rotation_grace_seconds"`
	CreatedAt            types.String `tfsdk:"created_at"`
	ExpiresAt            types.String `tfsdk:"expires_at"`
	Key                  types.String `tfsdk:"key"`
}

func newKey() resource.Resource {
	return &keyResource{base{kind: "key", path: "/keys", schema: keySchema}}
}

// maxKeySeconds is the longest life of a key: ten years.
const maxKeySeconds = 315360000

func keySchema() schema.Schema {
	return schema.Schema{
		Description: "An API key of a tenant. Destroying it revokes it permanently. A key that was revoked outside of Terraform, or that has expired, " +
			"is removed from the state: the next apply creates another one.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("key"),
			"tenant_id": tenantAttribute(),
			"name": schema.StringAttribute{
				Required: true, Description: "Name, 1 to 255 characters. Another one replaces the key.",
				Validators: []validator.String{length(1, 255)}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"scopes": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Description: "Scopes. Default: those of the external API. Others replace the key. `content:read` must be the only one, and `manage:events` requires " +
					"`manage:read` or `manage`.",
				Validators:    []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf(scopes...))},
				PlanModifiers: []planmodifier.Set{setplanmodifier.UseStateForUnknown(), setplanmodifier.RequiresReplaceIfConfigured()},
			},
			"origins": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				Description:   "Origins of the sites whose pages may use the key in browsers, 1 to 20. Only with the scope `content:read`. Others replace the key.",
				Validators:    []validator.Set{setvalidator.SizeBetween(1, 20), setvalidator.ValueStringsAre(isOrigin())},
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
			},
			"expires_in_seconds": schema.Int64Attribute{
				Optional:      true,
				Description:   "After how many seconds the key expires, at most ten years. Default: never. Another value replaces the key.",
				Validators:    []validator.Int64{int64validator.Between(1, maxKeySeconds)},
				PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()},
			},
			"rotation_trigger": schema.StringAttribute{Optional: true, Description: rotationTriggerText},
			"rotation_grace_seconds": schema.Int64Attribute{
				Optional: true, Description: rotationGraceText, Validators: []validator.Int64{int64validator.Between(0, maxGraceSeconds)},
			},
			"created_at": createdAttribute(),
			"expires_at": schema.StringAttribute{
				Computed: true, Description: "When it expires, in RFC 3339. Null if it never does.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"key": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description:   "The secret to send in `x-api-key`. Null after an import: the server returns it only once. Rotate the key to get a new one.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

// set takes over what the API has returned.
func (m *keyModel) set(v *keyView) {
	m.ID, m.TenantID, m.Name = types.StringValue(v.KeyID), types.StringValue(v.TenantID), types.StringValue(v.Name)
	m.Scopes, m.CreatedAt, m.ExpiresAt = textSet(v.Scopes), types.StringValue(v.CreatedAt), text(v.ExpiresAt)
	m.Origins = types.SetNull(types.StringType)
	if len(v.Origins) > 0 {
		m.Origins = textSet(v.Origins)
	}
	if v.Key != "" {
		m.Key = types.StringValue(v.Key)
	}
	if m.Key.IsUnknown() {
		m.Key = types.StringNull()
	}
}

// ModifyPlan plans a new secret if the key is rotated.
func (r *keyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.planTenant(ctx, req, resp)
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var before, after types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("rotation_trigger"), &before)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("rotation_trigger"), &after)...)
	if triggered(before, after) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("key"), types.StringUnknown())...)
	}
}

func (r *keyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m keyModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{"name": m.Name.ValueString()}
	if !m.Scopes.IsNull() && !m.Scopes.IsUnknown() {
		body["scopes"] = texts(m.Scopes)
	}
	if !m.Origins.IsNull() {
		body["origins"] = texts(m.Origins)
	}
	if !m.ExpiresInSeconds.IsNull() {
		body["expiresInSeconds"] = m.ExpiresInSeconds.ValueInt64()
	}
	made, replayed, err := create[keyView](ctx, &r.base, r.tenantOf(m.TenantID), body)
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(&made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	if !replayed {
		return
	}
	// The response with the secret was lost. Nothing has it, so no grace period is needed.
	rotated, err := rotate[keyView](ctx, &r.base, made.TenantID, r.one(m.ID)+"/rotate", map[string]any{"graceSeconds": 0})
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "rotate", err)
		return
	}
	m.set(&rotated)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *keyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m keyModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v keyView
	_, err := r.Get(ctx, r.tenantOf(m.TenantID), r.one(m.ID), nil, &v)
	err = r.checkMissing(ctx, r.tenantOf(m.TenantID), err)
	switch {
	case client.HasStatus(err, http.StatusNotFound):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		r.fault(ctx, &resp.Diagnostics, "read", err)
		return
	case v.RevokedAt != "" || expired(v.ExpiresAt):
		resp.Diagnostics.AddWarning("The key no longer works", "The key "+v.KeyID+" was revoked or has expired, which is permanent. It is removed from the state.")
		resp.State.RemoveResource(ctx)
		return
	}
	if m.CreatedAt.IsNull() && v.ExpiresAt != "" { // imported
		m.ExpiresInSeconds = lifeOf(&v)
	}
	m.set(&v)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func expired(at string) bool {
	t, err := time.Parse(time.RFC3339, at)
	return err == nil && !time.Now().Before(t)
}

// lifeOf returns after how many seconds a key expires. The server calculates the end shortly before it creates the key, so
// fractions are rounded up.
func lifeOf(v *keyView) types.Int64 {
	created, err := time.Parse(time.RFC3339, v.CreatedAt)
	if err != nil {
		return types.Int64Null()
	}
	expires, err := time.Parse(time.RFC3339, v.ExpiresAt)
	if err != nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64((expires.Sub(created) + time.Second - 1) / time.Second))
}

// Update rotates the key. Everything else of a key is permanent.
func (r *keyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior keyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if triggered(prior.RotationTrigger, plan.RotationTrigger) {
		v, err := rotate[keyView](ctx, &r.base, r.tenantOf(prior.TenantID), r.one(prior.ID)+"/rotate", graceBody(plan.RotationGraceSeconds))
		if err != nil {
			r.fault(ctx, &resp.Diagnostics, "rotate", err)
			return
		}
		plan.set(&v)
	}
	if plan.Key.IsUnknown() {
		plan.Key = prior.Key
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *keyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m keyModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	_, err := act[keyView](ctx, &r.base, r.tenantOf(m.TenantID), r.one(m.ID)+"/revoke")
	if err = r.ignoreMissing(ctx, r.tenantOf(m.TenantID), err); err != nil {
		r.fault(ctx, &resp.Diagnostics, "revoke", err)
	}
}
