package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// eachManaged calls visit for every operation of the management API that needs a key, with
// its parameters, including those of its path item.
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

// isStreamed reports whether the request or the response of a path is streamed.
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

func TestManageAllowsEverythingAndManageReadAllowsReads(t *testing.T) {
	known := []string{"manage", "manage:accounts", "manage:erase", "manage:events", "manage:keys", "manage:pages", "manage:read", "manage:receivers", "manage:users"}
	eachManaged(t, func(path, method string, op object, _ []object) {
		scopes := scopesOf(op)
		for _, scope := range scopes {
			if ofSenders := scope == "account_logs:write" && path == "/manage/v0/account_logs"; !slices.Contains(known, scope) && !ofSenders {
				t.Errorf("%s %s: unknown scope %s", method, path, scope)
			}
		}
		apart := path == "/manage/v0/reads" || slices.Contains(scopes, "manage:events") // reading it needs a scope of its own
		if reads := method == "get" && !apart; !slices.Contains(scopes, "manage") || slices.Contains(scopes, "manage:read") != reads {
			t.Errorf("%s %s: has the scopes %q", method, path, scopes)
		}
	})
}

func TestManagementOperationsHaveConsistentHeadersAndStatuses(t *testing.T) {
	eachManaged(t, func(path, method string, op object, parameters []object) {
		fault := func(what string) { t.Errorf("%s %s: %s", method, path, what) }
		has := func(status string) bool { return op["responses"].(object)[status] != nil }
		ofTenant := !strings.HasPrefix(path, "/manage/v0/tenants") && !strings.HasPrefix(path, "/manage/v0/server/")
		if ofTenant != (named(parameters, "Atrium-Tenant") != nil) || ofTenant && (!has("400") || !has("404")) {
			fault("must have the parameter Atrium-Tenant, 400 and 404 if and only if it concerns a tenant")
		}
		match := named(parameters, "If-Match")
		switch method {
		case "get":
			if tagged := !isStreamed(path); tagged != (named(parameters, "If-None-Match") != nil) || tagged != has("304") {
				fault("must have If-None-Match and 304 if and only if it is not streamed")
			}
		case "post":
			if made := has("201"); made != (named(parameters, "Idempotency-Key") != nil) || made != has("422") {
				fault("must have Idempotency-Key and 422 if and only if it has 201")
			}
		case "patch":
			if match == nil || match["required"] != true || !has("412") || !has("428") {
				fault("must require If-Match, and have 412 and 428")
			}
		case "delete":
			if match == nil || match["required"] == true || !has("412") || has("428") || !has("204") && !has("202") {
				fault("must have an optional If-Match, 204 or 202, and 412, but not 428")
			}
		}
		feed, first := path == "/manage/v0/events", path == "/manage/v0/activity/accounts" // continues after a position, and has no other page
		if limit := named(parameters, "limit"); (limit == nil) != (named(parameters, "cursor") == nil) && !feed && !first {
			fault("has only one of limit and cursor")
		}
	})
}

// All objects in request bodies, at any depth, reject unknown members, which may be
// misspelled.
func TestNoRequestOfTheManagementAPITakesAnUnknownMember(t *testing.T) {
	var check func(at string, schema any)
	check = func(at string, schema any) {
		walk(Manage.resolve(t, schema), at, func(at string, node object) {
			switch {
			case node["$ref"] != nil:
				check(at, node)
			case node["properties"] != nil && node["additionalProperties"] != false:
				t.Errorf("%s accepts unknown members", at)
			}
		})
	}
	bodies := 0
	eachManaged(t, func(path, method string, op object, _ []object) {
		if body, ok := op["requestBody"].(object); ok && path != "/manage/v0/import" {
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
	accepted := []string{`{"name":"a"}`, `{"name":" "}`, `{"name":"` + long + `"}`}
	rejected := []string{
		`{}`, `[]`, `null`, `{"name":null}`, `{"name":""}`, `{"name":1}`, `{"name":"a\u0000"}`, `{"name":"` + long + `a"}`,
		`{"Name":"a"}`, `{"name":"a","Brand":"b"}`, `{"name":"a","":null}`, `{"name":"a","brandId":"brand_01kjpx722sf2x8m1c3v5b7n9qa"}`,
	}
	Manage.checkBodies(t, "NewBrand", http.MethodPost, "/manage/v0/brands", accepted, rejected)
	Manage.checkBodies(t, "BrandUpdate", http.MethodPatch, "/manage/v0/brands/x", accepted, rejected)
}
