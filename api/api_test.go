package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// object is a decoded JSON object.
type object = map[string]any

func TestDocumentIsValidOpenAPI31(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		if v := d.tree(t)["openapi"]; v != "3.1.0" {
			t.Errorf("openapi is %v", v)
		}
		if ok, errs := d.newValidator(t).ValidateDocument(); !ok {
			t.Error(explain(errs))
		}
	})
}

// As the other documentation does.
func TestDocumentsCallAPartOfAnObjectAField(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		if word := regexp.MustCompile(`(?i)[^\n]*\bmembers?\b[^\n]*`).Find(d.YAML()); word != nil {
			t.Errorf("a member is not called a field: %s", word)
		}
	})
}

func TestJSONHasTheValuesAndOrderOfYAML(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		var fromYAML any
		if err := yaml.Unmarshal(d.YAML(), &fromYAML); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(fromYAML)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if got := d.tree(t); !reflect.DeepEqual(any(got), want) {
			t.Error("JSON and YAML differ")
		}
		if !bytes.HasPrefix(d.JSON(), []byte(`{"openapi":"3.1.0","info":{"title":"Atrium `)) {
			t.Errorf("members are not in the order of the document: %.80s", d.JSON())
		}
	})
}

func TestJSONKeepsWhatYAMLWouldReinterpret(t *testing.T) {
	for in, want := range map[string]string{
		"b: 1\na: [2026-03-02T09:14:07.000Z, 'null', null, true, 1.5]": `{"b":1,"a":["2026-03-02T09:14:07.000Z","null",null,true,1.5]}`,
		"'200': {}\nx: \"\\u2028\"":                                    `{"200":{},"x":"\u2028"}`,
	} {
		got, err := toJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("toJSON(%q) = %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := toJSON([]byte("a: &x 1\nb: *x")); err == nil {
		t.Error("an alias was accepted")
	}
}

// Every example is valid by its schema, and every JSON body has an example.
func TestEveryExampleSatisfiesItsSchema(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		d = d.strict(t)
		schemas := d.newSchemas(t)
		count := 0
		check := func(pointer string, example any) {
			count++
			if err := schemas.compile(t, pointer).Validate(example); err != nil {
				t.Errorf("example of %s: %v", pointer, err)
			}
		}
		walk(decode(t, d.JSON()), "", func(at string, node object) {
			if _, ok := node["schema"]; ok {
				for _, example := range examplesOf(node) {
					check(at+"/schema", example)
				}
			}
			if list, ok := node["examples"].([]any); ok {
				for _, example := range list {
					check(at, example)
				}
			}
			content, _ := node["content"].(object)
			for name, media := range content {
				if strings.Contains(name, "json") && len(examplesOf(media.(object))) == 0 {
					t.Errorf("%s/content: %s has no example", at, name)
				}
			}
		})
		if count < 30 {
			t.Errorf("found only %d examples", count)
		}
	})
}

// Unlike linters, this test follows the references in x-other-methods.
func TestEveryComponentIsUsed(t *testing.T) {
	onEveryDocument(t, func(t *testing.T, d Document) {
		used := make(map[string]bool)
		walk(d.tree(t), "", func(_ string, node object) {
			if ref, ok := node["$ref"].(string); ok {
				used[ref] = true
			}
		})
		for kind, components := range d.tree(t)["components"].(object) {
			for name := range components.(object) {
				if ref := "#/components/" + kind + "/" + name; kind != "securitySchemes" && !used[ref] {
					t.Errorf("%s is not used", ref)
				}
			}
		}
	})
}

