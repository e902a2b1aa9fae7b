package external_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"atrium"
	"atrium/api"
	"atrium/internal/auth"
	"atrium/internal/external"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// oneKey has one key, whichever is asked for.
type oneKey struct {
	auth.Keys
	key  atrium.APIKey
	hash []byte
}

func (k oneKey) Key(context.Context, atrium.KeyID) (key atrium.APIKey, current, previous []byte, err error) {
	return k.key, k.hash, nil, nil
}

// recorder acknowledges every entry and keeps none.
type recorder struct{}

func (recorder) Submit(_ context.Context, d *atrium.Draft) (atrium.Receipt, error) {
	return atrium.Receipt{
		EntryID: atrium.NewID[atrium.EntryID](), AccountID: atrium.NewID[atrium.AccountID](),
		CreatedAt: atrium.At(time.Now()), Source: d.Source, Type: d.Type,
	}, nil
}

// A fuzzed is one operation whose bodies are judged by the handlers, without a
// network and storage, and by the OpenAPI document.
type fuzzed struct {
	method, path string
	taken        int // the status of a request with a body that is taken
	handler      http.Handler
	key          string
	schema       *jsonschema.Schema
}

func newFuzzed(f *testing.F, method, path string, taken int, schema string) fuzzed {
	f.Helper()
	id, text, hash := auth.NewKey()
	key := atrium.APIKey{ID: id, TenantID: atrium.NewID[atrium.TenantID](), Scopes: atrium.ExternalScopes()}
	kit := &rest.API{Keys: auth.New(oneKey{key: key, hash: hash}, time.Now, nil), Log: slog.New(slog.DiscardHandler)}
	routes := (&external.API{Logs: recorder{}}).Routes()

	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.External.JSON()))
	if err != nil {
		f.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///openapi.json", tree); err != nil {
		f.Fatal(err)
	}
	compiled, err := c.Compile("mem:///openapi.json#/components/schemas/" + schema)
	if err != nil {
		f.Fatal(err)
	}
	return fuzzed{method, path, taken, kit.Handler(routes, nil), text, compiled}
}

// check sends a body and returns the answer to one that is taken.
func (z fuzzed) check(t *testing.T, body []byte) []byte {
	t.Helper()
	if len(body) > rest.DefaultMaxBody {
		return nil
	}
	r := httptest.NewRequest(z.method, z.path, bytes.NewReader(body))
	r.Header.Set("X-Api-Key", z.key)
	w := httptest.NewRecorder()
	z.handler.ServeHTTP(w, r)

	want := http.StatusBadRequest
	if _, err := strictjson.Parse(body); err == nil {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("%q is strict JSON, and yet: %v", body, err)
		}
		if z.schema.Validate(v) == nil {
			want = z.taken
		}
	}
	if w.Code != want {
		t.Fatalf("%q: got %d, want %d: %s", body, w.Code, want, w.Body)
	}
	if w.Code == http.StatusBadRequest {
		return nil
	}
	return w.Body.Bytes()
}

// addBodies seeds a target with bodies for both operations, each valid for one
// or broken in one way.
func addBodies(f *testing.F) {
	f.Helper()
	const astral = "\U0001F680"
	with := func(member string) string { return `{"source":"crm","payload":{},` + member + `}` }
	for _, body := range []string{
		`{}`, `[]`, `null`, ``, `{"name":"a"}`, `{"name":null}`, `{"name":"` + strings.Repeat(astral, 255) + `"}`,
		`{"name":"` + strings.Repeat(`\ud83d\ude80`, 256) + `"}`, `{"name":"a","name":"b"}`, `{"name":"\u0000"}`, `{"n\u0061me":"a"}`,
		`{"source":"crm","payload":{}}`, `{"payload":{},"source":""}`, `{"source":"crm","payload":[]}`,
		`{"source":"` + strings.Repeat("é", 100) + `","payload":{}}`, `{"source":"` + strings.Repeat("é", 101) + `","payload":{}}`,
		`{"source":"crm","payload":{"a":1e999999999,"b":[-0.0,"\u0000",null]}}`, ` { "source" : "a" , "payload" : { } } `,
		`{"source":"crm","payload":` + strings.Repeat(`{"a":`, 63) + `1` + strings.Repeat(`}`, 63) + `}`,
		`{"source":"crm","payload":` + strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64) + `}`,
		with(`"type":"webhook"`), with(`"type":null`), with(`"type":""`),
		with(`"accountId":"account_01kghg01ftes8r65rzyjka792g"`), with(`"accountId":"account_01KGHG01FTES8R65RZYJKA792G"`),
		with(`"accountId":"account_01kghg01ftes8r65rzyjka792g\n"`), with(`"accountId":""`),
		with(`"domain":"example.com"`), with(`"domain":" \t\n\u0085\u00a0\u1680\u2028\u3000"`), with(`"domain":"\ufeff"`), with(`"domain":"\u0000 "`),
		with(`"idempotencyKey":"k"`), with(`"idempotencyKey":"` + strings.Repeat("k", 256) + `"`),
		with(`"unknown":{"a":[]},"":null`), with(`"Source":1`), with(`"source":"twice"`),
		"\ufeff{}", "{\"name\":\"\xff\"}", `{"name":"\ud800"}`, `{"name":"a"}x`, `{"name":"a",}`, `{"name":01}`,
	} {
		f.Add([]byte(body))
	}
}

func FuzzAccountLogBody(f *testing.F) {
	addBodies(f)
	z := newFuzzed(f, http.MethodPost, "/v0/account_logs", http.StatusCreated, "NewAccountLog")
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := z.check(t, body)
		if answer == nil {
			return
		}
		var sent, got map[string]any
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&sent); err != nil {
			t.Fatal(err)
		}
		if sent["type"] == nil {
			sent["type"] = "webhook"
		}
		if got["source"] != sent["source"] || got["type"] != sent["type"] {
			t.Fatalf("%q is answered with %s", body, answer)
		}
	})
}

// The path names no account: a body that is taken gets as far as the 404 for
// that.
func FuzzAccountUpdateBody(f *testing.F) {
	addBodies(f)
	z := newFuzzed(f, http.MethodPatch, "/v0/accounts/none", http.StatusNotFound, "AccountUpdate")
	f.Fuzz(func(t *testing.T, body []byte) { z.check(t, body) })
}
