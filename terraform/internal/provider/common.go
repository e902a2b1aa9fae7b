package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"atrium/terraform/internal/client"
)

// base is what all resources share.
type base struct {
	*target

	kind   string               // of the resource, such as key: the type is atrium_key, identifiers begin with key_
	path   string               // of the list, such as /keys
	names  map[string]string    // attributes whose names differ from those of the members of the API
	schema func() schema.Schema // of the resource
}

func (b *base) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + b.kind
}

func (b *base) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = b.schema()
}

func (b *base) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	if req.ProviderData == nil { // before the provider is configured
		return
	}
	t, ok := req.ProviderData.(*target)
	if !ok {
		resp.Diagnostics.AddError("Fault in the provider", fmt.Sprintf("Unexpected provider data %T.", req.ProviderData))
		return
	}
	b.target = t
}

// one returns the path of a resource.
func (b *base) one(id types.String) string { return b.path + "/" + id.ValueString() }

// ImportState imports a resource by its identifier, or by that of its tenant, a slash, and its identifier.
func (b *base) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	tenant, id, found := strings.Cut(req.ID, "/")
	if !found {
		tenant, id = "", req.ID
	}
	if !idPattern(b.kind).MatchString(id) || found && !idPattern("tenant").MatchString(tenant) {
		resp.Diagnostics.AddError("Not an identifier for import",
			fmt.Sprintf("Import atrium_%s by its identifier, such as %s_01kjpx722sf2x8m1c3v5b7n9qa, or by that of its tenant, a slash, and its identifier.", b.kind, b.kind))
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
	if found {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("tenant_id"), tenant)...)
	}
}

// tenantOf returns the tenant of requests about a resource, "" for that of the key.
func (b *base) tenantOf(id types.String) string {
	if !id.IsNull() && !id.IsUnknown() {
		return id.ValueString()
	}
	return b.tenant
}

// planTenant plans the tenant of a resource whose configuration names none: the default of the provider. Another default
// replaces the resource.
func (b *base) planTenant(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if b.target == nil || b.tenant == "" || req.Plan.Raw.IsNull() {
		return
	}
	attribute := path.Root("tenant_id")
	var configured, current types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, attribute, &configured)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, attribute, &current)...)
	}
	if resp.Diagnostics.HasError() || !configured.IsNull() || current.ValueString() == b.tenant {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, attribute, b.tenant)...)
	if !current.IsNull() {
		resp.RequiresReplace = append(resp.RequiresReplace, attribute)
	}
}

// create creates a resource. If the response to it was lost, the server returns the same resource to the repeated request,
// without its secret: then replayed is true.
func create[A any](ctx context.Context, b *base, tenant string, body any) (made A, replayed bool, err error) {
	r, err := b.Do(ctx, client.Request{Method: http.MethodPost, Path: b.path, Tenant: tenant, Body: body, IdempotencyKey: "terraform-" + rand.Text()})
	if err != nil {
		return made, false, err
	}
	return made, r.Replayed, r.Decode(&made)
}

// act sends a POST to a resource that changes nothing if it is repeated.
func act[A any](ctx context.Context, b *base, tenant, path string) (changed A, err error) {
	r, err := b.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Tenant: tenant})
	if err != nil {
		return changed, err
	}
	return changed, r.Decode(&changed)
}

// rotate replaces a secret. It is sent once: if its response is lost, the next apply rotates again.
func rotate[A any](ctx context.Context, b *base, tenant, path string, body map[string]any) (changed A, err error) {
	r, err := b.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Tenant: tenant, Body: body, Once: true})
	if err != nil {
		return changed, err
	}
	return changed, r.Decode(&changed)
}

// maxConflicts is how often a change is tried while others change the same resource.
const maxConflicts = 5

