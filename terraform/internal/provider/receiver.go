package provider

import (
	"context"
	"net/http"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type receiverResource struct{ base }

type receiverView struct {
	ReceiverID   string            `json:"receiverId"`
	TenantID     string            `json:"tenantId"`
	Name         string            `json:"name"`
	Provider     string            `json:"provider"`
	Verification *verificationView `json:"verification"`
	Source       string            `json:"source"`
	Mapping      mappingView       `json:"mapping"`
	Enabled      bool              `json:"enabled"`
	Path         string            `json:"path"`
	URL          string            `json:"url"`
	CreatedAt    string            `json:"createdAt"`
	Secret       string            `json:"secret"`
	VerifyToken  string            `json:"verifyToken"`
}

type verificationView struct {
	Header          string `json:"header,omitempty"`
	Algorithm       string `json:"algorithm,omitempty"`
	Encoding        string `json:"encoding,omitempty"`
	Prefix          string `json:"prefix,omitempty"`
	Content         string `json:"content,omitempty"`
	TimestampHeader string `json:"timestampHeader,omitempty"`
	IDHeader        string `json:"idHeader,omitempty"`
	Tolerance       int64  `json:"tolerance,omitempty"`
	Username        string `json:"username,omitempty"`
}

type mappingView struct {
	Filter     string `json:"filter,omitempty"`
	Type       string `json:"type,omitempty"`
	AccountID  string `json:"accountId,omitempty"`
	Domain     string `json:"domain,omitempty"`
	Email      string `json:"email,omitempty"`
	Name       string `json:"name,omitempty"`
	OccurredAt string `json:"occurredAt,omitempty"`
	EventID    string `json:"eventId,omitempty"`
}

type receiverModel struct {
	ID                   types.String       `tfsdk:"id"`
	TenantID             types.String       `tfsdk:"tenant_id"`
	Name                 types.String       `tfsdk:"name"`
	ProviderType         types.String       `tfsdk:"provider_type"`
	Verification         *verificationModel `tfsdk:"verification"`
	Source               types.String       `tfsdk:"source"`
	Mapping              *mappingModel      `tfsdk:"mapping"`
	Enabled              types.Bool         `tfsdk:"enabled"`
	SecretWO             types.String       `tfsdk:"secret_wo"`
	SecretWOVersion      types.Int64        `tfsdk:"secret_wo_version"`
	RotationTrigger      types.String       `tfsdk:"rotation_trigger"`
	RotationGraceSeconds types.Int64        `tfsdk:"rotation_grace_seconds"`
	Path                 types.String       `tfsdk:"path"`
	URL                  types.String       `tfsdk:"url"`
	CreatedAt            types.String       `tfsdk:"created_at"`
	Secret               types.String       `tfsdk:"secret"`
	VerifyToken          types.String       `tfsdk:"verify_token"`
}

type verificationModel struct {
	Header          types.String `tfsdk:"header"`
	Algorithm       types.String `tfsdk:"algorithm"`
	Encoding        types.String `tfsdk:"encoding"`
	Prefix          types.String `tfsdk:"prefix"`
	Content         types.String `tfsdk:"content"`
	TimestampHeader types.String `tfsdk:"timestamp_header"`
	IDHeader        types.String `tfsdk:"id_header"`
	Tolerance       types.Int64  `tfsdk:"tolerance"`
	Username        types.String `tfsdk:"username"`
}

type mappingModel struct {
	Filter     types.String `tfsdk:"filter"`
	Type       types.String `tfsdk:"type"`
	AccountID  types.String `tfsdk:"account_id"`
	Domain     types.String `tfsdk:"domain"`
	Email      types.String `tfsdk:"email"`
	Name       types.String `tfsdk:"name"`
	OccurredAt types.String `tfsdk:"occurred_at"`
	EventID    types.String `tfsdk:"event_id"`
}

// Providers of receivers that differ from the others.
var (
	withVerification = []string{"hmac", "token", "basic"}
	withOwnSecret    = []string{"stripe", "hubspot", "slack", "shopify", "intercom", "meta", "standard_webhooks"}
)

func newReceiver() resource.Resource {
	return &receiverResource{base{kind: "receiver", path: "/receivers", schema: receiverSchema, names: map[string]string{"provider": "provider_type", "secret": "secret_wo"}}}
}

// defaultTolerance is what the server adds to a verification with a timestamp.
const defaultTolerance = 300

// toleranceDefault plans the default of a tolerance: only a verification with a timestamp has one.
type toleranceDefault struct{}

func (toleranceDefault) Description(context.Context) string {
	return "300 if timestamp_header is set"
}
func (d toleranceDefault) MarkdownDescription(ctx context.Context) string { return d.Description(ctx) }

func (toleranceDefault) PlanModifyInt64(ctx context.Context, req planmodifier.Int64Request, resp *planmodifier.Int64Response) {
	if !req.ConfigValue.IsNull() {
		return
	}
	var header types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, req.Path.ParentPath().AtName("timestamp_header"), &header)...)
	switch {
	case header.IsUnknown():
	case header.IsNull():
		resp.PlanValue = types.Int64Null()
	default:
		resp.PlanValue = types.Int64Value(defaultTolerance)
	}
}

