package test

import "testing"

var userResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/users"
		s.made(t, tn, target, `{"name":"Matrix","role":"viewer"}`, "userId")
		return map[string]string{"user": s.made(t, tn, target, `{"name":"Matrix","role":"admin"}`, "userId"), "cursor": s.firstCursor(t, tn, target)}
	},
	places: func(own, of map[string]string) map[string]request {
		target := "/manage/v0/users/" + of["user"]
		requests := map[string]request{
			"user to change":           {method: "PATCH", target: target, body: []byte(`{"role":"viewer"}`), header: []string{"If-Match: *"}},
			"user to remove":           {method: "DELETE", target: target},
			"user to remove if *":      {method: "DELETE", target: target, header: []string{"If-Match: *"}},
			"user of a login link":     {method: "POST", target: target + "/login_link"},
			"user to sign out":         {method: "POST", target: target + "/sign_out"},
			"user of a session to end": {method: "DELETE", target: target + "/sessions/session_00000000000000000000000000"},
			"session to end":           {method: "DELETE", target: "/manage/v0/users/" + own["user"] + "/sessions/session_00000000000000000000000000"},
		}
		reads(requests, map[string]string{
			"user":            target,
			"sessions":        target + "/sessions",
			"cursor of users": "/manage/v0/users?cursor=" + of["cursor"],
		})
		return requests
	},
}
