package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// eachManaged calls visit for every operation of the management API that needs a
// key, with the parameters of its path item and its own.
func eachManaged(t *testing.T, visit func(path, method string, op object, parameters []object)) {
	t.Helper()
	for path, item := range Manage.tree(t)["paths"].(object) {
		if !strings.HasPrefix(path, "/manage/v0/") {
			continue
		}
		for method, op := range operations(item) {
			var parameters []object
			for _, list := range []any{item.(object)["parameters"], op["parameters"]} {
				list, _ := list.([]any)
				for _, p := range list {
					parameters = append(parameters, Manage.resolve(t, p))
				}
			}
			visit(path, method, op, parameters)
		}
	}
}

// isStreamed reports whether a path takes or answers lines of any number.
func isStreamed(path string) bool {
	return slices.Contains([]string{"/manage/v0/import", "/manage/v0/export", "/manage/v0/audit/export"}, path)
}

func named(parameters []object, name string) object {
	for _, p := range parameters {
		if p["name"] == name {
			return p
		}
	}
	return nil
}

func TestTheScopeManageAllowsEverythingAndManageReadEveryRead(t *testing.T) {
	known := []string{"manage", "manage:accounts", "manage:keys", "manage:pages", "manage:read"}
	eachManaged(t, func(path, method string, op object, _ []object) {
		scopes := scopesOf(op)
		for _, scope := range scopes {
			if !slices.Contains(known, scope) {
				t.Errorf("%s %s: there is no scope %s", method, path, scope)
			}
		}
		if reads := method == "get" || method == "head"; !slices.Contains(scopes, "manage") || slices.Contains(scopes, "manage:read") != reads {
			t.Errorf("%s %s: needs one of %q", method, path, scopes)
		}
	})
}

func TestOperationsOfTheManagementAPIAgreeOnHeadersAndAnswers(t *testing.T) {
	eachManaged(t, func(path, method string, op object, parameters []object) {
		fault := func(what string) { t.Errorf("%s %s: %s", method, path, what) }
		has := func(status string) bool { return op["responses"].(object)[status] != nil }
		ofTenant := !strings.HasPrefix(path, "/manage/v0/tenants")
		if ofTenant != (named(parameters, "Atrium-Tenant") != nil) || ofTenant && method != "head" && (!has("400") || !has("404")) {
			fault("is of a tenant or not, and takes Atrium-Tenant, with a 400 and a 404, or not")
		}
		match := named(parameters, "If-Match")
		switch method {
		case "get", "head":
			if tagged := !isStreamed(path); tagged != (named(parameters, "If-None-Match") != nil) || tagged != has("304") {
				fault("If-None-Match goes with what is not streamed")
			}
		case "post":
			if made := has("201"); made != (named(parameters, "Idempotency-Key") != nil) || made != has("422") {
				fault("an Idempotency-Key goes with a 201 and a 422")
			}
		case "patch":
			if match == nil || match["required"] != true || !has("412") || !has("428") {
				fault("does not need If-Match")
			}
		case "delete":
			if match == nil || match["required"] == true || !has("412") || has("428") || !has("204") {
				fault("does not answer 204, with If-Match or without")
			}
		}
		if limit := named(parameters, "limit"); (limit == nil) != (named(parameters, "cursor") == nil) {
			fault("limit and cursor go together")
		}
	})
}

// Of a body, every object is closed, at any depth: a schema that describes members
// and accepts others would accept misspelled ones.
func TestNoRequestOfTheManagementAPITakesAnUnknownMember(t *testing.T) {
	var check func(at string, schema any)
	check = func(at string, schema any) {
		walk(Manage.resolve(t, schema), at, func(at string, node object) {
			switch {
			case node["$ref"] != nil:
				check(at, node)
			case node["properties"] != nil && node["additionalProperties"] != false:
				t.Errorf("%s takes unknown members", at)
			}
		})
	}
	bodies := 0
	eachManaged(t, func(path, method string, op object, _ []object) {
		if body, ok := op["requestBody"].(object); ok && !isStreamed(path) {
			bodies++
			check(method+" "+path, body["content"].(object)["application/json"].(object)["schema"])
		}
	})
	if bodies == 0 {
		t.Error("no operation has a body")
	}
}

func TestABrandIsAcceptedExactlyByTheRules(t *testing.T) {
	long := strings.Repeat("\U0001F680", 255)
	takes := []string{`{"name":"a"}`, `{"name":" "}`, `{"name":"` + long + `"}`}
	refuses := []string{
		`{}`, `[]`, `null`, `{"name":null}`, `{"name":""}`, `{"name":1}`, `{"name":"a\u0000"}`, `{"name":"` + long + `a"}`,
		`{"Name":"a"}`, `{"name":"a","Brand":"b"}`, `{"name":"a","":null}`, `{"name":"a","brandId":"brand_01kjpx722sf2x8m1c3v5b7n9qa"}`,
	}
	Manage.requireVerdicts(t, "NewBrand", http.MethodPost, "/manage/v0/brands", takes, refuses)
	Manage.requireVerdicts(t, "BrandUpdate", http.MethodPatch, "/manage/v0/brands/x", takes, refuses)
}