// update changes a resource if it is still what the plan was made for, which unchanged checks.
func update[A any](ctx context.Context, b *base, tenant, path string, patch map[string]any, unchanged func(A) diag.Diagnostics) (A, diag.Diagnostics) {
	var diags diag.Diagnostics
	for attempt := 1; ; attempt++ {
		var current A
		etag, err := b.Get(ctx, tenant, path, nil, &current)
		if err != nil {
			b.fault(ctx, &diags, "read", err)
			return current, diags
		}
		if diags = unchanged(current); diags.HasError() || len(patch) == 0 {
			return current, diags
		}
		r, err := b.Do(ctx, client.Request{Method: http.MethodPatch, Path: path, Tenant: tenant, Body: patch, IfMatch: etag})
		if client.HasStatus(err, http.StatusPreconditionFailed) && attempt < maxConflicts {
			continue
		}
		var changed A // not current: members that the response lacks would stay
		if err == nil {
			err = r.Decode(&changed)
		}
		if err != nil {
			b.fault(ctx, &diags, "change", err)
		}
		return changed, diags
	}
}

// checkUnchanged reports each attribute of a resource that has neither the value that the plan was made for nor the planned
// one. model is the model of the current state.
func (b *base) checkUnchanged(ctx context.Context, model any, prior tfsdk.State, plan tfsdk.Plan) (diags diag.Diagnostics) {
	current := tfsdk.State{Schema: prior.Schema, Raw: tftypes.NewValue(prior.Schema.Type().TerraformType(ctx), nil)}
	if diags = current.Set(ctx, model); diags.HasError() {
		return diags
	}
	var found, expected, planned map[string]tftypes.Value
	if err := errors.Join(current.Raw.As(&found), prior.Raw.As(&expected), plan.Raw.As(&planned)); err != nil {
		diags.AddError("Fault in the provider", err.Error())
		return diags
	}
	for name, value := range found {
		if !value.Equal(expected[name]) && !value.Equal(planned[name]) && planned[name].IsKnown() {
			diags.AddAttributeError(path.Root(name), "Changed since the plan",
				fmt.Sprintf("The attribute %s of atrium_%s has changed since this plan was made. Nothing was changed. Plan again.", name, b.kind))
		}
	}
	return diags
}

// remove deletes a resource. One that does not exist is deleted.
func (b *base) remove(ctx context.Context, tenant, path string) error {
	_, err := b.Do(ctx, client.Request{Method: http.MethodDelete, Path: path, Tenant: tenant})
	return b.ignoreMissing(ctx, tenant, err)
}

// ignoreMissing returns nil for the error that a resource does not exist.
func (b *base) ignoreMissing(ctx context.Context, tenant string, err error) error {
	if err = b.checkMissing(ctx, tenant, err); client.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// checkMissing returns another error if a resource seems not to exist because the key belongs to another tenant. Otherwise
// a wrong key would remove all resources from the state, and create them for the other tenant.
func (b *base) checkMissing(ctx context.Context, tenant string, err error) error {
	if tenant == "" || !client.HasStatus(err, http.StatusNotFound) {
		return err
	}
	first, list := url.Values{"limit": {"1"}}, struct{}{}
	if _, listed := b.Get(ctx, tenant, b.path, first, &list); !client.HasStatus(listed, http.StatusNotFound) {
		return err // the key has access to the tenant
	}
	if _, listed := b.Get(ctx, "", b.path, first, &list); listed == nil { // with an operator key, this is an error
		return fmt.Errorf("the key belongs to another tenant than the resource, which belongs to %s. Use a key of that tenant, or an operator key", tenant)
	}
	return err
}

// fault adds an error to diagnostics: each fault of a request to the attribute that it is about. verb is what failed, such
// as create.
func (b *base) fault(ctx context.Context, diags *diag.Diagnostics, verb string, err error) {
	addFault(ctx, diags, "Cannot "+verb+" atrium_"+b.kind, b.schema(), b.names, err)
}

func addFault(ctx context.Context, diags *diag.Diagnostics, summary string, s schema.Schema, names map[string]string, err error) {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		diags.AddError(summary, sentence(err.Error()))
		return
	}
	suffix := ""
	if p.RequestID != "" {
		suffix = " (request " + p.RequestID + ")"
	}
	if len(p.Faults) == 0 {
		diags.AddError(summary, sentence(p.Detail)+hint(p.Status)+suffix)
		return
	}
	for _, f := range p.Faults {
		switch {
		case f.Pointer != nil:
			at, rest := locate(ctx, s, names, *f.Pointer)
			if len(at.Steps()) == 0 {
				diags.AddError(summary, sentence(rest+f.Detail)+suffix)
			} else { // with the path, because Terraform does not show that of a nested attribute
				diags.AddAttributeError(at, summary, at.String()+": "+rest+strings.TrimSuffix(f.Detail, ".")+"."+suffix)
			}
		case f.Parameter != "":
			diags.AddError(summary, sentence("the parameter "+f.Parameter+" "+f.Detail)+suffix)
		default:
			diags.AddError(summary, sentence("the header "+f.Header+" "+f.Detail)+suffix)
		}
	}
}

