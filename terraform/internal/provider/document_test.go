package provider

import (
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// apiDocument is the part of api/manage.yaml that the tests read.
type apiDocument struct {
	Components struct {
		Schemas map[string]apiSchema
	}
}

type apiSchema struct {
	Ref        string `yaml:"$ref"`
	Enum       []string
	Properties map[string]apiSchema
}

func readDocument(t *testing.T) map[string]apiSchema {
	t.Helper()
	content, err := os.ReadFile("../../../api/manage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc apiDocument
	if err := yaml.Unmarshal(content, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

func TestFixedSetsAreThoseOfTheAPI(t *testing.T) {
	schemas := readDocument(t)
	verification := schemas["ReceiverVerification"].Properties
	for name, sets := range map[string][2][]string{
		"scopes":     {scopes, schemas["Scope"].Enum},
		"events":     {eventTypes, schemas["EventTypeName"].Enum},
		"formats":    {formats, schemas["WebhookFormat"].Enum},
		"providers":  {receiverProviders, schemas["ReceiverProvider"].Enum},
		"algorithms": {algorithms, verification["algorithm"].Enum},
		"encodings":  {encodings, verification["encoding"].Enum},
		"statuses":   {statuses, schemas["PageStatus"].Enum},
	} {
		if len(sets[1]) == 0 || !slices.Equal(sets[0], sets[1]) {
			t.Errorf("%s: %v, the document has %v", name, sets[0], sets[1])
		}
	}
}

// Every member of a request has an attribute. A new one of the API is missing until it gets one, or a reason.
func TestEveryMemberOfTheAPIHasAnAttribute(t *testing.T) {
	schemas := readDocument(t)
	without := map[string]string{
		"NewTenant/tenantId":                  "a tenant that moves here is imported, not created",
		"ReceiverSecretRotation/graceSeconds": "rotation_grace_seconds",
		"KeyRotation/graceSeconds":            "rotation_grace_seconds",
		"SecretRotation/graceSeconds":         "rotation_grace_seconds",
	}
	for resource, bodies := range map[*base][]string{
		&newTenant().(*tenantResource).base:     {"NewTenant", "TenantUpdate"},
		&newKey().(*keyResource).base:           {"NewKey", "KeyRotation"},
		&newWebhook().(*webhookResource).base:   {"NewWebhook", "WebhookUpdate", "SecretRotation"},
		&newReceiver().(*receiverResource).base: {"NewReceiver", "ReceiverUpdate", "ReceiverSecretRotation"},
		&newBrand().(*brandResource).base:       {"NewBrand", "BrandUpdate"},
		&newPage().(*pageResource).base:         {"NewPage", "PageUpdate", "Schedule"},
	} {
		for _, body := range bodies {
			if len(schemas[body].Properties) == 0 {
				t.Errorf("the document has no %s", body)
			}
			for member, s := range schemas[body].Properties {
				inner := []string{""}
				for name := range schemas[s.name()].Properties {
					inner = append(inner, "/"+name)
				}
				for _, name := range inner {
					_, rest := locate(t.Context(), resource.schema(), resource.names, "/"+member+name)
					if rest != "" && without[body+"/"+member] == "" {
						t.Errorf("atrium_%s has no attribute for /%s%s of %s", resource.kind, member, name, body)
					}
				}
			}
		}
	}
}

// name returns the name of the schema that a reference leads to.
func (s apiSchema) name() string {
	const prefix = "#/components/schemas/"
	if len(s.Ref) < len(prefix) {
		return ""
	}
	return s.Ref[len(prefix):]
}
