package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type webhookResource struct{ base }

type webhookView struct {
	WebhookID      string   `json:"webhookId"`
	TenantID       string   `json:"tenantId"`
	Description    string   `json:"description"`
	URL            string   `json:"url"`
	EventTypes     []string `json:"eventTypes"`
	Sources        []string `json:"sources"`
	EntryTypes     []string `json:"entryTypes"`
	AccountID      string   `json:"accountId"`
	Filter         string   `json:"filter"`
	Format         string   `json:"format"`
	Ordered        bool     `json:"ordered"`
	RateLimit      int64    `json:"rateLimit"`
	Enabled        bool     `json:"enabled"`
	DisabledReason string   `json:"disabledReason"`
	CreatedAt      string   `json:"createdAt"`
	Secret         string   `json:"secret"`
}

type webhookModel struct {
	ID                   types.String `tfsdk:"id"`
	TenantID             types.String `tfsdk:"tenant_id"`
	URL                  types.String `tfsdk:"url"`
	Description          types.String `tfsdk:"description"`
	EventTypes           types.Set    `tfsdk:"event_types"`
	Sources              types.Set    `tfsdk:"sources"`
	EntryTypes           types.Set    `tfsdk:"entry_types"`
	AccountID            types.String `tfsdk:"account_id"`
	Filter               types.String `tfsdk:"filter"`
	Format               types.String `tfsdk:"format"`
	Ordered              types.Bool   `tfsdk:"ordered"`
	RateLimit            types.Int64  `tfsdk:"rate_limit"`
	HeadersWO            types.Map    `tfsdk:"headers_wo"`
	HeadersWOVersion     types.Int64  `tfsdk:"headers_wo_version"`
	Enabled              types.Bool   `tfsdk:"enabled"`
	DisabledReason       types.String `tfsdk:"disabled_reason"`
	RotationTrigger      types.String `tfsdk:"rotation_trigger"`
	RotationGraceSeconds types.Int64  `tfsdk:"rotation_grace_seconds"`
	CreatedAt            types.String `tfsdk:"created_at"`
	Secret               types.String `tfsdk:"secret"`
}

func newWebhook() resource.Resource {
	return &webhookResource{base{kind: "webhook", path: "/webhooks", schema: webhookSchema, names: map[string]string{"headers": "headers_wo"}}}
}

// selection is a set of texts that selects events: all if it is empty.
func selection(description string, of validator.String) schema.SetAttribute {
	return schema.SetAttribute{
		Optional: true, Computed: true, ElementType: types.StringType, Description: description,
		Default:    setdefault.StaticValue(textSet(nil)),
		Validators: []validator.Set{setvalidator.SizeAtMost(50), setvalidator.ValueStringsAre(of)},
	}
}

