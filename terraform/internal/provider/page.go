package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

type pageResource struct{ base }

type pageView struct {
	PageID         string          `json:"pageId"`
	TenantID       string          `json:"tenantId"`
	BrandID        string          `json:"brandId"`
	Name           string          `json:"name"`
	Title          string          `json:"title"`
	PageContext    string          `json:"pageContext"`
	Status         string          `json:"status"`
	Actions        json.RawMessage `json:"actions"`
	Scripts        json.RawMessage `json:"scripts"`
	FooterLinks    json.RawMessage `json:"footerLinks"`
	HeaderActionID string          `json:"headerActionId"`
	Metadata       json.RawMessage `json:"metadata"`
	Public         bool            `json:"public"`
	MaxAgeSeconds  int64           `json:"maxAgeSeconds"`
	CreatedAt      string          `json:"createdAt"`
	DeletedAt      string          `json:"deletedAt"`
	Schedule       struct {
		PublishAt   string `json:"publishAt"`
		UnpublishAt string `json:"unpublishAt"`
	} `json:"schedule"`
}

type pageModel struct {
	ID             types.String         `tfsdk:"id"`
	TenantID       types.String         `tfsdk:"tenant_id"`
	BrandID        types.String         `tfsdk:"brand_id"`
	Name           types.String         `tfsdk:"name"`
	Title          types.String         `tfsdk:"title"`
	PageContext    types.String         `tfsdk:"page_context"`
	Actions        jsontypes.Normalized `tfsdk:"actions"`
	Scripts        jsontypes.Normalized `tfsdk:"scripts"`
	FooterLinks    jsontypes.Normalized `tfsdk:"footer_links"`
	HeaderActionID types.String         `tfsdk:"header_action_id"`
	Metadata       jsontypes.Normalized `tfsdk:"metadata"`
	Public         types.Bool           `tfsdk:"public"`
	MaxAgeSeconds  types.Int64          `tfsdk:"max_age_seconds"`
	Status         types.String         `tfsdk:"status"`
	PublishAt      types.String         `tfsdk:"publish_at"`
	UnpublishAt    types.String         `tfsdk:"unpublish_at"`
	CreatedAt      types.String         `tfsdk:"created_at"`
}

// The states of a page.
const (
	draft     = "draft"
	published = "published"
	archived  = "archived"
)

func newPage() resource.Resource {
	return &pageResource{base{kind: "page", path: "/pages", schema: pageSchema}}
}

func pageSchema() schema.Schema {
	array := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, Computed: true, CustomType: jsontypes.NormalizedType{}, Default: stringdefault.StaticString("[]"),
			Description: description + ", as a JSON array: use `jsonencode`. Default: none.", Validators: []validator.String{isArray()},
		}
	}
	when := func(verb string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{isTime()},
			Description: "When the server " + verb + " the page, in RFC 3339. A time that has passed stays in the configuration without effect, and does not become " +
				"a difference.",
		}
	}
	return schema.Schema{
		Description: "A page of a brand. Destroying it marks it as deleted: the server can still undelete it. Audiences and their versions are not managed by Terraform.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("page"),
			"tenant_id": tenantAttribute(),
			"brand_id":  schema.StringAttribute{Required: true, Description: "The brand of the page.", Validators: []validator.String{length(1, 255)}},
			"name":      schema.StringAttribute{Required: true, Description: "Internal name, 1 to 255 characters.", Validators: []validator.String{length(1, 255)}},
			"title": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(""), Validators: []validator.String{length(0, 255)},
				Description: "The title that readers see, at most 255 characters.",
			},
			"page_context": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(""), Description: "Information about the readers of the page.",
			},
			"actions":      array("Actions of a reader"),
			"scripts":      array("Scripts of the page"),
			"footer_links": array("Groups of links"),
			"header_action_id": schema.StringAttribute{
				Optional: true, Description: "The action in the header of the page. Default: none.", Validators: []validator.String{length(1, 255)},
			},
			"metadata": schema.StringAttribute{
				Optional: true, CustomType: jsontypes.NormalizedType{}, Validators: []validator.String{isValue()},
				Description: "Any JSON value except null, for your own use: use `jsonencode`. Default: none.",
			},
			"public": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Whether sites can read the page without a key while it is published. Default: `false`.",
			},
			"max_age_seconds": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(60), Validators: []validator.Int64{int64validator.Between(0, 86400)},
				Description: "For how many seconds caches may keep what is public, at most a day. Default: 60.",
			},
			"status": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{stringvalidator.OneOf(statuses...)},
				Description: "`draft`, `published` or `archived`. Default: a new page is a draft, and others, such as a schedule, may change it. " +
					"If a schedule of the configuration has changed it, that is not a difference.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"publish_at":   when("publishes"),
			"unpublish_at": when("unpublishes"),
			"created_at":   createdAttribute(),
		},
	}
}