func receiverSchema() schema.Schema {
	described := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Description: description, Validators: []validator.String{length(1, 200)}}
	}
	expression := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Description: description, Validators: []validator.String{length(1, 4096)}}
	}
	return schema.Schema{
		Description: "A receiver: an address to which another system sends its webhooks. The server needs the setting `secrets-key-file`. " +
			"A receiver with deliveries in quarantine cannot be destroyed: map them again or discard them first.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("receiver"),
			"tenant_id": tenantAttribute(),
			"name":      schema.StringAttribute{Required: true, Description: "Name, 1 to 200 characters.", Validators: []validator.String{length(1, 200)}},
			"provider_type": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.OneOf(receiverProviders...)},
				Description: "The system that sends, `provider` in the API: `github`, `stripe`, `hubspot`, `slack`, `shopify`, `intercom`, `segment`, `meta`, " +
					"`standard_webhooks`, `hmac`, `token` or `basic`. Another one replaces the receiver.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"verification": schema.SingleNestedAttribute{
				Optional: true, Description: "How requests are verified. Required for `hmac`, `token` and `basic`, and only for them.",
				Attributes: map[string]schema.Attribute{
					"header":           described("Header with the signature or the token. The header `Authorization` of a `token` has the scheme Bearer."),
					"algorithm":        schema.StringAttribute{Optional: true, Description: "Hash of the HMAC: `sha1`, `sha256` or `sha512`.", Validators: []validator.String{stringvalidator.OneOf(algorithms...)}},
					"encoding":         schema.StringAttribute{Optional: true, Description: "Encoding of the signature: `hex` or `base64`.", Validators: []validator.String{stringvalidator.OneOf(encodings...)}},
					"prefix":           described("What the value of the header begins with, such as `sha256=`."),
					"content":          described("What is signed: a text with `{body}` once, `{timestamp}` and `{id}`. Default: `{body}`."),
					"timestamp_header": described("Header with `{timestamp}`."),
					"id_header":        described("Header with `{id}`, which is also the default of `event_id`."),
					"tolerance": schema.Int64Attribute{
						Optional: true, Computed: true, Validators: []validator.Int64{int64validator.Between(1, 86400)},
						Description:   "How many seconds the timestamp may differ from the clock of the server, at most a day. Default: 300 with `timestamp_header`, otherwise null.",
						PlanModifiers: []planmodifier.Int64{toleranceDefault{}},
					},
					"username": described("User name of `basic`."),
				},
			},
			"source": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{length(1, 100)}, Description: "Source of the entries. Default: `provider_type`.",
			},
			"mapping": schema.SingleNestedAttribute{
				Optional: true,
				Description: "How a delivery becomes an entry: CEL expressions over `body`, `headers` and `query`, at most 4 KiB each. A string literal needs its own quotes: " +
					"`\"\\\"example.com\\\"\"`. Default: that of the sending system.",
				Attributes: map[string]schema.Attribute{
					"filter":      expression("A bool: false acknowledges the delivery without an entry."),
					"type":        expression("Type of the entry."),
					"account_id":  expression("Account of the entry."),
					"domain":      expression("Domain of the account."),
					"email":       expression("An email address whose domain is that of the account, unless it is that of a public mail provider."),
					"name":        expression("Name of the account."),
					"occurred_at": expression("When it occurred: a string in RFC 3339, a number of seconds or milliseconds since 1970, or null."),
					"event_id":    expression("What identifies the event. Entries of the same event are stored once."),
				},
			},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true), Description: "Whether requests are accepted. Default: `true`.",
			},
			"secret_wo": schema.StringAttribute{
				Optional: true, WriteOnly: true, Sensitive: true,
				Description: "The secret with which requests are verified: the password of `basic`, the token of `token`. Terraform does not store it; it is sent when the " +
					"receiver is created and when `secret_wo_version` changes. Required for `stripe`, `hubspot`, `slack`, `shopify`, `intercom`, `meta` and " +
					"`standard_webhooks`, which make it. Default: the server generates one.",
				Validators: []validator.String{length(1, 500), stringvalidator.AlsoRequires(path.MatchRoot("secret_wo_version")),
					checkString("visible ASCII characters", func(s string) bool {
						return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < '!' || c > '~' })
					})},
			},
			"secret_wo_version": schema.Int64Attribute{Optional: true, Description: "Any number. Change it to replace the secret by `secret_wo`."},
			"rotation_trigger": schema.StringAttribute{
				Optional: true, Description: rotationTriggerText + " Only for a generated secret.", Validators: []validator.String{stringvalidator.ConflictsWith(path.MatchRoot("secret_wo"))},
			},
			"rotation_grace_seconds": schema.Int64Attribute{
				Optional: true, Description: rotationGraceText, Validators: []validator.Int64{int64validator.Between(0, maxGraceSeconds)},
			},
			"path": schema.StringAttribute{
				Computed: true, Description: "Path of its address at the server.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"url": schema.StringAttribute{
				Computed: true, Description: "Its address. Null without the setting `public-url` of the server.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"created_at": createdAttribute(),
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description:   "The generated secret. Null with `secret_wo`, and after an import: the server returns it only once. Rotate it to get a new one.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"verify_token": schema.StringAttribute{
				Computed: true, Sensitive: true, Description: "What Meta calls the verify token. Only with `meta`; null after an import.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

// set takes over what the API has returned.
func (m *receiverModel) set(v *receiverView) {
	m.ID, m.TenantID, m.Name, m.ProviderType = types.StringValue(v.ReceiverID), types.StringValue(v.TenantID), types.StringValue(v.Name), types.StringValue(v.Provider)
	m.Source, m.Enabled, m.Path, m.URL = types.StringValue(v.Source), types.BoolValue(v.Enabled), types.StringValue(v.Path), text(v.URL)
	m.CreatedAt, m.SecretWO = types.StringValue(v.CreatedAt), types.StringNull()
	if m.Verification = nil; v.Verification != nil {
		from := v.Verification
		m.Verification = &verificationModel{
			text(from.Header), text(from.Algorithm), text(from.Encoding), text(from.Prefix), text(from.Content), text(from.TimestampHeader), text(from.IDHeader),
			types.Int64Null(), text(from.Username),
		}
		if from.Tolerance != 0 {
			m.Verification.Tolerance = types.Int64Value(from.Tolerance)
		}
	}
	if v.Mapping != (mappingView{}) || m.Mapping != nil { // the API does not distinguish an empty mapping from none
		from := &v.Mapping
		m.Mapping = &mappingModel{
			text(from.Filter), text(from.Type), text(from.AccountID), text(from.Domain), text(from.Email), text(from.Name), text(from.OccurredAt), text(from.EventID),
		}
	}
	if v.Secret != "" {
		m.Secret = types.StringValue(v.Secret)
	}
	if v.VerifyToken != "" {
		m.VerifyToken = types.StringValue(v.VerifyToken)
	}
	if m.Secret.IsUnknown() {
		m.Secret = types.StringNull()
	}
	if m.VerifyToken.IsUnknown() {
		m.VerifyToken = types.StringNull()
	}
}

// view returns the verification of a request.
func (m *verificationModel) view() verificationView {
	if m == nil {
		return verificationView{}
	}
	return verificationView{
		m.Header.ValueString(), m.Algorithm.ValueString(), m.Encoding.ValueString(), m.Prefix.ValueString(), m.Content.ValueString(),
		m.TimestampHeader.ValueString(), m.IDHeader.ValueString(), m.Tolerance.ValueInt64(), m.Username.ValueString(),
	}
}

// view returns the mapping of a request.
func (m *mappingModel) view() mappingView {
	if m == nil {
		return mappingView{}
	}
	return mappingView{
		m.Filter.ValueString(), m.Type.ValueString(), m.AccountID.ValueString(), m.Domain.ValueString(), m.Email.ValueString(), m.Name.ValueString(),
		m.OccurredAt.ValueString(), m.EventID.ValueString(),
	}
}

// ValidateConfig reports what a provider requires or does not take.
func (r *receiverResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var kind, secret types.String
	var verification types.Object
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("provider_type"), &kind)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("secret_wo"), &secret)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("verification"), &verification)...)
	if resp.Diagnostics.HasError() || kind.IsUnknown() || kind.IsNull() {
		return
	}
	of := kind.ValueString()
	if verification.IsNull() && slices.Contains(withVerification, of) {
		resp.Diagnostics.AddAttributeError(path.Root("verification"), "Missing verification", "The provider_type "+of+" requires verification.")
	}
	if !verification.IsNull() && !verification.IsUnknown() && !slices.Contains(withVerification, of) {
		resp.Diagnostics.AddAttributeError(path.Root("verification"), "Unexpected verification", "The provider_type "+of+" takes no verification: only hmac, token and basic do.")
	}
	if secret.IsNull() && slices.Contains(withOwnSecret, of) {
		resp.Diagnostics.AddAttributeError(path.Root("secret_wo"), "Missing secret", "The provider_type "+of+" requires secret_wo: the system that sends makes the secret.")
	}
}

