package external_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/api"
	"atrium/internal/external"
	"atrium/internal/rest"
	"atrium/internal/rest/resttest"
)

// recorder acknowledges every entry and stores none.
type recorder struct{}

func (recorder) Submit(_ context.Context, d *atrium.Draft) (atrium.Receipt, error) {
	return atrium.Receipt{
		EntryID: atrium.NewID[atrium.EntryID](), AccountID: atrium.NewID[atrium.AccountID](),
		CreatedAt: atrium.At(time.Now()), Source: d.Source, Type: d.Type,
	}, nil
}

// routes returns the routes without a store.
func routes() []rest.Route { return (&external.API{Logs: recorder{}}).Routes() }

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
	o := resttest.New(f, api.External, "createAccountLog", routes(), http.StatusCreated)
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := o.Check(t, body)
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

func FuzzAccountUpdateBody(f *testing.F) {
	addBodies(f)
	o := resttest.New(f, api.External, "updateAccount", routes(), http.StatusNotFound)
	f.Fuzz(func(t *testing.T, body []byte) { o.Check(t, body) })
}