// set takes over what the API has returned.
func (m *pageModel) set(ctx context.Context, v *pageView) {
	m.ID, m.TenantID, m.BrandID, m.Name = types.StringValue(v.PageID), types.StringValue(v.TenantID), types.StringValue(v.BrandID), types.StringValue(v.Name)
	m.Title, m.PageContext, m.Status = types.StringValue(v.Title), types.StringValue(v.PageContext), types.StringValue(v.Status)
	m.Actions, m.Scripts, m.FooterLinks = document(ctx, m.Actions, v.Actions), document(ctx, m.Scripts, v.Scripts), document(ctx, m.FooterLinks, v.FooterLinks)
	m.HeaderActionID, m.Metadata = text(v.HeaderActionID), document(ctx, m.Metadata, v.Metadata)
	m.Public, m.MaxAgeSeconds, m.CreatedAt = types.BoolValue(v.Public), types.Int64Value(v.MaxAgeSeconds), types.StringValue(v.CreatedAt)
	m.PublishAt, m.UnpublishAt = scheduled(m.PublishAt, v.Schedule.PublishAt), scheduled(m.UnpublishAt, v.Schedule.UnpublishAt)
}

// document returns a document of the API, in the spelling of the known one if they are equal.
func document(ctx context.Context, known jsontypes.Normalized, found json.RawMessage) jsontypes.Normalized {
	if found == nil {
		return jsontypes.NewNormalizedNull()
	}
	value := jsontypes.NewNormalizedValue(string(found))
	if known.IsNull() || known.IsUnknown() {
		return value
	}
	if sameDocument(ctx, value, known) {
		return known
	}
	return value
}

// sameDocument reports whether documents differ only in white space and the order of members.
func sameDocument(ctx context.Context, a, b jsontypes.Normalized) bool {
	equal, diags := a.StringSemanticEquals(ctx, b)
	return equal && !diags.HasError()
}

// scheduled returns a time of the API, in the spelling of the known one if they are equal. A known time that has passed
// stays: the server removes it when it has done what was scheduled.
func scheduled(known types.String, found string) types.String {
	if found == "" && passed(known) || sameTime(known, found) {
		return known
	}
	return text(found)
}

// sameTime reports whether texts are the same time, to the millisecond.
func sameTime(a types.String, b string) bool {
	first, errFirst := time.Parse(time.RFC3339, a.ValueString())
	second, errSecond := time.Parse(time.RFC3339, b)
	return errors.Join(errFirst, errSecond) == nil && first.Truncate(time.Millisecond).Equal(second.Truncate(time.Millisecond))
}

// passed reports whether a time has passed. A null has not.
func passed(at types.String) bool {
	t, err := time.Parse(time.RFC3339, at.ValueString())
	return err == nil && !time.Now().Before(t)
}

// bySchedule returns the state that the schedule of a page has led to, "" if no time has passed.
func (m *pageModel) bySchedule() string {
	switch {
	case passed(m.UnpublishAt):
		return draft
	case passed(m.PublishAt):
		return published
	default:
		return ""
	}
}

