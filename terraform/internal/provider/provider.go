// Package provider has the Terraform resources and data sources of Atrium.
package provider

import (
	"context"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"atrium/terraform/internal/client"
)

// Address is the source address of the provider. Its host is only a name: there is no registry there.
const Address = "example.com/atrium/atrium"

// The environment variables of the command line, which the provider shares.
const (
	envServer  = "ATRIUM_SERVER"
	envKey     = "ATRIUM_KEY"
	envKeyFile = "ATRIUM_KEY_FILE"
	envTenant  = "ATRIUM_TENANT"
)

type atrium struct{ version string }

// New returns a function that creates the provider.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &atrium{version} }
}

// A target is the server that resources are managed on, with the default tenant.
type target struct {
	*client.Client
	tenant string // "" for the tenant of the key
}

func (p *atrium) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "atrium", p.version
}

func (p *atrium) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Manages tenants, keys, webhooks, receivers and pages of an Atrium server.",
		Attributes: map[string]schema.Attribute{
			"server": schema.StringAttribute{
				Optional:    true,
				Description: "URL of the server, such as `https://atrium.example.com`. Default: the environment variable `" + envServer + "`.",
				Validators:  []validator.String{checkString("a URL such as https://atrium.example.com", func(s string) bool { _, err := client.ParseServer(s); return err == nil })},
			},
			"api_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "API key with management scopes. Default: the environment variable `" + envKey + "`, or the content of the file that `" + envKeyFile + "` names.",
			},
			"tenant": schema.StringAttribute{
				Optional: true,
				Description: "Default `tenant_id` of resources and data sources, for operator keys. The key of a tenant needs none. Default: the environment variable `" +
					envTenant + "`.",
				Validators: []validator.String{isID("tenant")},
			},
		},
	}
}

func (p *atrium) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config struct {
		Server types.String `tfsdk:"server"`
		APIKey types.String `tfsdk:"api_key"`
		Tenant types.String `tfsdk:"tenant"`
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	for name, value := range map[string]types.String{"server": config.Server, "api_key": config.APIKey, "tenant": config.Tenant} {
		if value.IsUnknown() {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Value is not known yet",
				"The provider needs "+name+" to plan, but its value is known only after other resources are applied. "+hintUnknown(name))
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	server, key, tenant := config.Server.ValueString(), config.APIKey.ValueString(), config.Tenant.ValueString()
	if server == "" {
		server = os.Getenv(envServer)
	}
	if key == "" {
		key = keyOfEnvironment(&resp.Diagnostics)
	}
	if tenant == "" {
		tenant = os.Getenv(envTenant)
	}
	if server == "" {
		resp.Diagnostics.AddAttributeError(path.Root("server"), "No server", "Set server to the URL of the Atrium server, or set the environment variable "+envServer+".")
	}
	if key == "" && !resp.Diagnostics.HasError() || key == "" && server == "" {
		resp.Diagnostics.AddAttributeError(path.Root("api_key"), "No API key",
			"Set the environment variable "+envKey+" to an API key with management scopes, "+envKeyFile+" to a file that contains it, or api_key.")
	}
	if tenant != "" && !idPattern("tenant").MatchString(tenant) {
		resp.Diagnostics.AddAttributeError(path.Root("tenant"), "Not a tenant", envTenant+" must be the identifier of a tenant, such as tenant_01kerkhc50emq8k9w39qsaekf4.")
	}
	if resp.Diagnostics.HasError() {
		return
	}
	c, err := client.New(server, key, "terraform-provider-atrium/"+p.version+" Terraform/"+req.TerraformVersion)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("server"), "Not the URL of a server", "The URL "+err.Error()+".")
		return
	}
	t := &target{c, tenant}
	resp.ResourceData, resp.DataSourceData = t, t
}

// hintUnknown returns how to fix an unknown value.
func hintUnknown(name string) string {
	if name == "tenant" {
		return "Leave it out, and set tenant_id of each resource instead."
	}
	return "Give a value, or a variable."
}

// keyOfEnvironment returns the key of the environment, "" without one.
func keyOfEnvironment(diags *diag.Diagnostics) string {
	if key := os.Getenv(envKey); key != "" {
		return key
	}
	file := os.Getenv(envKeyFile)
	if file == "" {
		return ""
	}
	content, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		diags.AddAttributeError(path.Root("api_key"), "No API key", envKeyFile+": "+err.Error())
		return ""
	}
	return strings.TrimSpace(string(content))
}

func (p *atrium) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newTenant, newKey, newWebhook, newReceiver, newBrand, newPage}
}

func (p *atrium) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newTenantData, newAccountData}
}