// hint returns how to fix the errors that do not say it.
func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return " Check api_key, or the environment variable " + envKey + "."
	case http.StatusForbidden:
		return " Use a key with the scope, or an operator key."
	default:
		return ""
	}
}

// sentence returns a text as a sentence.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	first := []rune(text)
	if len(first) > 0 {
		first[0] = unicode.ToUpper(first[0])
	}
	return string(first) + "."
}

// locate returns the path of the attribute that a JSON Pointer into a request is about, and what to write before the detail
// of the fault: the part of the pointer that has no attribute.
func locate(ctx context.Context, s schema.Schema, names map[string]string, pointer string) (at path.Path, rest string) {
	at = path.Empty()
	if pointer == "" {
		return at, ""
	}
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		name, ok := names[part]
		if !ok {
			name = snake(part)
		}
		next := at.AtName(name)
		if _, diags := s.AttributeAtPath(ctx, next); diags.HasError() {
			return at, strings.Join(parts[i:], "/") + " "
		}
		at = next
	}
	return at, ""
}

// snake returns the name of an attribute for the name of a member: eventTypes is event_types.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func idPattern(kind string) *regexp.Regexp { return regexp.MustCompile("^" + kind + "_[a-z0-9]{26}$") }

// text returns a text of the API, null if it is missing.
func text(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}

// texts returns the elements of a set.
func texts(s types.Set) []string {
	out := []string{}
	for _, e := range s.Elements() {
		if v, ok := e.(types.String); ok {
			out = append(out, v.ValueString())
		}
	}
	slices.Sort(out)
	return out
}

// textSet returns texts as a set.
func textSet(list []string) types.Set {
	values := make([]attr.Value, len(list))
	for i, s := range list {
		values[i] = types.StringValue(s)
	}
	return types.SetValueMust(types.StringType, values)
}

// The attributes that resources share.

func idAttribute(of string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed: true, Description: "Identifier of the " + of + ".",
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

func tenantAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true,
		Description:   "Tenant. Default: the `tenant` of the provider, or the tenant of the key. Another one replaces the resource.",
		Validators:    []validator.String{isID("tenant")},
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
	}
}

func createdAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Computed: true, Description: "When it was created, in RFC 3339.",
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

const (
	rotationTriggerText = "Any text. When it changes to another text, the secret is replaced."
	rotationGraceText   = "For how many seconds the previous secret stays valid after a rotation, at most 30 days. Default: one day."
	maxGraceSeconds     = 30 * 24 * 3600
)

// graceBody returns the body of a rotation.
func graceBody(grace types.Int64) map[string]any {
	if grace.IsNull() {
		return map[string]any{}
	}
	return map[string]any{"graceSeconds": grace.ValueInt64()}
}

// triggered reports whether a change of a trigger asks for a rotation.
func triggered(before, after types.String) bool { return !after.IsNull() && !after.Equal(before) }

// wait waits for a time, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