func TestOperationsSayWhatTheyNeedAndHowTheyFail(t *testing.T) {
	onEveryAPI(t, func(t *testing.T, d Document) {
		seen := make(map[string]bool)
		for path, item := range d.tree(t)["paths"].(object) {
			if item.(object)["head"] != nil {
				t.Errorf("%s: has HEAD, which the description covers; generators would create a second method", path)
			}
			if item.(object)["x-other-methods"] == nil {
				t.Errorf("%s: does not document the response to other methods", path)
			}
			for method, op := range operations(item) {
				id, _ := op["operationId"].(string)
				if id == "" || seen[id] {
					t.Errorf("%s %s: operationId %q is empty or a duplicate", method, path, id)
				}
				seen[id] = true

				scopes := scopesOf(op)
				for _, scope := range scopes {
					if !strings.Contains(op["description"].(string), "`"+scope+"`") {
						t.Errorf("%s: the description does not name the scope %s", id, scope)
					}
				}
				_, keyless := op["security"]
				if keyless == (len(scopes) > 0) {
					t.Errorf("%s: scopes %q, but needs no key: %v", id, scopes, keyless)
				}
				for _, status := range failures(op) {
					if _, ok := op["responses"].(object)[status]; !ok {
						t.Errorf("%s: does not document status %s", id, status)
					}
				}
			}
		}
	})
}

// failures returns the statuses of the error responses that an operation must document.
func failures(op object) []string {
	keyed := len(scopesOf(op)) > 0
	want := []string{"500"}
	if keyed {
		want = append(want, "401", "403", "406", "429", "503")
	}
	if op["requestBody"] != nil {
		want = append(want, "400", "413", "415")
	}
	if id := op["operationId"]; id == "receive" { // takes any media type
		want = slices.DeleteFunc(want, func(status string) bool { return status == "415" })
	}
	return want
}

func TestEveryOperationOfTheExternalAPINeedsItsScope(t *testing.T) {
	scopes := map[string]string{
		"createAccountLog":     "account_logs:write",
		"updateAccount":        "accounts:write",
		"getAccount":           "accounts:read",
		"listPages":            "pages:read",
		"getPage":              "pages:read",
		"listAudienceVersions": "pages:read",
	}
	for _, item := range External.tree(t)["paths"].(object) {
		for _, op := range operations(item) {
			id := op["operationId"].(string)
			if scope, _ := op["x-scope"].(string); scope != scopes[id] {
				t.Errorf("%s: scope %q, want %q", id, scope, scopes[id])
			}
			delete(scopes, id)
		}
	}
	for id := range scopes {
		t.Errorf("no operation %s", id)
	}
}

