package test

import "testing"

var keyResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/keys"
		return map[string]string{"key": s.made(t, tn, target, `{"name":"Matrix"}`, "keyId"), "cursor": s.firstCursor(t, tn, target)}
	},
	places: func(_, of map[string]string) map[string]request {
		target := "/manage/v0/keys/" + of["key"]
		requests := map[string]request{
			"key to rotate":      {method: "POST", target: target + "/rotate", body: []byte(`{"graceSeconds":0}`)},
			"key to revoke":      {method: "POST", target: target + "/revoke"},
			"key to revoke if *": {method: "POST", target: target + "/revoke", header: []string{"If-Match: *"}},
		}
		reads(requests, map[string]string{
			"key":            target,
			"cursor of keys": "/manage/v0/keys?cursor=" + of["cursor"],
		})
		return requests
	},
}

var auditResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		brand := s.made(t, tn, "/manage/v0/brands", `{"name":"Matrix"}`, "brandId")
		page := s.made(t, tn, "/manage/v0/pages", `{"brandId":"`+brand+`","name":"Matrix"}`, "pageId")
		return map[string]string{"cursor": s.firstCursor(t, tn, "/manage/v0/audit"), "tenant": string(tn.id), "page": page}
	},
	places: func(_, of map[string]string) map[string]request {
		named := "Atrium-Tenant: " + of["tenant"]
		requests := map[string]request{
			"tenant of the audit log":      get("/manage/v0/audit", named),
			"page of the audit log":        get("/manage/v0/audit?page=" + of["page"]),
			"tenant of an audit export":    get("/manage/v0/audit/export", named),
			"tenant of the head":           get("/manage/v0/audit/head", named),
			"tenant of an export":          get("/manage/v0/export", named),
			"tenant of the request":        get("/manage/v0/tenant", named),
			"tenant of an import":          {method: "POST", target: "/manage/v0/import", body: []byte(`{"kind":"account","domain":"matrix.example"}`), header: []string{named}},
			"tenant of a key to be made":   {method: "POST", target: "/manage/v0/keys", body: []byte(`{"name":"Matrix"}`), header: []string{named}},
			"tenant of an import to check": {method: "POST", target: "/manage/v0/import?check=true", body: []byte(`{}`), header: []string{named}},
		}
		reads(requests, map[string]string{"cursor of the audit log": "/manage/v0/audit?cursor=" + of["cursor"]})
		return requests
	},
}