func webhookSchema() schema.Schema {
	return schema.Schema{
		Description: "A webhook: a subscription of an endpoint to events. The server needs the setting `secrets-key-file`. The first webhook of a tenant " +
			"switches its events on; they stay on.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("webhook"),
			"tenant_id": tenantAttribute(),
			"url": schema.StringAttribute{
				Required: true, Validators: []validator.String{length(1, 2048)},
				Description: "URL of the endpoint: https, without a user name and a fragment. The setting `webhook-allow` of the server permits others.",
			},
			"description": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(""), Validators: []validator.String{length(0, 200)},
				Description: "What it is for, at most 200 characters.",
			},
			"event_types": selection("Types of events, at most 50. Default: all.", stringvalidator.OneOf(eventTypes...)),
			"sources":     selection("Sources of entries, at most 50. Default: all. With one, only events about entries are selected.", length(1, 100)),
			"entry_types": selection("Types of entries, at most 50. Default: all. With one, only events about entries are selected.", length(1, 100)),
			"account_id": schema.StringAttribute{
				Optional: true, Description: "The account that events are about. Default: any.", Validators: []validator.String{isID("account")},
			},
			"filter": schema.StringAttribute{
				Optional: true, Validators: []validator.String{length(1, 4096)},
				Description: "A CEL expression over `type`, `source`, `entryType`, `accountId` and `data`, such as `data.payload.amount > 1000`. Default: none.",
			},
			"format": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("standard"), Validators: []validator.String{stringvalidator.OneOf(formats...)},
				Description: "Form of requests: `standard`, `legacy` or `cloudevents`. Default: `standard`.",
			},
			"ordered": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Whether the events of an account are sent one at a time, in order. Default: `false`.",
			},
			"rate_limit": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(0), Validators: []validator.Int64{int64validator.Between(0, 10000)},
				Description: "Requests per second at most, up to 10000; 0 for no limit. Default: 0.",
			},
			"headers_wo": schema.MapAttribute{
				Optional: true, WriteOnly: true, Sensitive: true, ElementType: types.StringType,
				Description: "Headers of every request, such as `Authorization`, at most 20. Terraform does not store them; they are sent when the webhook is created " +
					"and when `headers_wo_version` changes.",
				Validators: []validator.Map{
					mapvalidator.SizeBetween(1, 20), mapvalidator.ValueStringsAre(length(1, 4096)), mapvalidator.AlsoRequires(path.MatchRoot("headers_wo_version")),
				},
			},
			"headers_wo_version": schema.Int64Attribute{
				Optional: true, Description: "Any number. Change it to send `headers_wo` again. Without it, the webhook has no headers.",
			},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				Description: "Whether events are sent. The server disables a webhook whose attempts have failed for five days; the next apply enables it again. " +
					"Default: `true`.",
			},
			"disabled_reason": schema.StringAttribute{
				Computed: true, Description: "Why it is disabled: `operator`, `failures`, `gone` or `copy`. Null while it is enabled.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"rotation_trigger": schema.StringAttribute{Optional: true, Description: rotationTriggerText},
			"rotation_grace_seconds": schema.Int64Attribute{
				Optional: true, Description: rotationGraceText, Validators: []validator.Int64{int64validator.Between(0, maxGraceSeconds)},
			},
			"created_at": createdAttribute(),
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description:   "The secret that signs requests. Null after an import: the server returns it only once. Rotate it to get a new one.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

// set takes over what the API has returned.
func (m *webhookModel) set(v *webhookView) {
	m.ID, m.TenantID, m.URL, m.Description = types.StringValue(v.WebhookID), types.StringValue(v.TenantID), types.StringValue(v.URL), types.StringValue(v.Description)
	m.EventTypes, m.Sources, m.EntryTypes = textSet(v.EventTypes), textSet(v.Sources), textSet(v.EntryTypes)
	m.AccountID, m.Filter, m.Format = text(v.AccountID), text(v.Filter), types.StringValue(v.Format)
	m.Ordered, m.RateLimit, m.Enabled = types.BoolValue(v.Ordered), types.Int64Value(v.RateLimit), types.BoolValue(v.Enabled)
	m.DisabledReason, m.CreatedAt = text(v.DisabledReason), types.StringValue(v.CreatedAt)
	m.HeadersWO = types.MapNull(types.StringType)
	if v.Secret != "" {
		m.Secret = types.StringValue(v.Secret)
	}
	if m.Secret.IsUnknown() {
		m.Secret = types.StringNull()
	}
}

// headers returns the headers of a configuration, empty if it has none.
func headers(m types.Map) map[string]string {
	out := map[string]string{}
	for name, e := range m.Elements() {
		if v, ok := e.(types.String); ok {
			out[name] = v.ValueString()
		}
	}
	return out
}

// ModifyPlan plans what a change of other attributes changes.
func (r *webhookResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.planTenant(ctx, req, resp)
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var plan, prior webhookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if triggered(prior.RotationTrigger, plan.RotationTrigger) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("secret"), types.StringUnknown())...)
	}
	if !plan.Enabled.Equal(prior.Enabled) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("disabled_reason"), types.StringUnknown())...)
	}
}