// A rotation is what asks for another secret when it changes.
type rotation struct {
	version types.Int64
	trigger types.String
}

func (m *receiverModel) rotation() rotation { return rotation{m.SecretWOVersion, m.RotationTrigger} }

// rotates reports whether a change replaces the secret.
func (before rotation) rotates(after rotation) bool {
	return !after.version.Equal(before.version) || triggered(before.trigger, after.trigger)
}

// ModifyPlan plans what a change of other attributes changes.
func (r *receiverResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.planTenant(ctx, req, resp)
	if req.Plan.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var source, kind types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("source"), &source)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("provider_type"), &kind)...)
	if source.IsNull() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("source"), kind)...)
	}
	if req.State.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var before, after rotation
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("secret_wo_version"), &before.version)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("rotation_trigger"), &before.trigger)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("secret_wo_version"), &after.version)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("rotation_trigger"), &after.trigger)...)
	if !resp.Diagnostics.HasError() && before.rotates(after) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("secret"), types.StringUnknown())...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("verify_token"), types.StringUnknown())...)
	}
}

func (r *receiverResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m, config receiverModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{"name": m.Name.ValueString(), "provider": m.ProviderType.ValueString(), "source": m.Source.ValueString(), "mapping": m.Mapping.view()}
	if m.Verification != nil {
		body["verification"] = m.Verification.view()
	}
	if !config.SecretWO.IsNull() {
		body["secret"] = config.SecretWO.ValueString()
	}
	enabled := m.Enabled
	made, replayed, err := create[receiverView](ctx, &r.base, r.tenantOf(m.TenantID), body)
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(&made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	if replayed { // the response with the secret was lost
		if made, err = r.rotateSecret(ctx, &m, &config, types.Int64Value(0)); err != nil {
			r.fault(ctx, &resp.Diagnostics, "rotate the secret of", err)
			return
		}
		m.set(&made)
	}
	r.enable(ctx, &m, enabled, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// rotateSecret replaces the secret by that of the configuration, or by a generated one.
func (r *receiverResource) rotateSecret(ctx context.Context, m, config *receiverModel, grace types.Int64) (receiverView, error) {
	body := graceBody(grace)
	if !config.SecretWO.IsNull() {
		body["secret"] = config.SecretWO.ValueString()
	}
	return rotate[receiverView](ctx, &r.base, m.TenantID.ValueString(), r.one(m.ID)+"/rotate_secret", body)
}

// enable enables or disables the receiver.
func (r *receiverResource) enable(ctx context.Context, m *receiverModel, enabled types.Bool, diags *diag.Diagnostics) {
	if m.Enabled.Equal(enabled) {
		return
	}
	verb := "disable"
	if enabled.ValueBool() {
		verb = "enable"
	}
	v, err := act[receiverView](ctx, &r.base, m.TenantID.ValueString(), r.one(m.ID)+"/"+verb)
	if err != nil {
		r.fault(ctx, diags, verb, err)
		return
	}
	m.set(&v)
}

func (r *receiverResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m receiverModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v receiverView
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

func (r *receiverResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior, config receiverModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	patch := map[string]any{}
	setText(patch, "name", prior.Name, plan.Name)
	setText(patch, "source", prior.Source, plan.Source)
	if v := plan.Verification.view(); v != prior.Verification.view() {
		patch["verification"] = v
	}
	if v := plan.Mapping.view(); v != prior.Mapping.view() {
		patch["mapping"] = v
	}
	v, diags := update(ctx, &r.base, r.tenantOf(prior.TenantID), r.one(prior.ID), patch, func(v receiverView) diag.Diagnostics {
		current := prior
		current.set(&v)
		return r.checkUnchanged(ctx, current, req.State, req.Plan)
	})
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	wanted := plan
	plan.Secret, plan.VerifyToken, plan.RotationTrigger, plan.SecretWOVersion = prior.Secret, prior.VerifyToken, prior.RotationTrigger, prior.SecretWOVersion
	plan.set(&v)
	r.enable(ctx, &plan, wanted.Enabled, &resp.Diagnostics)
	if prior.rotation().rotates(wanted.rotation()) && !resp.Diagnostics.HasError() {
		v, err := r.rotateSecret(ctx, &prior, &config, wanted.RotationGraceSeconds)
		if err != nil {
			r.fault(ctx, &resp.Diagnostics, "rotate the secret of", err)
		} else {
			plan.Secret, plan.VerifyToken = types.StringNull(), types.StringNull()
			plan.set(&v)
		}
	}
	if !resp.Diagnostics.HasError() {
		plan.RotationTrigger, plan.SecretWOVersion = wanted.RotationTrigger, wanted.SecretWOVersion
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *receiverResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m receiverModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, r.tenantOf(m.TenantID), r.one(m.ID)); err != nil {
		r.fault(ctx, &resp.Diagnostics, "delete", err)
	}
}
