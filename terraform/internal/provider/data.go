package provider

import (
	"context"
	"errors"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

// dataBase is what data sources share.
type dataBase struct {
	*target

	kind   string // tenant, account
	schema func() schema.Schema
}

func (b *dataBase) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + b.kind
}

func (b *dataBase) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = b.schema()
}

func (b *dataBase) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	if req.ProviderData == nil { // before the provider is configured
		return
	}
	t, ok := req.ProviderData.(*target)
	if !ok {
		resp.Diagnostics.AddError("Fault in the provider", "Unexpected provider data.")
		return
	}
	b.target = t
}

// tenantOf returns the tenant of a request, "" for that of the key.
func (b *dataBase) tenantOf(id types.String) string {
	if !id.IsNull() {
		return id.ValueString()
	}
	return b.tenant
}

// detail returns the text of an error.
func detail(err error) string {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return sentence(err.Error())
	}
	return sentence(p.Detail) + hint(p.Status) + " (request " + p.RequestID + ")"
}

func dataTenantAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Validators: []validator.String{isID("tenant")},
		Description: "Tenant. Default: the `tenant` of the provider, or the tenant of the key.",
	}
}

type tenantData struct{ dataBase }

func newTenantData() datasource.DataSource {
	return &tenantData{dataBase{kind: "tenant", schema: tenantDataSchema}}
}

func tenantDataSchema() schema.Schema {
	return schema.Schema{
		Description: "The tenant of the key, or of the configuration with an operator key.",
		Attributes: map[string]schema.Attribute{
			"tenant_id":  dataTenantAttribute(),
			"name":       schema.StringAttribute{Computed: true, Description: "Name."},
			"created_at": schema.StringAttribute{Computed: true, Description: "When it was created, in RFC 3339."},
		},
	}
}

func (d *tenantData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m struct {
		TenantID  types.String `tfsdk:"tenant_id"`
		Name      types.String `tfsdk:"name"`
		CreatedAt types.String `tfsdk:"created_at"`
	}
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var v tenantView
	if _, err := d.Get(ctx, d.tenantOf(m.TenantID), "/tenant", nil, &v); err != nil {
		resp.Diagnostics.AddError("Cannot read the tenant", detail(err))
		return
	}
	m.TenantID, m.Name, m.CreatedAt = types.StringValue(v.TenantID), types.StringValue(v.Name), types.StringValue(v.CreatedAt)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

type accountData struct{ dataBase }

func newAccountData() datasource.DataSource {
	return &accountData{dataBase{kind: "account", schema: accountDataSchema}}
}

func accountDataSchema() schema.Schema {
	return schema.Schema{
		Description: "The account with a domain. It is an error if there is none.",
		Attributes: map[string]schema.Attribute{
			"tenant_id": dataTenantAttribute(),
			"domain": schema.StringAttribute{
				Required: true, Validators: []validator.String{length(1, maxDomain)},
				Description: "Domain in any spelling. Former domains and those of merged accounts also find the account.",
			},
			"id":               schema.StringAttribute{Computed: true, Description: "Identifier of the account."},
			"canonical_domain": schema.StringAttribute{Computed: true, Description: "Its domain in the spelling of the server."},
			"name":             schema.StringAttribute{Computed: true, Description: "Name. Null if it has none."},
			"created_at":       schema.StringAttribute{Computed: true, Description: "When it was created, in RFC 3339."},
		},
	}
}

// maxDomain bounds the domain of a query, which has at most 8 KiB.
const maxDomain = 2048

func (d *accountData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m struct {
		TenantID        types.String `tfsdk:"tenant_id"`
		Domain          types.String `tfsdk:"domain"`
		ID              types.String `tfsdk:"id"`
		CanonicalDomain types.String `tfsdk:"canonical_domain"`
		Name            types.String `tfsdk:"name"`
		CreatedAt       types.String `tfsdk:"created_at"`
	}
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	var list struct {
		Items []struct {
			AccountID string  `json:"accountId"`
			TenantID  string  `json:"tenantId"`
			Domain    string  `json:"domain"`
			Name      *string `json:"name"`
			CreatedAt string  `json:"createdAt"`
		} `json:"items"`
	}
	_, err := d.Get(ctx, d.tenantOf(m.TenantID), "/accounts", url.Values{"domain": {m.Domain.ValueString()}}, &list)
	switch {
	case err != nil:
		resp.Diagnostics.AddAttributeError(path.Root("domain"), "Cannot read the account", detail(err))
		return
	case len(list.Items) == 0:
		resp.Diagnostics.AddAttributeError(path.Root("domain"), "No such account", "No account of the tenant has the domain "+m.Domain.ValueString()+".")
		return
	}
	v := list.Items[0]
	m.TenantID, m.ID, m.CanonicalDomain = types.StringValue(v.TenantID), types.StringValue(v.AccountID), types.StringValue(v.Domain)
	m.Name, m.CreatedAt = types.StringPointerValue(v.Name), types.StringValue(v.CreatedAt)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}
