package manage_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/rest"
)

func TestMemoryOfMappedDeliveriesCountsAsThatOfTheTenant(t *testing.T) {
	s, tenant := newStore(t)
	receiver, _, err := s.CreateReceiver(t.Context(), atrium.CommandLine(tenant), atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{
		Name: "a", Provider: atrium.ProviderToken, Source: "s", Verification: atrium.Verification{Header: "x-token"}, Mapping: atrium.Mapping{
			Name: `"` + strings.Repeat("😀", 250) + `" + string(body.?a.orValue(1))`,
		},
	}}, atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte("a secret")})
	if err != nil {
		t.Fatal(err)
	}
	large := "[" + strings.Repeat("{},", 900) + "{}]"
	quarantine := func(body string) string {
		id := atrium.NewID[atrium.QuarantinedID]()
		if err := s.Quarantine(t.Context(), atrium.QuarantinedDelivery{ID: id, TenantID: tenant, ReceiverID: receiver.ID, ReceivedAt: atrium.At(s.Now()), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		return string(id)
	}
	bodies := limit.NewQuota[atrium.TenantID](4 << 20)
	server := &rest.API{Keys: tenantKey(tenant), Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Bodies: bodies}}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	post := func(path, body string, status int, part string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/manage/v0/receivers/"+string(receiver.ID)+path, strings.NewReader(body)))
		if w.Code != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s: %d %s, want %d with %s", path, w.Code, w.Body, status, part)
		}
	}
	id, small := quarantine(large), quarantine("{}")
	post("/try", `{"request":{"body":"`+large+`"}}`, http.StatusServiceUnavailable, "unavailable")
	post("/try", `{"quarantinedId":"`+id+`"}`, http.StatusServiceUnavailable, "unavailable")
	post("/map_again", `{}`, http.StatusServiceUnavailable, "unavailable")
	post("/quarantine/"+id+"/map_again", ``, http.StatusServiceUnavailable, "unavailable")
	post("/try", `{"quarantinedId":"`+small+`"}`, http.StatusOK, `"elements":1`)
	post("/quarantine/"+small+"/map_again", ``, http.StatusOK, `"accountLogs":1`)
	if !bodies.Take(tenant, bodies.Alone()) {
		t.Error("memory is counted after the requests have ended")
	}
}

// A schema cannot say whether an expression compiles, or what a provider requires: the server may refuse a body that the
// document accepts.

func FuzzCreateReceiverBody(f *testing.F) {
	fuzzAny(f, "createReceiver", []int{http.StatusConflict, http.StatusBadRequest}, // there is no key for secrets
		`{"name":"a","provider":"github"}`, `{"name":"a","provider":"stripe","secret":"whsec_a"}`, `{"name":"a","provider":"stripe"}`,
		`{"name":"a","provider":"hmac","source":"b","verification":{"header":"x","algorithm":"sha256","encoding":"hex","prefix":"a=","content":"{timestamp}{id}{body}","timestampHeader":"t","idHeader":"i","tolerance":300}}`,
		`{"name":"a","provider":"token","verification":{"header":"x"}}`, `{"name":"a","provider":"basic","verification":{"username":"x"}}`,
		`{"name":"a","provider":"meta","secret":"a b","mapping":{"filter":"true","type":"body.a","accountId":"''","domain":"body.","email":"1","name":"","occurredAt":"null","eventId":"[]"}}`)
}

func FuzzUpdateReceiverBody(f *testing.F) {
	fuzzAny(f, "updateReceiver", []int{http.StatusNotFound, http.StatusBadRequest},
		`{}`, `{"name":"a","source":"b","verification":{},"mapping":{}}`, `{"mapping":{"type":"body["}}`, `{"provider":"github"}`)
}

func FuzzTryReceiverBody(f *testing.F) {
	fuzzAny(f, "tryReceiver", []int{http.StatusNotFound, http.StatusBadRequest},
		`{"request":{}}`, `{"request":{"headers":{"a":"b","A":"c"},"query":"a=b","body":"{}"},"verification":{"header":"x"},"mapping":{"type":"'a'"},"secret":"s"}`,
		`{"request":{"bodyBase64":"e30="}}`, `{"request":{"bodyBase64":"e30"}}`, `{"quarantinedId":"quarantined_00000000000000000000000000"}`, `{}`)
}

func FuzzRotateReceiverSecretBody(f *testing.F) {
	fuzz(f, "rotateReceiverSecret", http.StatusNotFound, `{}`, `{"graceSeconds":60}`, `{"secret":"a","graceSeconds":0}`, `{"secret":" "}`, `{"graceSeconds":2592001}`)
}

func FuzzMapQuarantineAgainBody(f *testing.F) {
	fuzzAny(f, "mapQuarantineAgain", []int{http.StatusNotFound, http.StatusBadRequest}, `{}`, `{"limit":200}`, `{"limit":1.0,"cursor":"a"}`, `{"limit":0}`)
}

func FuzzDiscardQuarantineBody(f *testing.F) {
	fuzz(f, "discardQuarantine", http.StatusNotFound, `{}`, `{"since":"2026-01-02T15:04:05.678Z","until":"2026-01-02T15:04:05Z"}`, `{"since":null}`)
}
