package manage_test

import (
	"net/http"
	"testing"
)

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
