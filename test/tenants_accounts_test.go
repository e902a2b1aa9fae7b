package test

import (
	"fmt"
	"testing"
)

var accountResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/accounts"
		merged := s.made(t, tn, target, `{"domain":"merged.matrix.example"}`, "accountId")
		has := map[string]string{"merged": merged, "account": s.made(t, tn, target, `{"domain":"matrix.example"}`, "accountId")}
		merge := target + "/" + merged + "/merge"
		if a := s.send(t, request{
			method: "POST", target: merge, body: fmt.Appendf(nil, `{"into":%q}`, has["account"]),
			header: []string{"x-api-key: " + tn.keyFor(merge), "Content-Type: application/json"},
		}); a.status != 200 {
			t.Fatalf("merge: %s", a)
		}
		return has
	},
	places: func(own, of map[string]string) map[string]request {
		target := func(account string) string { return "/manage/v0/accounts/" + account }
		with := func(account, command, member, other string) request {
			return request{method: "POST", target: target(account) + command, body: fmt.Appendf(nil, `{%q:%q}`, member, other)}
		}
		requests := map[string]request{
			"account to merge":         with(of["account"], "/merge", "into", own["account"]),
			"account to merge into":    with(own["account"], "/merge", "into", of["account"]),
			"account to split from":    with(of["account"], "/split", "accountId", of["merged"]),
			"account to split off":     with(own["account"], "/split", "accountId", of["merged"]),
			"merged entry accountId":   {method: "POST", target: "/v0/account_logs", body: fmt.Appendf(nil, `{"source":"matrix","payload":{},"accountId":%q}`, of["merged"])},
			"merged account to rename": {method: "PATCH", target: "/v0/accounts/" + of["merged"], body: []byte(`{"name":"Matrix"}`)},
		}
		for _, name := range []string{"account", "merged"} {
			requests[name+" to change"] = request{method: "PATCH", target: target(of[name]), body: []byte(`{"name":"Changed"}`)}
			requests[name+" to change if *"] = request{method: "PATCH", target: target(of[name]), body: []byte(`{"domain":"changed.example"}`), header: []string{"If-Match: *"}}
			requests[name+" to erase"] = request{method: "DELETE", target: target(of[name])}
			requests[name+" to erase if *"] = request{method: "DELETE", target: target(of[name]), header: []string{"If-Match: *"}}
			reads(requests, map[string]string{name: target(of[name]), name + " outside": "/v0/accounts/" + of[name]})
		}
		return requests
	},
}
