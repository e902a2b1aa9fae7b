package api

import (
	"slices"
	"strings"
	"testing"
)

// Each of these makes a common generator of clients fail, or create types that are hard to use.
// Tests still check what schemas cannot say here: see apitest.Strict.
func TestSchemasUseOnlyWhatGeneratorsSupport(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		walk(d.tree(t), "", func(at string, node object) {
			if strings.HasSuffix(at, "/properties") {
				return // the names of members
			}
			if _, list := node["type"].([]any); list {
				t.Errorf("%s: type is a list; use oneOf with type: 'null'", at)
			}
			if node["type"] == "object" && node["properties"] == nil && node["additionalProperties"] == nil {
				t.Errorf("%s: an object of any form needs additionalProperties: true", at)
			}
			if node["not"] != nil || node["anyOf"] != nil {
				t.Errorf("%s: not and anyOf belong in apitest", at)
			}
			if _, ok := node["const"]; ok && node["type"] == nil {
				t.Errorf("%s: const without a type", at)
			}
			if _, ok := node["default"]; ok && strings.Contains(at, "/properties/") {
				t.Errorf("%s: a default makes an optional member required in TypeScript", at)
			}
			if choices, ok := node["oneOf"].([]any); ok && !isNullable(choices) && !areNamed(choices) {
				t.Errorf("%s: a choice between schemas without names", at)
			}
		})
	})
}

func isNullable(choices []any) bool {
	return len(choices) == 2 && choices[1].(object)["type"] == "null"
}

func areNamed(choices []any) bool {
	return !slices.ContainsFunc(choices, func(c any) bool { return c.(object)["$ref"] == nil })
}

// A generator creates a type for each component, without its kind in the name.
func TestComponentsHaveDifferentNames(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		kinds := map[string]string{}
		for kind, components := range d.tree(t)["components"].(object) {
			for name := range components.(object) {
				if kind == "headers" || kind == "securitySchemes" {
					continue
				}
				if other := kinds[name]; other != "" {
					t.Errorf("%s is the name of %s and %s", name, other, kind)
				}
				kinds[name] = kind
			}
		}
	})
}

func TestEveryErrorHasTheSameSchema(t *testing.T) {
	onEveryAPI(t, func(t *testing.T, d Document) {
		errors := 0
		walk(d.tree(t), "", func(at string, node object) {
			if media, ok := node["application/problem+json"].(object); ok {
				errors++
				if ref := media["schema"].(object)["$ref"]; ref != "#/components/schemas/Problem" {
					t.Errorf("%s: the schema is not Problem", at)
				}
			}
		})
		if errors == 0 {
			t.Error("there are no errors")
		}
	})
}

// What the served schemas cannot say is checked all the same.
func TestStrictSchemasDifferFromTheServedOnes(t *testing.T) {
	const page = `"pageId":"page_01khxmqw2tefct6h2vpcbkhxys","tenantId":"tenant_01kerkhc50emq8k9w39qsaekf4","brandId":"b","name":"","pageContext":"",` +
		`"actions":[],"scripts":[],"footerLinks":[],"audiencesCount":0,"createdAt":"2026-02-20T13:45:00.250Z","updatedAt":"2026-02-27T15:03:44.610Z","deletedAt":null`
	for _, c := range []struct {
		document       Document
		schema, value  string
		served, strict bool
	}{
		{External, "Page", `{` + page + `,"title":""}`, true, false},
		{External, "Page", `{` + page + `,"status":"draft"}`, true, false},
		{External, "Page", `{` + page + `,"metadata":null}`, true, false},
		{External, "ListedPage", `{` + page + `,"title":"","status":"draft","metadata":1}`, true, false},
		{External, "PageList", `{"items":[],"hasMore":true,"limit":1}`, true, false},
		{External, "PageList", `{"items":[],"hasMore":false,"limit":1,"nextCursor":"a"}`, true, false},
		{External, "Fault", `{"detail":"a"}`, true, false},
		{External, "Fault", `{"detail":"a","pointer":"","header":"a"}`, true, false},
		{Manage, "List", `{"hasMore":true,"limit":1}`, true, false},
		{Manage, "BrandList", `{"items":[],"hasMore":false,"limit":1,"nextCursor":"a"}`, true, false},
		{Manage, "Fault", `{"detail":"a"}`, true, false},
		{Manage, "MoveRule", `{"payload":{"pointer":"/a","equals":[]}}`, true, false},
		{Manage, "ErasureRule", `{"payload":{"pointer":"/a","equals":[]}}`, true, false},
		{Manage, "NewErasure", `{"rule":{"text":"a"},"limit":1}`, true, false},
		{Manage, "NewErasure", `{"rule":{"text":"a"},"cursor":"a"}`, true, false},
		{Manage, "RefusedAccountLog", `{"status":401,"code":"unauthenticated","detail":"a"}`, true, false},
		{Manage, "NewAccountLogs", `{"entries":[1]}`, false, true},
		{Manage, "NewKey", `{"name":"a","scopes":["content:read","pages:read"]}`, true, false},
		{Manage, "NewKey", `{"name":"a","scopes":["manage:events","pages:read"]}`, true, false},
		{Manage, "NewKey", `{"name":"a","origins":[]}`, true, false},
		{Manage, "NewKey", `{"name":"a","scopes":["pages:read"],"origins":[]}`, true, false},
		{Content, "Fault", `{"detail":"a"}`, true, false},
	} {
		for served, want := range map[bool]bool{true: c.served, false: c.strict} {
			d := c.document
			if !served {
				d = d.strict(t)
			}
			err := d.newSchemas(t).compile(t, "/components/schemas/"+c.schema).Validate(decode(t, []byte(c.value)))
			if (err == nil) != want {
				t.Errorf("%s: %s %s: %v", d.name, c.schema, c.value, err)
			}
		}
	}
}
