package provider

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var updatePage = flag.Bool("update", false, "write the reference of docs/terraform.md")

const page = "../../../docs/terraform.md"

// reference begins the part of the page that is generated from the schemas.
const reference = "## Reference\n"

func TestReferenceMatchesTheSchemas(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(content), reference)
	if !ok {
		t.Fatal("docs/terraform.md has no section Reference")
	}
	want := before + reference + makeReference(t)
	if *updatePage {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // a page
			t.Fatal(err)
		}
		return
	}
	if string(content) != want {
		t.Error("docs/terraform.md differs from the schemas: run go test ./internal/provider -update in the directory terraform")
	}
}

// An attribute is an attribute of a schema of any kind.
type attribute interface {
	GetDescription() string
	IsRequired() bool
	IsOptional() bool
	IsComputed() bool
	IsSensitive() bool
}

func makeReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\nIn the tables, *read-only* attributes are set by the server. A test compares this section with the provider.\n")
	var p provider.SchemaResponse
	New("test")().Schema(t.Context(), provider.SchemaRequest{}, &p)
	writeSection(t, &b, "Provider", p.Schema.Description, providerAttributes(p.Schema.Attributes))
	for _, r := range []*base{
		&newTenant().(*tenantResource).base, &newKey().(*keyResource).base, &newWebhook().(*webhookResource).base, &newReceiver().(*receiverResource).base,
		&newBrand().(*brandResource).base, &newPage().(*pageResource).base,
	} {
		s := r.schema()
		writeSection(t, &b, "Resource atrium_"+r.kind, s.Description, resourceAttributes("", s.Attributes))
	}
	for _, d := range []*dataBase{&newTenantData().(*tenantData).dataBase, &newAccountData().(*accountData).dataBase} {
		s := d.schema()
		writeSection(t, &b, "Data source atrium_"+d.kind, s.Description, dataAttributes(s.Attributes))
	}
	return b.String()
}

// A row is an attribute with its path.
type row struct {
	name, kind string
	attribute
	writeOnly bool
}

func writeSection(t *testing.T, b *strings.Builder, title, description string, rows []row) {
	t.Helper()
	if description == "" {
		t.Errorf("%s has no description", title)
	}
	slices.SortFunc(rows, func(x, y row) int { return strings.Compare(x.name, y.name) })
	slices.SortStableFunc(rows, func(x, y row) int { return rank(x) - rank(y) })
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n| Attribute | Type | | Description |\n| --- | --- | --- | --- |\n", title, description)
	for _, r := range rows {
		if r.GetDescription() == "" {
			t.Errorf("%s of %s has no description", r.name, title)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", r.name, r.kind, r.use(), r.GetDescription())
	}
}

// rank orders required attributes before optional ones, and those before the ones that the server sets.
func rank(r row) int {
	switch {
	case r.IsRequired():
		return 0
	case r.IsOptional():
		return 1
	default:
		return 2
	}
}

// use returns who sets an attribute.
func (r row) use() string {
	use := []string{"required", "optional", "read-only"}[rank(r)]
	if r.writeOnly {
		return use + ", write-only"
	}
	if r.IsSensitive() {
		return use + ", sensitive"
	}
	return use
}

func resourceAttributes(prefix string, attributes map[string]schema.Attribute) (rows []row) {
	for name, a := range attributes {
		kind, writeOnly := "", false
		switch a := a.(type) {
		case schema.StringAttribute:
			kind, writeOnly = "string", a.WriteOnly
			if a.CustomType != nil {
				kind = "JSON"
			}
		case schema.BoolAttribute:
			kind = "bool"
		case schema.Int64Attribute:
			kind = "number"
		case schema.SetAttribute:
			kind = "set of strings"
		case schema.MapAttribute:
			kind, writeOnly = "map of strings", a.WriteOnly
		case schema.SingleNestedAttribute:
			kind = "object"
			rows = append(rows, resourceAttributes(prefix+name+".", a.Attributes)...)
		}
		rows = append(rows, row{prefix + name, kind, a, writeOnly})
	}
	return rows
}

func dataAttributes(attributes map[string]dataschema.Attribute) (rows []row) {
	for name, a := range attributes {
		kind := ""
		if a.GetType().Equal(types.StringType) {
			kind = "string"
		}
		rows = append(rows, row{name, kind, a, false})
	}
	return rows
}

func providerAttributes(attributes map[string]providerschema.Attribute) (rows []row) {
	for name, a := range attributes {
		kind := ""
		if a.GetType().Equal(types.StringType) {
			kind = "string"
		}
		rows = append(rows, row{name, kind, a, false})
	}
	return rows
}
