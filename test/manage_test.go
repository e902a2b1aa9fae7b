package test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/api"
)

// A managedOperation is an operation of the management API that needs a key, with a
// request for resources that do not exist.
type managedOperation struct {
	scopes  []atrium.Scope
	request request
}

var pathParameter = regexp.MustCompile(`\{\w+\}`)

func managedOperations(t *testing.T) (all []managedOperation) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(api.Manage.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths {
		for method, raw := range item {
			var operation struct {
				Scopes      []atrium.Scope `json:"x-scopes"`
				RequestBody *struct{}
			}
			if json.Unmarshal(raw, &operation) != nil || operation.Scopes == nil {
				continue // not an operation, or one that needs no key
			}
			r := request{method: strings.ToUpper(method), target: pathParameter.ReplaceAllString(path, "none")}
			if operation.RequestBody != nil {
				r.body = []byte("{}")
			}
			all = append(all, managedOperation{operation.Scopes, r})
		}
	}
	if len(all) < 7 {
		t.Fatalf("found %d operations", len(all))
	}
	return all
}

func TestManagementOperationsRequireTheirScopes(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		keys := map[atrium.Scope]string{}
		for _, scope := range atrium.AllScopes() {
			keys[scope] = s.key(t, atrium.APIKey{Scopes: atrium.Scopes{scope}})
		}
		for _, op := range managedOperations(t) {
			if a := s.send(t, op.request); a.status != 401 && a.status != 429 { // above the limit of invalid keys
				t.Errorf("%s %s without a key: %s", op.request.method, op.request.target, a)
			}
			for scope, key := range keys {
				r := op.request
				r.header = []string{"x-api-key: " + key, "Atrium-Tenant: " + string(s.north.id)}
				a := s.send(t, r)
				if allowed := slices.Contains(op.scopes, scope); (a.status == 403) == allowed || a.status == 401 || a.status == 405 || a.status >= 500 {
					t.Errorf("%s %s with %s: %s, and allowed is %v", r.method, r.target, scope, a, allowed)
				}
				for _, fault := range checkExchange(t, r, a) {
					t.Errorf("%s %s with %s: %s", r.method, r.target, scope, fault)
				}
			}
		}
	})
}

func TestManagementOperationsRejectUnknownMembers(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		for _, op := range managedOperations(t) {
			r := op.request
			if r.body == nil || strings.HasPrefix(r.target, "/manage/v0/import") {
				continue
			}
			r.body = []byte(`{"unknown":1}`)
			r.header = []string{"x-api-key: " + s.vars["operator"], "Atrium-Tenant: " + string(s.north.id), "If-Match: *"}
			if a := s.send(t, r); a.status != 400 || !slices.Contains(strings.Fields(placesOf(a)), "/unknown") {
				t.Errorf("%s %s: %s", r.method, r.target, a)
			}
		}
	})
}