// ValidateConfig checks the order of the times.
func (r *pageResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var from, to types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("publish_at"), &from)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("unpublish_at"), &to)...)
	start, errStart := time.Parse(time.RFC3339, from.ValueString())
	end, errEnd := time.Parse(time.RFC3339, to.ValueString())
	if errors.Join(errStart, errEnd) == nil && !start.Before(end) {
		resp.Diagnostics.AddAttributeError(path.Root("unpublish_at"), "Invalid value", "It must be after publish_at.")
	}
}

// ModifyPlan accepts the state that a schedule has led to, and refuses new times that have passed.
func (r *pageResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.planTenant(ctx, req, resp)
	if req.Plan.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var plan pageModel
	prior := pageModel{}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	for name, times := range map[string][2]types.String{"publish_at": {prior.PublishAt, plan.PublishAt}, "unpublish_at": {prior.UnpublishAt, plan.UnpublishAt}} {
		before, after := times[0], times[1]
		switch {
		case after.Equal(before):
		case sameTime(before, after.ValueString()): // in another spelling
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), before)...)
		case passed(after):
			resp.Diagnostics.AddAttributeError(path.Root(name), "The time has passed", "It must be in the future.")
		}
	}
	for name, docs := range map[string][2]jsontypes.Normalized{
		"actions": {prior.Actions, plan.Actions}, "scripts": {prior.Scripts, plan.Scripts}, "footer_links": {prior.FooterLinks, plan.FooterLinks},
		"metadata": {prior.Metadata, plan.Metadata},
	} {
		before, after := docs[0], docs[1]
		if !before.IsNull() && !after.IsNull() && !after.IsUnknown() && !after.Equal(before) && sameDocument(ctx, before, after) {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), before)...)
		}
	}
	// The configured state is that before the schedule: draft, then published, then draft again.
	before := map[string]string{published: draft, draft: published}[plan.bySchedule()]
	if before != "" && prior.Status.ValueString() == plan.bySchedule() && plan.Status.ValueString() == before {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("status"), prior.Status)...)
	}
}