// The validator accepts each example as a response with its status, and no problem as a
// response with another status.
func TestEveryDocumentedResponseIsValid(t *testing.T) {
	onEveryAPI(t, func(t *testing.T, d Document) {
		d = d.strict(t)
		v := d.newValidator(t)
		count := 0
		known := map[string]string{} // operations share most of their responses, and validation is slow
		faults := func(request *http.Request, definition any, a exampleResponse) string {
			key := fmt.Sprintln(definition, a)
			found, ok := known[key]
			if ok {
				return found
			}
			if ok, errs := v.ValidateHttpResponse(request, a.http()); !ok {
				found = "invalid: " + explain(errs)
			}
			known[key] = found
			return found
		}
		for path, item := range d.tree(t)["paths"].(object) {
			for method, op := range operations(item) {
				request := httptest.NewRequest(strings.ToUpper(method), regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x"), nil)
				var problems []exampleResponse
				definitions := map[int]any{}
				for status, response := range op["responses"].(object) {
					for _, a := range d.responses(t, status, response) {
						count++
						definitions[a.status] = response
						if found := faults(request, response, a); found != "" {
							t.Errorf("%s %s %s: %s", method, path, status, found)
						}
						if a.header.Get("Content-Type") == "application/problem+json" {
							problems = append(problems, a)
						}
					}
				}
				for _, a := range problems {
					for _, b := range problems {
						if a.status == b.status {
							continue
						}
						wrong := exampleResponse{status: a.status, header: a.header, body: b.body}
						if faults(request, definitions[a.status], wrong) == "" {
							t.Errorf("%s %s: the body of a %d is valid as a %d", method, path, b.status, a.status)
						}
					}
				}
			}
		}
		if count < 50 {
			t.Errorf("found only %d responses", count)
		}
	})
}

func TestAccountLogRequestIsAcceptedExactlyByTheRules(t *testing.T) {
	const (
		astral = "\U0001F680"
		id     = "account_01kghg01ftes8r65rzyjka792g"
	)
	with := func(member string) string { return `{"source":"crm","payload":{},` + member + `}` }
	text := func(name, value string) string { return with(`"` + name + `":"` + value + `"`) }
	source := func(value string) string { return `{"payload":{},"source":` + value + `}` }
	payload := func(value string) string { return `{"source":"crm","payload":` + value + `}` }
	repeat := strings.Repeat

	accepted := []string{
		payload(`{}`),
		payload(`{"a":null,"b":[1e400,1.0,"\u0000"],"":{}}`),
		source(`"` + repeat(astral, 100) + `"`),
		source(`" "`),
		source(`"line\nbreak\n"`),
		with(`"unknown":null`),
		with(`"Type":null`),
		text("type", repeat(astral, 100)),
		text("accountId", id),
		text("accountId", "account_"+repeat("z", 26)),
		text("domain", "x"),
		text("domain", " x "),
		text("domain", `\n-\n`),
		text("domain", "\ufeff"), // white space in ECMA-262, but not in Unicode
		text("domain", "\u200b"),
		text("domain", repeat("a", 5000)),
		text("name", repeat(astral, 255)),
		text("name", " "),
		text("idempotencyKey", repeat(astral, 255)),
		text("idempotencyKey", `\u0001`),
	}
	rejected := []string{
		`null`, `[]`, `"x"`, `1`, `{}`,
		`{"payload":{}}`,
		`{"source":"crm"}`,
		`{"Source":"crm","payload":{}}`,
		payload(`[]`), payload(`null`), payload(`"{}"`), payload(`1`),
		source(`null`), source(`1`), source(`""`),
		source(`"` + repeat("a", 101) + `"`),
		source(`"` + repeat(astral, 101) + `"`),
		text("type", ""),
		text("type", repeat(astral, 101)),
		text("accountId", ""),
		text("accountId", "account_"+repeat("z", 25)),
		text("accountId", "account_"+repeat("z", 27)),
		text("accountId", "account_"+repeat("Z", 26)),
		text("accountId", "page_"+repeat("z", 26)),
		text("accountId", id+`\n`),
		text("accountId", " "+id),
		text("domain", ""), text("domain", " "), text("domain", "\u3000"),
		text("domain", `\t\n\u000b\f\r`),
		text("domain", "\u2028\u2029\u0085\u00a0"),
		text("name", ""), text("name", repeat("a", 256)), text("name", repeat(astral, 256)),
		text("idempotencyKey", ""), text("idempotencyKey", repeat(astral, 256)),
	}
	for _, name := range []string{"type", "accountId", "domain", "name", "idempotencyKey"} {
		rejected = append(rejected, with(`"`+name+`":null`), with(`"`+name+`":1`), with(`"`+name+`":["x"]`))
	}
	for _, name := range []string{"type", "domain", "name", "idempotencyKey"} {
		rejected = append(rejected, text(name, `\u0000`), text(name, `a\u0000b`), text(name, `a\u0000`))
	}
	rejected = append(rejected, source(`"a\u0000"`), text("accountId", id+`\u0000`))

	External.checkBodies(t, "NewAccountLog", http.MethodPost, "/v0/account_logs", accepted, rejected)
}

func TestAccountUpdateRequestIsAcceptedExactlyByTheRules(t *testing.T) {
	long := strings.Repeat("\U0001F680", 255)
	External.checkBodies(t, "AccountUpdate", http.MethodPatch, "/v0/accounts/x",
		[]string{`{"name":"a"}`, `{"name":" "}`, `{"name":"` + long + `"}`, `{"name":"a","domain":null}`},
		[]string{`{}`, `[]`, `null`, `{"name":null}`, `{"name":""}`, `{"name":1}`, `{"name":"a\u0000"}`, `{"name":"` + long + `a"}`, `{"Name":"a"}`})
}

// Of all one-character texts, only U+0000 and white space are not domains.
func TestDomainPatternRejectsAllWhiteSpace(t *testing.T) {
	properties := External.tree(t)["components"].(object)["schemas"].(object)["NewAccountLog"].(object)["properties"].(object)
	pattern := regexp.MustCompile(properties["domain"].(object)["pattern"].(string))
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if want := r != 0 && !unicode.IsSpace(r); utf8.ValidRune(r) && pattern.MatchString(string(r)) != want {
			t.Errorf("%U: accepted %v, want %v", r, !want, want)
		}
	}
}