func (r *webhookResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m, config webhookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{
		"url": m.URL.ValueString(), "description": m.Description.ValueString(), "eventTypes": texts(m.EventTypes), "sources": texts(m.Sources),
		"entryTypes": texts(m.EntryTypes), "format": m.Format.ValueString(), "ordered": m.Ordered.ValueBool(), "rateLimit": m.RateLimit.ValueInt64(),
	}
	if !m.AccountID.IsNull() {
		body["accountId"] = m.AccountID.ValueString()
	}
	if !m.Filter.IsNull() {
		body["filter"] = m.Filter.ValueString()
	}
	if h := headers(config.HeadersWO); len(h) > 0 {
		body["headers"] = h
	}
	enabled := m.Enabled
	made, replayed, err := create[webhookView](ctx, &r.base, r.tenantOf(m.TenantID), body)
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(&made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	if replayed { // the response with the secret was lost
		if made, err = rotate[webhookView](ctx, &r.base, made.TenantID, r.one(m.ID)+"/rotate_secret", map[string]any{"graceSeconds": 0}); err != nil {
			r.fault(ctx, &resp.Diagnostics, "rotate the secret of", err)
			return
		}
		m.set(&made)
	}
	r.enable(ctx, &m, enabled, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// enable enables or disables the webhook.
func (r *webhookResource) enable(ctx context.Context, m *webhookModel, enabled types.Bool, diags *diag.Diagnostics) {
	if m.Enabled.Equal(enabled) {
		return
	}
	verb := "disable"
	if enabled.ValueBool() {
		verb = "enable"
	}
	v, err := act[webhookView](ctx, &r.base, m.TenantID.ValueString(), r.one(m.ID)+"/"+verb)
	if err != nil {
		r.fault(ctx, diags, verb, err)
		return
	}
	m.set(&v)
}

func (r *webhookResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m webhookModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v webhookView
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

func (r *webhookResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior, config webhookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	tenant := r.tenantOf(prior.TenantID)
	v, diags := update(ctx, &r.base, tenant, r.one(prior.ID), webhookPatch(&prior, &plan, &config), func(v webhookView) diag.Diagnostics {
		current := prior
		current.set(&v)
		return r.checkUnchanged(ctx, current, req.State, req.Plan)
	})
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	wanted := plan
	plan.Secret, plan.RotationTrigger = prior.Secret, prior.RotationTrigger
	plan.set(&v)
	r.enable(ctx, &plan, wanted.Enabled, &resp.Diagnostics)
	if triggered(prior.RotationTrigger, wanted.RotationTrigger) && !resp.Diagnostics.HasError() {
		v, err := rotate[webhookView](ctx, &r.base, tenant, r.one(prior.ID)+"/rotate_secret", graceBody(wanted.RotationGraceSeconds))
		if err != nil {
			r.fault(ctx, &resp.Diagnostics, "rotate the secret of", err)
		} else {
			plan.set(&v)
		}
	}
	if !resp.Diagnostics.HasError() {
		plan.RotationTrigger = wanted.RotationTrigger
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// webhookPatch returns the members of a webhook to change.
func webhookPatch(prior, plan, config *webhookModel) map[string]any {
	patch := map[string]any{}
	setText(patch, "url", prior.URL, plan.URL)
	setText(patch, "description", prior.Description, plan.Description)
	setText(patch, "accountId", prior.AccountID, plan.AccountID)
	setText(patch, "filter", prior.Filter, plan.Filter)
	setText(patch, "format", prior.Format, plan.Format)
	for name, sets := range map[string][2]types.Set{
		"eventTypes": {prior.EventTypes, plan.EventTypes}, "sources": {prior.Sources, plan.Sources}, "entryTypes": {prior.EntryTypes, plan.EntryTypes},
	} {
		if !sets[0].Equal(sets[1]) {
			patch[name] = texts(sets[1])
		}
	}
	if !plan.Ordered.Equal(prior.Ordered) {
		patch["ordered"] = plan.Ordered.ValueBool()
	}
	if !plan.RateLimit.Equal(prior.RateLimit) {
		patch["rateLimit"] = plan.RateLimit.ValueInt64()
	}
	if !plan.HeadersWOVersion.Equal(prior.HeadersWOVersion) {
		patch["headers"] = headers(config.HeadersWO)
	}
	return patch
}

// setText adds a text to a change: null removes it.
func setText(patch map[string]any, name string, before, after types.String) {
	switch {
	case after.Equal(before):
	case after.IsNull():
		patch[name] = nil
	default:
		patch[name] = after.ValueString()
	}
}

func (r *webhookResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m webhookModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, r.tenantOf(m.TenantID), r.one(m.ID)); err != nil {
		r.fault(ctx, &resp.Diagnostics, "delete", err)
	}
}
