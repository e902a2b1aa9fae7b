package test

import (
	"strings"
	"testing"
	"time"

	"atrium"
)

var receiverResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/receivers"
		s.made(t, tn, target, `{"name":"Other","provider":"github"}`, "receiverId")
		receiver := s.made(t, tn, target, `{"name":"Matrix","provider":"github","mapping":{"type":"body.missing"}}`, "receiverId")
		quarantined := ""
		for range 2 {
			quarantined = s.quarantine(t, tn, receiver)
		}
		return map[string]string{
			"receiver": receiver, "quarantined": quarantined, "again": s.mapAgain(t, tn, receiver),
			"cursor": s.firstCursor(t, tn, target), "quarantine": s.firstCursor(t, tn, target+"/"+receiver+"/quarantine"),
		}
	},
	places: func(own, of map[string]string) map[string]request {
		one := func(of map[string]string) string { return "/manage/v0/receivers/" + of["receiver"] }
		quarantined := func(receiver, of map[string]string) string {
			return one(receiver) + "/quarantine/" + of["quarantined"]
		}
		requests := map[string]request{
			"receiver to change":         {method: "PATCH", target: one(of), body: []byte(`{"name":"Changed"}`)},
			"receiver to change if *":    {method: "PATCH", target: one(of), body: []byte(`{"name":"Changed"}`), header: []string{"If-Match: *"}},
			"receiver to delete":         {method: "DELETE", target: one(of)},
			"receiver to delete if *":    {method: "DELETE", target: one(of), header: []string{"If-Match: *"}},
			"delivery to discard":        {method: "DELETE", target: quarantined(own, of)},
			"delivery to discard if *":   {method: "DELETE", target: quarantined(own, of), header: []string{"If-Match: *"}},
			"receiver of one to discard": {method: "DELETE", target: quarantined(of, own)},
		}
		for _, action := range []string{"rotate_secret", "enable", "disable", "discard_quarantine", "map_again"} {
			requests["receiver to "+action] = request{method: "POST", target: one(of) + "/" + action}
		}
		requests["receiver to try"] = request{method: "POST", target: one(of) + "/try", body: []byte(`{"request":{}}`)}
		requests["delivery to try"] = request{method: "POST", target: one(own) + "/try", body: []byte(`{"quarantinedId":"` + of["quarantined"] + `"}`)}
		requests["delivery to map again"] = request{method: "POST", target: quarantined(own, of) + "/map_again"}
		requests["receiver of one to map again"] = request{method: "POST", target: quarantined(of, own) + "/map_again"}
		requests["cursor of mapping again"] = request{method: "POST", target: one(own) + "/map_again", body: []byte(`{"cursor":"` + of["again"] + `"}`)}
		reads(requests, map[string]string{
			"receiver":               one(of),
			"cursor of receivers":    "/manage/v0/receivers?cursor=" + of["cursor"],
			"receiver of quarantine": one(of) + "/quarantine",
			"cursor of quarantine":   one(own) + "/quarantine?cursor=" + of["quarantine"],
			"delivery":               quarantined(own, of),
			"receiver of a delivery": quarantined(of, own),
		})
		return requests
	},
}

// mapAgain maps the oldest delivery in quarantine, which fails, and returns the cursor after it.
func (s *service) mapAgain(t *testing.T, tn tenant, receiver string) string {
	t.Helper()
	a := s.send(t, request{
		method: "POST", target: "/manage/v0/receivers/" + receiver + "/map_again", body: []byte(`{"limit":1}`),
		header: []string{"x-api-key: " + tn.manage, "Content-Type: application/json"},
	})
	_, after, ok := strings.Cut(string(a.body), `"nextCursor":"`)
	if !ok {
		t.Fatal(a)
	}
	return strings.TrimSuffix(after, `"}`)
}

// quarantine stores a delivery of a receiver in quarantine, and returns its identifier.
func (s *service) quarantine(t *testing.T, tn tenant, receiver string) string {
	t.Helper()
	d := atrium.QuarantinedDelivery{
		ID: atrium.NewID[atrium.QuarantinedID](), TenantID: tn.id, ReceiverID: atrium.ReceiverID(receiver), ReceivedAt: atrium.At(time.Now()),
		Body: []byte(`{"quarantined":true}`), Fault: "no type", RequestID: atrium.NewID[atrium.RequestID](),
	}
	if err := s.store.Quarantine(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return string(d.ID)
}
