package webhook

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The data is that of an entry, with a payload that repeats a name, as it was sent.
const (
	data    = `{"type":"deal.won","payload":{"name":"Ü","name":"\u00dc","amount":1e400,"list":[1, 2]}}`
	encoded = `{"id":"event_00000000000000000000000001","type":"account_log.created","timestamp":"2026-03-02T09:00:00.000Z",` +
		`"tenantId":"tenant_00000000000000000000000001","position":42,"data":` + data + `}`
)

func TestFormatsCarryTheSameEvent(t *testing.T) {
	for format, want := range map[Format]string{
		Standard: encoded,
		Legacy: `{"eventId":"event_00000000000000000000000001","timestamp":"2026-03-02T09:00:00.000Z","tenantId":"tenant_00000000000000000000000001",` +
			`"payload":{"type":"account_log.created","data":` + data + `}}`,
		CloudEvents: `{"specversion":"1.0","id":"event_00000000000000000000000001","source":"/tenants/tenant_00000000000000000000000001",` +
			`"type":"account_log.created","time":"2026-03-02T09:00:00.000Z","datacontenttype":"application/json","sequence":"0000000000000000042",` +
			`"tenantid":"tenant_00000000000000000000000001","data":` + data + `}`,
	} {
		for range 2 {
			if got, err := Body(format, []byte(encoded)); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v\nwant %s", format, got, err, want)
			}
		}
	}
}

func TestTextThatIsNoEventHasNoBody(t *testing.T) {
	for _, text := range []string{
		"", "[]", "{}", encoded[:len(encoded)-1], encoded + "{}", strings.Replace(encoded, `"data"`, `"content"`, 1), strings.Replace(encoded, `"position":42,`, "", 1),
	} {
		for _, format := range []Format{Legacy, CloudEvents} {
			if body, err := Body(format, []byte(text)); err == nil {
				t.Errorf("%s of %s: %s", format, text, body)
			}
		}
	}
	if body, err := Body("other", []byte(encoded)); err == nil {
		t.Errorf("another format: %s", body)
	}
}

func FuzzBody(f *testing.F) {
	f.Add([]byte(encoded))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []Format{Legacy, CloudEvents} {
			body, err := Body(format, text)
			if err == nil && !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
				t.Errorf("%s of %q: %q", format, text, body)
			}
		}
	})
}
