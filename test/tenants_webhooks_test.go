package test

import (
	"strings"
	"testing"
	"time"
)

var webhookResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/webhooks"
		s.made(t, tn, target, `{"url":"https://hooks.invalid/other"}`, "webhookId")
		hook := s.made(t, tn, target, `{"url":"https://hooks.invalid/matrix"}`, "webhookId")
		one := target + "/" + hook
		for range 2 {
			if a := s.send(t, request{method: "POST", target: one + "/test", header: []string{"x-api-key: " + tn.manage}}); a.status != 204 {
				t.Fatal(a)
			}
		}
		deliveries := s.eventually(t, tn, one+"/deliveries", `"eventId":`, 2)
		_, event, _ := strings.Cut(deliveries, `"eventId":"`)
		s.made(t, tn, one+"/replays", `{}`, "replayId")
		return map[string]string{
			"webhook": hook, "event": event[:strings.IndexByte(event, '"')], "replay": s.made(t, tn, one+"/replays", `{}`, "replayId"),
			"account": externalResources.has(t, s, tn)["account"], "account log": s.made(t, tn, "/v0/account_logs", `{"source":"crm","payload":{},"domain":"hooks.example"}`, "accountLogId"),
			"cursor": s.firstCursor(t, tn, target), "deliveries": s.firstCursor(t, tn, one+"/deliveries"), "replays": s.firstCursor(t, tn, one+"/replays"),
		}
	},
	places: func(own, of map[string]string) map[string]request {
		one := func(of map[string]string) string { return "/manage/v0/webhooks/" + of["webhook"] }
		requests := map[string]request{
			"webhook to change":      {method: "PATCH", target: one(of), body: []byte(`{"description":"Changed"}`)},
			"webhook to change if *": {method: "PATCH", target: one(of), body: []byte(`{"description":"Changed"}`), header: []string{"If-Match: *"}},
			"webhook to delete":      {method: "DELETE", target: one(of)},
			"webhook to delete if *": {method: "DELETE", target: one(of), header: []string{"If-Match: *"}},
			"delivery to repeat":     {method: "POST", target: one(own) + "/deliveries/" + of["event"] + "/redeliver"},
			"delivery of a webhook":  {method: "POST", target: one(of) + "/deliveries/" + own["event"] + "/redeliver"},
			"webhook to replay":      {method: "POST", target: one(of) + "/replays", body: []byte(`{}`)},
			"webhook to check":       {method: "POST", target: one(of) + "/replays", body: []byte(`{"check":true}`)},
			"replay to cancel":       {method: "POST", target: one(own) + "/replays/" + of["replay"] + "/cancel"},
			"replay of a webhook":    {method: "POST", target: one(of) + "/replays/" + own["replay"] + "/cancel"},
			"account of a webhook":   {method: "PATCH", target: one(own), body: []byte(`{"accountId":"` + of["account"] + `"}`), header: []string{"If-Match: *"}},
			"account of a new one":   {method: "POST", target: "/manage/v0/webhooks", body: []byte(`{"url":"https://hooks.invalid/","accountId":"` + of["account"] + `"}`)},
		}
		for _, action := range []string{"rotate_secret", "enable", "disable", "test"} {
			requests["webhook to "+action] = request{method: "POST", target: one(of) + "/" + action}
		}
		reads(requests, map[string]string{
			"webhook":                  one(of),
			"cursor of webhooks":       "/manage/v0/webhooks?cursor=" + of["cursor"],
			"stats of a webhook":       one(of) + "/stats",
			"deliveries of a webhook":  one(of) + "/deliveries",
			"cursor of deliveries":     one(own) + "/deliveries?cursor=" + of["deliveries"],
			"delivery":                 one(own) + "/deliveries/" + of["event"],
			"delivery of a webhook":    one(of) + "/deliveries/" + own["event"],
			"replays of a webhook":     one(of) + "/replays",
			"cursor of replays":        one(own) + "/replays?cursor=" + of["replays"],
			"replay":                   one(own) + "/replays/" + of["replay"],
			"replay of a webhook read": one(of) + "/replays/" + own["replay"],
		})
		requests["event of deliveries"] = get(one(own) + "/deliveries?eventId=" + of["event"])
		requests["entry of deliveries"] = get(one(own) + "/deliveries?accountLogId=" + of["account log"])
		return requests
	},
}

// eventually reads a list until its response has a text n times, and returns it.
func (s *service) eventually(t *testing.T, tn tenant, target, text string, n int) string {
	t.Helper()
	for end := time.Now().Add(exchangeTimeout); ; time.Sleep(20 * time.Millisecond) {
		a := s.send(t, get(target, "x-api-key: "+tn.keyFor(target)))
		if a.status == 200 && strings.Count(string(a.body), text) >= n {
			return string(a.body)
		}
		if time.Now().After(end) {
			t.Fatalf("%s never had %q %d times: %s", target, text, n, a)
		}
	}
}
