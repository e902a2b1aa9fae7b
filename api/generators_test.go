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
	onEveryDocument(t, func(t *testing.T, d Document) {
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
