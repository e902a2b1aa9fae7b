package mapping

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/provider"
	"atrium/internal/strictjson"
)

const receiver = atrium.ReceiverID("receiver_00000000000000000000000001")

const maxPayload = 1 << 20

// compiled returns a mapping of a provider.
func compiled(t testing.TB, p atrium.ReceiverProvider, m atrium.Mapping) *Mapping {
	t.Helper()
	spec := atrium.ReceiverSpec{Provider: p, Source: "crm", Mapping: m}
	mapping, err := Compile(receiver, &spec)
	if err != nil {
		t.Fatal(err)
	}
	return mapping
}

// one maps a delivery with one element.
func one(t *testing.T, m *Mapping, body string, headers ...atrium.Header) Result {
	t.Helper()
	results, err := m.Map(&Delivery{Headers: headers, Query: "a=1&a=2&b=%20", Body: []byte(body)}, maxPayload, nil)
	if err != nil || len(results) != 1 {
		t.Fatalf("%.200s: %v, %v", body, results, err)
	}
	return results[0]
}

func at(text string) *atrium.Time {
	t, err := atrium.ParseTime(text)
	if err != nil {
		return nil
	}
	return &t
}

// show returns the members of a submission.
func show(s *Result) string {
	occurred := ""
	if s.OccurredAt != nil {
		occurred = s.OccurredAt.String()
	}
	return strings.Join([]string{s.Type, s.Claim.Domain, s.Claim.Name, occurred, strings.TrimPrefix(s.IdempotencyKey, "in:"+string(receiver)+":")}, "|")
}

