package test

import (
	"fmt"
	"testing"
)

var erasureResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/erasures"
		has := externalResources.has(t, s, tn)
		s.made(t, tn, target, `{"rule":{"text":"nobody"}}`, "erasureId")
		return map[string]string{
			"account": has["account"], "erasure": s.made(t, tn, target, `{"rule":{"text":"nobody"}}`, "erasureId"), "cursor": s.firstCursor(t, tn, target),
		}
	},
	places: func(_, of map[string]string) map[string]request {
		post := func(body string) request {
			return request{method: "POST", target: "/manage/v0/erasures", body: []byte(body)}
		}
		requests := map[string]request{
			"account to erase from": post(fmt.Sprintf(`{"accountId":%q,"rule":{"text":"nobody"}}`, of["account"])),
			"account to check":      post(fmt.Sprintf(`{"accountId":%q,"rule":{"text":"nobody"},"check":true}`, of["account"])),
		}
		reads(requests, map[string]string{
			"erasure":            "/manage/v0/erasures/" + of["erasure"],
			"cursor of erasures": "/manage/v0/erasures?cursor=" + of["cursor"],
		})
		return requests
	},
}
