package test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var erasureResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/erasures"
		has := externalResources.has(t, s, tn)
		first := s.made(t, tn, target, `{"rule":{"text":"nobody"}}`, "erasureId")
		erasure := s.made(t, tn, target, `{"rule":{"text":"nobody"}}`, "erasureId")
		s.waitForErasures(t, tn, first, erasure) // its statements would be compared with those of requests
		entry := s.made(t, tn, "/v0/account_logs", `{"source":"matrix","payload":{}}`, "accountLogId")
		return map[string]string{"account": has["account"], "entry": entry, "erasure": erasure, "cursor": s.firstCursor(t, tn, target)}
	},
	places: func(_, of map[string]string) map[string]request {
		post := func(body string) request {
			return request{method: "POST", target: "/manage/v0/erasures", body: []byte(body)}
		}
		requests := map[string]request{
			"account to erase from": post(fmt.Sprintf(`{"accountId":%q,"rule":{"text":"nobody"}}`, of["account"])),
			"account to check":      post(fmt.Sprintf(`{"accountId":%q,"rule":{"text":"nobody"},"check":true}`, of["account"])),
			"entry to check":        post(fmt.Sprintf(`{"rule":{"accountLogIds":[%q]},"check":true}`, of["entry"])),
		}
		reads(requests, map[string]string{
			"erasure":            "/manage/v0/erasures/" + of["erasure"],
			"cursor of erasures": "/manage/v0/erasures?cursor=" + of["cursor"],
		})
		return requests
	},
}

// waitForErasures waits until the background job has completed the erasures.
func (s *service) waitForErasures(t *testing.T, tn tenant, ids ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, id := range ids {
		for {
			a := s.send(t, get("/manage/v0/erasures/"+id, "x-api-key: "+tn.manage))
			if strings.Contains(string(a.body), `"status":"completed"`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the erasure is not completed: %s", a)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