func (r *pageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m pageModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{
		"brandId": m.BrandID.ValueString(), "name": m.Name.ValueString(), "title": m.Title.ValueString(), "pageContext": m.PageContext.ValueString(),
		"actions": raw(m.Actions), "scripts": raw(m.Scripts), "footerLinks": raw(m.FooterLinks), "public": m.Public.ValueBool(), "maxAgeSeconds": m.MaxAgeSeconds.ValueInt64(),
	}
	if !m.HeaderActionID.IsNull() {
		body["headerActionId"] = m.HeaderActionID.ValueString()
	}
	if !m.Metadata.IsNull() {
		body["metadata"] = raw(m.Metadata)
	}
	wanted := m
	made, _, err := create[pageView](ctx, &r.base, r.tenantOf(m.TenantID), body)
	if err != nil {
		r.fault(ctx, &resp.Diagnostics, "create", err)
		return
	}
	m.set(ctx, &made)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	r.settle(ctx, &m, &wanted, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// raw returns a document for a request.
func raw(doc jsontypes.Normalized) json.RawMessage { return json.RawMessage(doc.ValueString()) }

// settle brings the status and the schedule of a page to the wanted ones.
func (r *pageResource) settle(ctx context.Context, m, wanted *pageModel, diags *diag.Diagnostics) {
	status := wanted.Status.ValueString() // "" if it is unknown
	for attempt := 1; status != "" && m.Status.ValueString() != status; attempt++ {
		verb := transition(m.Status.ValueString(), status)
		v, err := act[pageView](ctx, &r.base, m.TenantID.ValueString(), r.one(m.ID)+"/"+verb)
		if client.HasStatus(err, http.StatusConflict) && attempt < maxConflicts { // a repeated request, or another client, has changed it
			_, err = r.Get(ctx, m.TenantID.ValueString(), r.one(m.ID), nil, &v)
		}
		if err != nil {
			r.fault(ctx, diags, verb, err)
			return
		}
		m.set(ctx, &v)
	}
	r.reschedule(ctx, m, wanted, diags)
}

// transition returns the operation that leads from a state towards another one.
func transition(from, to string) string {
	switch {
	case to == archived:
		return "archive"
	case from == archived:
		return "restore"
	case to == published:
		return "publish"
	default:
		return "unpublish"
	}
}

// reschedule replaces the schedule of a page if it is not the wanted one. Times that have passed are not sent.
func (r *pageResource) reschedule(ctx context.Context, m, wanted *pageModel, diags *diag.Diagnostics) {
	if m.PublishAt.Equal(wanted.PublishAt) && m.UnpublishAt.Equal(wanted.UnpublishAt) {
		return
	}
	body := map[string]any{}
	for name, at := range map[string]types.String{"publishAt": wanted.PublishAt, "unpublishAt": wanted.UnpublishAt} {
		if !at.IsNull() && !passed(at) {
			body[name] = at.ValueString()
		}
	}
	request := client.Request{Method: http.MethodPut, Path: r.one(m.ID) + "/schedule", Tenant: m.TenantID.ValueString(), Body: body}
	if len(body) == 0 {
		request.Method, request.Body = http.MethodDelete, nil
	}
	if _, err := r.Do(ctx, request); err != nil {
		r.fault(ctx, diags, "schedule", err)
		return
	}
	m.PublishAt, m.UnpublishAt = wanted.PublishAt, wanted.UnpublishAt
}

func (r *pageResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m pageModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v pageView
	_, err := r.Get(ctx, r.tenantOf(m.TenantID), r.one(m.ID), nil, &v)
	err = r.checkMissing(ctx, r.tenantOf(m.TenantID), err)
	switch {
	case client.HasStatus(err, http.StatusNotFound) || err == nil && v.DeletedAt != "":
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		r.fault(ctx, &resp.Diagnostics, "read", err)
		return
	}
	m.set(ctx, &v)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *pageResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, prior pageModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	v, diags := update(ctx, &r.base, r.tenantOf(prior.TenantID), r.one(prior.ID), pagePatch(&prior, &plan), func(v pageView) diag.Diagnostics {
		current := prior
		current.set(ctx, &v)
		return r.checkUnchanged(ctx, current, req.State, req.Plan)
	})
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	wanted := plan
	plan.PublishAt, plan.UnpublishAt = prior.PublishAt, prior.UnpublishAt
	plan.set(ctx, &v)
	r.settle(ctx, &plan, &wanted, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// pagePatch returns the members of a page to change.
func pagePatch(prior, plan *pageModel) map[string]any {
	patch := map[string]any{}
	setText(patch, "brandId", prior.BrandID, plan.BrandID)
	setText(patch, "name", prior.Name, plan.Name)
	setText(patch, "title", prior.Title, plan.Title)
	setText(patch, "pageContext", prior.PageContext, plan.PageContext)
	setText(patch, "headerActionId", prior.HeaderActionID, plan.HeaderActionID)
	for name, docs := range map[string][2]jsontypes.Normalized{
		"actions": {prior.Actions, plan.Actions}, "scripts": {prior.Scripts, plan.Scripts}, "footerLinks": {prior.FooterLinks, plan.FooterLinks},
		"metadata": {prior.Metadata, plan.Metadata},
	} {
		switch {
		case docs[1].Equal(docs[0]):
		case docs[1].IsNull():
			patch[name] = nil
		default:
			patch[name] = raw(docs[1])
		}
	}
	if !plan.Public.Equal(prior.Public) {
		patch["public"] = plan.Public.ValueBool()
	}
	if !plan.MaxAgeSeconds.Equal(prior.MaxAgeSeconds) {
		patch["maxAgeSeconds"] = plan.MaxAgeSeconds.ValueInt64()
	}
	return patch
}

func (r *pageResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m pageModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, r.tenantOf(m.TenantID), r.one(m.ID)); err != nil {
		r.fault(ctx, &resp.Diagnostics, "delete", err)
	}
}