// The bodies have what the mappings use of the examples of the providers.
func TestDeliveriesOfProvidersAreMapped(t *testing.T) {
	h := func(name, value string) atrium.Header { return atrium.Header{Name: name, Value: value} }
	for _, c := range []struct {
		provider atrium.ReceiverProvider
		body     string
		headers  []atrium.Header
		want     string // type, domain, name, time, identifier
	}{
		{atrium.ProviderGitHub, `{"action":"opened","organization":{"login":"octo"}}`, []atrium.Header{h("x-github-event", "issues"), h("x-github-delivery", "72d3162e")}, "issues.opened||octo||72d3162e"},
		{atrium.ProviderGitHub, `{"ref":"refs/heads/main","action":null}`, []atrium.Header{h("x-github-event", "push"), h("x-github-delivery", "d")}, "push||||d"},
		{atrium.ProviderGitHub, `{}`, nil, "webhook||||sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
		{
			atrium.ProviderStripe, `{"id":"evt_1","type":"invoice.paid","created":1772442000,"data":{"object":{"customer_email":"a@b.example","amount":1}}}`, nil,
			"invoice.paid|b.example||2026-03-02T09:00:00.000Z|evt_1",
		},
		{
			atrium.ProviderStripe, `{"id":"evt_2","type":"checkout.session.completed","created":1772442000,"data":{"object":{"customer_email":null,"customer_details":{"email":"A@Shop.Example"}}}}`, nil,
			"checkout.session.completed|Shop.Example||2026-03-02T09:00:00.000Z|evt_2",
		},
		{atrium.ProviderStripe, `{"id":"evt_3","type":"charge.failed","data":{"object":{"customer_details":null,"billing_details":{"email":null}}}}`, nil, "charge.failed||||evt_3"},
		{
			atrium.ProviderHubSpot, `{"eventId":1,"subscriptionId":12,"portalId":62515,"occurredAt":1772442000123,"subscriptionType":"contact.propertyChange","attemptNumber":0,"objectId":123,"propertyName":"email","propertyValue":"x@y.example"}`, nil,
			"contact.propertyChange|y.example||2026-03-02T09:00:00.123Z|62515.12.1.123.1772442000123",
		},
		{atrium.ProviderHubSpot, `{"eventId":1,"subscriptionType":"company.propertyChange","propertyName":"domain","propertyValue":"y.example"}`, nil, "company.propertyChange|y.example|||1"},
		{atrium.ProviderHubSpot, `{"subscriptionType":"contact.creation","propertyName":null}`, nil, ""},
		{atrium.ProviderSlack, `{"type":"event_callback","event_id":"Ev1","event_time":1772442000,"event":{"type":"app_mention"}}`, nil, "app_mention|||2026-03-02T09:00:00.000Z|Ev1"},
		{atrium.ProviderSlack, `command=%2Fdeal&text=won&trigger_id=1.2`, []atrium.Header{h("content-type", "application/x-www-form-urlencoded")}, "slash_command||||1.2"},
		{atrium.ProviderSlack, `payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%227.8%22%7D`, []atrium.Header{h("content-type", "application/x-www-form-urlencoded; charset=utf-8")}, "block_actions||||7.8"},
		{
			atrium.ProviderShopify, `{"id":1,"email":"jon@shop.example","customer":{"email":"other@x.example"}}`,
			[]atrium.Header{h("x-shopify-topic", "orders/create"), h("x-shopify-webhook-id", "b54557e4"), h("x-shopify-triggered-at", "2026-03-02T09:00:00.123456789Z")},
			"orders/create|shop.example||2026-03-02T09:00:00.123Z|b54557e4",
		},
		{atrium.ProviderShopify, `{"email":"","customer":{"email":"jon@shop.example"}}`, []atrium.Header{h("x-shopify-topic", "t"), h("x-shopify-webhook-id", "b")}, "t|shop.example|||b"},
		{atrium.ProviderIntercom, `{"type":"notification_event","topic":"conversation.user.created","id":"notif_1","created_at":1772442000,"data":{"item":{"source":{"author":{"email":"a@b.example"}}}}}`, nil, "conversation.user.created|b.example||2026-03-02T09:00:00.000Z|notif_1"},
		{atrium.ProviderIntercom, `{"topic":"ping","id":null,"data":{"item":{"type":"ping"}}}`, nil, ""},
		{atrium.ProviderSegment, `{"type":"track","event":"Order Completed","messageId":"m1","timestamp":"2026-03-02T09:00:00.000Z","context":{"traits":{"email":"a@b.example"}}}`, nil, "Order Completed|b.example||2026-03-02T09:00:00.000Z|m1"},
		{atrium.ProviderSegment, `{"type":"identify","messageId":"m2","traits":{"email":"a@gmail.com"}}`, nil, "identify||||m2"},
		{atrium.ProviderMeta, `{"object":"page","entry":[{"id":"1","time":1772442000,"changes":[]}]}`, nil, ""},
		{atrium.ProviderStandardWebhooks, `{"type":"contact.created","timestamp":"2026-03-02T09:00:00Z","data":{}}`, []atrium.Header{h("svix-id", "msg_7")}, "contact.created|||2026-03-02T09:00:00.000Z|msg_7"},
		{atrium.ProviderToken, `{"a":1}`, nil, ""},
	} {
		result := one(t, compiled(t, c.provider, atrium.Mapping{}), c.body, c.headers...)
		if got := show(&result); c.want != "" && got != c.want {
			t.Errorf("%s, %s:\n%s, want\n%s", c.provider, c.body, got, c.want)
		}
		if result.Source != "crm" {
			t.Errorf("source %q", result.Source)
		}
	}
}

func TestSamplesOfProvidersAreMapped(t *testing.T) {
	for _, name := range atrium.ReceiverProviders() {
		headers, body := provider.Of(name).Sample()
		results, err := compiled(t, name, atrium.Mapping{}).Map(&Delivery{Headers: headers, Body: body}, maxPayload, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for i := range results {
			got = append(got, show(&results[i]))
		}
		want := map[atrium.ReceiverProvider]string{
			atrium.ProviderGitHub:           "push||acme||5f6d1a3e-0b3c-4f0e-9a53-2f6f3d0f6a11",
			atrium.ProviderStripe:           "invoice.paid|acme.example||2026-03-02T09:00:00.000Z|evt_0000000000000001",
			atrium.ProviderHubSpot:          "company.propertyChange|acme.example||2026-03-02T09:00:00.123Z|62515.12.1.123.1772442000123 contact.propertyChange|acme.example||2026-03-02T09:00:00.456Z|62515.13.2.456.1772442000456",
			atrium.ProviderSlack:            "app_mention|||2026-03-02T09:00:00.000Z|Ev0000000001",
			atrium.ProviderShopify:          "orders/create|acme.example||2026-03-02T09:00:00.123Z|b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
			atrium.ProviderIntercom:         "conversation.user.created|acme.example||2026-03-02T09:00:00.000Z|notif_00000000-0000-4000-8000-000000000001",
			atrium.ProviderSegment:          "Trial Started|acme.example||2026-03-02T09:00:00.000Z|ajs-0000000000000001",
			atrium.ProviderMeta:             "page|||2026-03-02T09:00:00.000Z|" + hashPrefix + sum(body),
			atrium.ProviderStandardWebhooks: "contact.created|||2026-03-02T09:00:00.000Z|msg_000000000000000000000000001",
		}[name]
		if want == "" { // the sender defines the content
			want = "webhook||||" + hashPrefix + sum(body)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
}

func TestDefaultMappingsTakeLargeAndStrangeBodies(t *testing.T) {
	large := strings.Repeat("a", 700_000)
	for _, p := range atrium.ReceiverProviders() {
		m := compiled(t, p, atrium.Mapping{})
		for _, body := range []string{
			`{}`, `{"type":"a","topic":"a","object":"a","subscriptionType":"a","large":"` + large + `","data":{"large":"` + large[:1000] + `","object":{"items":["` + large[:100_000] + `"],"x":"` + large[:200_000] + `"}}}`,
			`{"data":null,"event":null,"customer":null,"traits":null,"context":null,"entry":null,"organization":null,"action":7,"email":7,"properties":null,"form":null,"propertyName":null,"propertyValue":null}`,
			`{"data":"","event":"e","customer":"c","traits":1,"context":1,"entry":[],"organization":"o","email":[],"properties":"","form":{}}`,
			`{"data":{"object":{}},"customer":{"email":{}},"traits":{"email":[]},"entry":[null]}`,
		} {
			if results, err := m.Map(&Delivery{Body: []byte(body)}, maxPayload, nil); err != nil || len(results) != 1 {
				t.Errorf("%s: %.200s: %v", p, body, err)
			}
		}
	}
}

func TestResultsAreThoseOfTheExpressions(t *testing.T) {
	m := compiled(t, atrium.ProviderToken, atrium.Mapping{
		Filter: `body.keep`, Type: `"t." + query["b"] + query["a"]`, AccountID: `body.?account`, Domain: `headers["x-domain"]`, Email: `body.email`, Name: `body.name`,
		OccurredAt: `body.?at`, EventID: `body.?id`,
	})
	headers := []atrium.Header{{Name: "x-domain", Value: "d.example"}, {Name: "x-domain", Value: "other.example"}}
	r := one(t, m, `{"keep":true,"account":"account_00000000000000000000000001","name":"Acme","email":"a@e.example","id":9007199254740993}`, headers...)
	want := atrium.Claim{AccountID: "account_00000000000000000000000001", Domain: "d.example", Name: "Acme"}
	if r.Claim != want || r.Type != "t. 1" || r.OccurredAt != nil || r.IdempotencyKey != "in:"+string(receiver)+":9007199254740993" {
		t.Errorf("%+v", r)
	}
	if r := one(t, m, `{"keep":false}`); !r.Filtered || string(r.Payload) != `{"keep":false}` {
		t.Errorf("%+v", r)
	}
	for given, want := range map[string]*atrium.Time{
		`null`: nil, `""`: nil, `"2026-03-02T10:00:00.5+01:00"`: at("2026-03-02T09:00:00.5Z"), `1772442000`: at("2026-03-02T09:00:00Z"), `1772442000.25`: at("2026-03-02T09:00:00.25Z"),
		`1772442000123`: at("2026-03-02T09:00:00.123Z"), `0`: at("1970-01-01T00:00:00Z"), `-1`: at("1969-12-31T23:59:59Z"), `99999999999`: at("5138-11-16T09:46:39Z"), `100000000000`: at("1973-03-03T09:46:40Z"),
	} {
		r := one(t, m, `{"keep":true,"name":"","email":"","at":`+given+`}`, headers...)
		if (r.OccurredAt == nil) != (want == nil) || want != nil && *r.OccurredAt != *want {
			t.Errorf("%s: %v, want %v", given, r.OccurredAt, want)
		}
	}
	for body, fault := range map[string]string{
		`{}`:                          "filter: line 1, column 5: no such key: keep",
		`{"keep":1}`:                  "filter: line 1, column 1: the result must be a bool, not int",
		`{"keep":true,"account":"a"}`: "accountId: the result must match",
		`{"keep":true,"account":1}`:   "accountId: line 1, column 1: the result must be a string or null, not int",
		`{"keep":true,"name":"a\u0000","email":""}`:                          "name: the result must not contain U+0000",
		`{"keep":true,"name":"` + strings.Repeat("ü", 256) + `","email":""}`: "name: the result must be 1 to 255 characters long",
		`{"keep":true,"name":"","email":"","at":"yesterday"}`:                "occurredAt: the result is not a date-time",
		`{"keep":true,"name":"","email":"","at":1e17}`:                       "occurredAt: the result must be between",
		`{"keep":true,"name":"","email":"","at":true}`:                       "occurredAt: line 1, column 1: the result must be a string or an int or a double or null, not bool",
		`{"keep":true,"name":"","email":"","id":1.5}`:                        "eventId: line 1, column 1: the result must be a string or an int or null, not double",
	} {
		_, err := m.Map(&Delivery{Headers: headers, Query: "a=1&b=", Body: []byte(body)}, maxPayload, nil)
		if f, ok := errors.AsType[*Fault](err); !ok || !strings.HasPrefix(f.Error(), fault) {
			t.Errorf("%s: %v, want %s", body, err, fault)
		}
	}
}

func TestFaultsOfAMappingNameTheMemberAndThePlace(t *testing.T) {
	spec := atrium.ReceiverSpec{Provider: atrium.ProviderGitHub, Mapping: atrium.Mapping{Type: "body.\n  type +", Name: `bdy.name`, OccurredAt: `now()`, EventID: "1.5"}}
	_, err := Compile(receiver, &spec)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatal(err)
	}
	got := fmt.Sprint(e.In("/mapping"))
	for _, want := range []string{"/mapping/type line 2, column", "/mapping/name line 1, column 1: undeclared", "/mapping/occurredAt line 1, column 4: undeclared", "/mapping/eventId line 1, column 1: the result must be a string or an int or null, not double"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if !strings.Contains(e.Error(), "name: line 1, column 1") {
		t.Error(e)
	}
}

func TestAddressesOfPublicMailProvidersNameNoAccount(t *testing.T) {
	for address, want := range map[string]string{
		"a@acme.example": "acme.example", "Ann <ann@Acme.Example>": "Acme.Example", "a@b@acme.example": "acme.example", "a@bücher.example": "bücher.example",
		"a@gmail.com": "", "a@GMail.com": "", "a@googlemail.com.": "", "a@yahoo.co.uk": "", "a@yahoo.fr": "", "a@live.nl": "", "a@mail.yahoo.acme.example": "mail.yahoo.acme.example",
		"a@yahoo.a.b.example": "yahoo.a.b.example", "a@gmx.net": "", "a@notgmail.com": "notgmail.com", "": "", "acme.example": "", "a@": "", "a@localhost": "", "a@ ": "", "a@[127.0.0.1]": "", "a@b.example, c@d.example": "d.example",
		"a@b c.example": "", "a@x\x00.example": "", "a@www.gmail.com": "",
	} {
		if got := domainOfEmail(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
	for domain := range publicMail() {
		if form := canonical.Domain(strings.ReplaceAll(domain, "*", "com")); strings.ReplaceAll(domain, "*", "com") != form {
			t.Errorf("%s is not in canonical form", domain)
		}
	}
}

func TestElementsOfAnArrayAreMappedTogether(t *testing.T) {
	m := compiled(t, atrium.ProviderToken, atrium.Mapping{EventID: `body.?id`, Type: `body.type`})
	deliver := func(body string) (keys []string, payloads []string, err error) {
		results, err := m.Map(&Delivery{Body: []byte(body)}, maxPayload, nil)
		for _, r := range results {
			keys, payloads = append(keys, strings.TrimPrefix(r.IdempotencyKey, "in:"+string(receiver)+":")), append(payloads, string(r.Payload))
		}
		return keys, payloads, err
	}
	keys, payloads, err := deliver(` [ {"id":"a","type":"t"}, {"type" : "t","id":"b"},{"id":"a","type":"u"} ,{"type":"v"},{"type":"v"}]`)
	if err != nil {
		t.Fatal(err)
	}
	hash := "sha256:" + sum([]byte(`{"type":"v"}`))
	if got, want := fmt.Sprint(keys), fmt.Sprint([]string{"a", "b", "a#2", hash, hash + "#2"}); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	if payloads[1] != `{"type" : "t","id":"b"}` {
		t.Errorf("payload %s", payloads[1])
	}
	if keys, _, err := deliver(`[]`); err != nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
	for body, fault := range map[string]string{
		`[{"type":"t"},{"id":"a"}]`: "element 1: type: line 1, column 5: no such key: type",
		`[{"type":"t"},7]`:          "the body at /1 must be an object",
		`[` + strings.Repeat(`{"type":"t"},`, 1000) + `{"type":"t"}]`: "the body must have at most 1000 elements",
		`{"a":1,"a":2}`: "the body at /a duplicates",
		``:              "the body must not be empty",
	} {
		if keys, _, err := deliver(body); err == nil || !strings.HasPrefix(err.Error(), fault) || len(keys) > 0 {
			t.Errorf("%.80s: %v, want %s", body, err, fault)
		}
	}
	if keys, _, err := deliver(`[` + strings.Repeat(`{"type":"t"},`, 999) + `{"type":"t"}]`); err != nil || len(keys) != 1000 {
		t.Errorf("%d elements, %v", len(keys), err)
	}
}

func TestDifferentEventsHaveDifferentKeys(t *testing.T) {
	seen := map[string]string{}
	for _, event := range []string{"", "a", "a#2", "a#3", "#2", "sha256:" + sum([]byte("{}")), strings.Repeat("ü", 200), strings.Repeat("ü", 201), strings.Repeat("ü", 300), "\x00", "sha256:x", "event a", " a"} {
		used := map[string]int{}
		for range 3 {
			k := key(receiver, event, []byte("{}"), used)
			if other, found := seen[k]; found {
				t.Errorf("%q and %q have the key %s", event, other, k)
			}
			if seen[k] = event; atrium.CheckText(k, 1, atrium.MaxIdempotencyKey) != "" {
				t.Errorf("%q has the key %q", event, k)
			}
		}
	}
	if got := key(receiver, "evt_1", nil, map[string]int{}); got != "in:receiver_00000000000000000000000001:evt_1" {
		t.Error(got)
	}
}

func TestFormsBecomeObjects(t *testing.T) {
	m := compiled(t, atrium.ProviderToken, atrium.Mapping{Type: `has(body.form) ? "form" : "json"`})
	form := atrium.Header{Name: "content-type", Value: "Application/x-www-form-urlencoded"}
	for body, want := range map[string]string{
		"b=2&a=%C3%BC+1&b=3": `{"form":{"a":["ü 1"],"b":["2","3"]},"raw":"b=2&a=%C3%BC+1&b=3"}`,
		"":                   `{"form":{},"raw":""}`,
		"a=%FF&%FE=1":        `{"form":{"a":["` + "\ufffd" + `"],"` + "\ufffd" + `":["1"]},"raw":"a=%FF&%FE=1"}`,
		`payload={"b": 2}`:   `{"b": 2}`,
		"payload=x":          `{"form":{"payload":["x"]},"raw":"payload=x"}`,
		" {\"b\": 2}":        `{"b": 2}`, // the type of a captured delivery was changed
		"payload=%7B%7D&a=1": `{"form":{"a":["1"],"payload":["{}"]},"raw":"payload=%7B%7D&a=1"}`,
	} {
		if r := one(t, m, body, form); string(r.Payload) != want {
			t.Errorf("%s: %s, want %s", body, r.Payload, want)
		}
	}
	for _, body := range []string{"a=%zz", "a;b", "payload=%7B%22a%22%3A1%2C%22a%22%3A2%7D", "a=\xff"} {
		if results, err := m.Map(&Delivery{Headers: []atrium.Header{form}, Body: []byte(body)}, maxPayload, nil); err == nil {
			t.Errorf("%q: %s", body, results[0].Payload)
		}
	}
	long := "a=" + strings.Repeat("b", 1000)
	if _, err := m.Map(&Delivery{Headers: []atrium.Header{form}, Body: []byte(long)}, 1500, nil); err == nil || !strings.Contains(err.Error(), "more than 1500 bytes") {
		t.Error(err)
	}
}

func TestCostOfADeliveryIsBounded(t *testing.T) {
	m := compiled(t, atrium.ProviderToken, atrium.Mapping{Name: `body.l.all(a, body.l.all(b, a == b)) ? "" : ""`})
	element := `{"l":[` + strings.Repeat("1,", 80) + `1]}`
	if _, err := m.Map(&Delivery{Body: []byte(element)}, maxPayload, nil); err != nil {
		t.Error(err)
	}
	_, err := m.Map(&Delivery{Body: []byte(`[` + strings.Repeat(element+",", 999) + element + `]`)}, maxPayload, nil)
	if f, ok := errors.AsType[*Fault](err); !ok || f.Element < 1 || !strings.Contains(f.Detail, "too many elements") {
		t.Error(err)
	}
}

func TestCostlyDeliveryPauses(t *testing.T) {
	m := compiled(t, atrium.ProviderToken, atrium.Mapping{Type: "'a'", Name: "'b'"})
	busy := errors.New("busy")
	pausing := func(body string) (pauses int, err error) {
		results, err := m.Map(&Delivery{Body: []byte(body)}, maxPayload, func(int) (*Mapping, error) { pauses++; return m, nil })
		if err != nil || len(results) == 0 {
			t.Errorf("%d results, %v", len(results), err)
		}
		results, err = m.Map(&Delivery{Body: []byte(body)}, maxPayload, func(int) (*Mapping, error) { return nil, busy })
		if err != nil && len(results) > 0 {
			t.Errorf("%d results, %v", len(results), err)
		}
		return pauses, err
	}
	if n, err := pausing(`{}`); n > 0 || err != nil {
		t.Errorf("a cheap delivery has %d pauses: %v", n, err)
	}
	m.slice = -1 // it is always over
	large := `{"a":"` + strings.Repeat("a", maxPausing) + `"}`
	for body, want := range map[string]int{
		`{}`:                               3, // before the element, and before each expression
		`[{},{}]`:                          6,
		large:                              1, // none while it is in memory
		`[` + large + `,{},` + large + `]`: 5,
	} {
		if n, err := pausing(body); n != want || !errors.Is(err, busy) {
			t.Errorf("%.20s: %d pauses, want %d; then %v", body, n, want, err)
		}
	}
}

func TestMemoryOfAnEvaluationIsNotUnderestimated(t *testing.T) {
	emoji := func(n int) string { return `"` + strings.Repeat("😀", n) + `" + string(body.?a.orValue(1))` }
	long := `("a|` + strings.Repeat("b", 3000) + `" + body.?b.orValue("c")).split("|")[0]`
	array := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	for name, c := range map[string]struct {
		mapping atrium.Mapping
		body    string
	}{
		"literals":         {atrium.Mapping{Name: emoji(250), EventID: emoji(190), Type: emoji(95), Domain: `"noisy.example"`}, array(930, "{}")},
		"names that grow":  {atrium.Mapping{Name: `"` + strings.Repeat("\u0390", 255) + `"`}, array(930, "{}")},
		"empty elements":   {atrium.Mapping{}, array(1000, "{}")},
		"filtered":         {atrium.Mapping{Filter: "false"}, array(1000, "{}")},
		"parts of texts":   {atrium.Mapping{Name: long, EventID: long, Type: long, Domain: long + " + \".example\""}, array(100, "{}")},
		"parts of emails":  {atrium.Mapping{Email: `"` + strings.Repeat("a", 3000) + `" + body.?b.orValue("") + "@a.example"`}, array(500, "{}")},
		"decoded objects":  {atrium.Mapping{Type: `"a"`}, `{"l":` + array(500, `{"":0}`) + `}`},
		"decoded nested":   {atrium.Mapping{Type: `"a"`}, `{"l":` + array(30, strings.Repeat(`{"":`, 25)+"0"+strings.Repeat("}", 25)) + `}`},
		"elements to come": {atrium.Mapping{Type: `"a"`}, `[{"l":` + array(500, `{"":0}`) + `},` + array(900, "{}")[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			const deliveries = 10
			m := compiled(t, atrium.ProviderToken, c.mapping)
			m.slice = -1
			var pauses int
			if _, err := m.Map(&Delivery{Body: []byte(c.body)}, maxPayload, func(int) (*Mapping, error) { pauses++; return m, nil }); err != nil {
				t.Fatal(err)
			}
			before, paused, counted := heap(), uint64(0), 0
			all := make([][]*atrium.Draft, 0, deliveries)
			var deliver func()
			deliver = func() {
				if len(all) == deliveries {
					paused = heap()
					return
				}
				all = append(all, nil)
				drafts, n := &all[len(all)-1], 0
				results, err := m.Map(&Delivery{Body: []byte(c.body)}, maxPayload, func(memory int) (*Mapping, error) {
					if n++; n == pauses {
						counted += memory
						deliver()
					}
					return m, nil
				})
				if err != nil {
					t.Error(err)
				}
				for _, r := range results {
					*drafts = append(*drafts, canonical.KeyDraft("tenant_01m8g9mhfffxf82tmjampdm4dz", r.Submission))
				}
			}
			deliver()
			bodies := deliveries * (len(c.body) + 16<<10)
			t.Logf("%d KiB of %d KiB while deliveries wait", (int64(paused)-int64(before))>>10, counted>>10)
			if used := int64(paused) - int64(before); used > int64(counted+bodies) {
				t.Errorf("deliveries that wait occupy %d bytes, and %d are counted", used, counted)
			}
			results, err := m.Map(&Delivery{Body: []byte(c.body)}, maxPayload, nil)
			if err != nil {
				t.Fatal(err)
			}
			drafted := int64(heap()) - int64(before)
			t.Logf("%d KiB of %d KiB as drafts", drafted>>10, deliveries*Memory(results)>>10)
			if drafted > int64(deliveries*Memory(results)+bodies) {
				t.Errorf("drafts occupy %d bytes, and %d are counted", drafted, deliveries*Memory(results))
			}
			runtime.KeepAlive(all)
		})
	}
}

func TestFaultsAreShortAndPrintable(t *testing.T) {
	f := Fault{3, "type", "\x1b[2J\n" + strings.Repeat("ü", 5000)}
	if text := f.Error(); len([]rune(text)) > maxFault || strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%q", text)
	}
}

func FuzzMap(f *testing.F) {
	f.Add(`{"id":"evt_1","type":"t","created":1,"data":{"object":{"email":"a@b.example"}}}`, "application/json", "a=1")
	f.Add(`[{"eventId":1,"occurredAt":1772442000123}]`, "", "%")
	f.Add(`payload=%7B%7D&a=1`, "application/x-www-form-urlencoded", "")
	var all []*Mapping
	for _, p := range atrium.ReceiverProviders() {
		all = append(all, compiled(f, p, atrium.Mapping{}))
	}
	all = append(all, compiled(f, atrium.ProviderToken, atrium.Mapping{Type: "body.type", Name: `body.name + query["a"]`, OccurredAt: "body.at", EventID: `headers["content-type"]`, Domain: "body.?domain", AccountID: "body.?account"}))
	f.Fuzz(func(t *testing.T, body, contentType, query string) {
		d := Delivery{Headers: []atrium.Header{{Name: "content-type", Value: contentType}}, Query: query, Body: []byte(body)}
		for _, m := range all {
			results, err := m.Map(&d, maxPayload, nil)
			if err != nil {
				if text := err.Error(); text == "" || len(text) > 8000 {
					t.Fatalf("fault %q", text)
				}
				continue
			}
			keys := map[string]bool{}
			for _, r := range results {
				if r.Filtered {
					continue
				}
				if keys[r.IdempotencyKey] {
					t.Fatalf("%q: two elements have the key %s", body, r.IdempotencyKey)
				}
				keys[r.IdempotencyKey] = true
				valid(t, &r)
			}
		}
	})
}

// valid checks that the API would take a submission.
func valid(t *testing.T, r *Result) {
	t.Helper()
	quoted := func(s string) string {
		b, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatalf("%q is not UTF-8", s)
		}
		return string(b)
	}
	o, err := strictjson.Parse([]byte(`{"payload":` + string(r.Payload) + `,"texts":[` + quoted(r.Type) + "," + quoted(r.Claim.Name) + "," + quoted(r.Claim.Domain) + "," + quoted(r.IdempotencyKey) + `]}`))
	if err != nil || o.Object("payload", strictjson.Required) == nil {
		t.Fatalf("%s: %v", r.Payload, err)
	}
	name, domain := r.Claim.Name, r.Claim.Domain
	if atrium.CheckText(r.Type, 1, atrium.MaxType) != "" || name != "" && atrium.CheckText(name, 1, atrium.MaxName) != "" || domain != "" && atrium.CheckDomain(domain) != "" ||
		atrium.CheckText(r.IdempotencyKey, 1, atrium.MaxIdempotencyKey) != "" {
		t.Fatalf("%+v", r)
	}
}