func TestInvalidResponsesAreRejected(t *testing.T) {
	const (
		tenant = `"tenantId":"tenant_01kerkhc50emq8k9w39qsaekf4"`
		times  = `"createdAt":"2026-02-20T13:45:00.250Z","updatedAt":"2026-02-27T15:03:44.610Z"`
		page   = `"pageId":"page_01khxmqw2tefct6h2vpcbkhxys",` + tenant + `,"brandId":"b","name":"","pageContext":"",` +
			`"actions":[],"scripts":[],"audiencesCount":0,` + times
		single  = page + `,"footerLinks":[],"deletedAt":null`
		listed  = single + `,"title":"","status":"draft"`
		account = `"accountId":"account_01kghg01ftes8r65rzyjka792g",` + tenant + `,"domain":"example.com"`
		rest    = `"latestActivityAt":null,"linkedProspects":[]`
	)
	v := External.strict(t).newValidator(t)
	for _, c := range []struct {
		path, body string
		want       bool
	}{
		{"/v0/pages/x", `{` + single + `}`, true},
		{"/v0/pages/x", `{` + single + `,"metadata":[null]}`, true},
		{"/v0/pages/x", `{` + single + `,"title":"a"}`, false},
		{"/v0/pages/x", `{` + single + `,"title":null}`, false},
		{"/v0/pages/x", `{` + single + `,"status":"draft"}`, false},
		{"/v0/pages/x", `{` + single + `,"metadata":null}`, false},
		{"/v0/pages/x", `{` + page + `,"deletedAt":null}`, false},
		{"/v0/pages", `{"items":[{` + listed + `}],"hasMore":false,"limit":20}`, true},
		{"/v0/pages", `{"items":[{` + single + `}],"hasMore":false,"limit":20}`, false},
		{"/v0/pages", `{"items":[{` + listed + `,"metadata":1}],"hasMore":false,"limit":20}`, false},
		{"/v0/pages", `{"items":[],"hasMore":true,"limit":20,"nextCursor":"a-_9"}`, true},
		{"/v0/pages", `{"items":[],"hasMore":true,"limit":20}`, false},
		{"/v0/pages", `{"items":[],"hasMore":false,"limit":20,"nextCursor":"a"}`, false},
		{"/v0/pages", `{"items":[],"hasMore":false,"limit":20,"nextCursor":null}`, false},
		{"/v0/pages", `{"items":null,"hasMore":false,"limit":20}`, false},
		{"/v0/accounts/x", `{` + account + `,"name":null,` + times + `,` + rest + `}`, true},
		{"/v0/accounts/x", `{` + account + `,` + times + `,` + rest + `}`, false},
		{"/v0/accounts/x", `{` + account + `,"name":"",` + times + `,` + rest + `}`, false},
		{"/v0/accounts/x", `{` + account + `,"name":null,` + strings.ReplaceAll(times, ".610Z", "Z") + `,` + rest + `}`, false},
		{"/v0/accounts/x", `{` + account + `,"name":null,` + strings.ReplaceAll(times, ".610Z", ".610+00:00") + `,` + rest + `}`, false},
		{"/v0/accounts/x", `{` + account + `,"name":null,` + times + `,` + strings.ReplaceAll(rest, "null", `"2026-02-20"`) + `}`, false},
		{"/v0/pages/x/audiences/x/versions", `{"items":[],"page":{"hasMore":false,"totalCount":0}}`, true},
		{"/v0/pages/x/audiences/x/versions", `{"items":[],"page":{"hasMore":false}}`, false},
	} {
		a := exampleResponse{status: http.StatusOK, body: []byte(c.body), header: http.Header{
			"Content-Type":  {"application/json"},
			"X-Request-Id":  {"r"},
			"Cache-Control": {"private, no-cache"},
			"Etag":          {`"e"`},
		}}
		ok, errs := v.ValidateHttpResponse(httptest.NewRequest(http.MethodGet, c.path, nil), a.http())
		if ok != c.want {
			t.Errorf("GET %s %s: accepted %v; %s", c.path, c.body, ok, explain(errs))
		}
	}
}
