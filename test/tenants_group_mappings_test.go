package test

import "testing"

var groupMappingResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/group_mappings"
		s.made(t, tn, target, `{"issuer":"https://id.example","group":"first","role":"viewer"}`, "mappingId")
		return map[string]string{
			"mapping": s.made(t, tn, target, `{"issuer":"https://id.example","group":"matrix","role":"admin"}`, "mappingId"),
			"cursor":  s.firstCursor(t, tn, target),
		}
	},
	places: func(_, of map[string]string) map[string]request {
		target := "/manage/v0/group_mappings/" + of["mapping"]
		requests := map[string]request{
			"mapping to delete":      {method: "DELETE", target: target},
			"mapping to delete if *": {method: "DELETE", target: target, header: []string{"If-Match: *"}},
		}
		reads(requests, map[string]string{"mapping": target, "cursor of mappings": "/manage/v0/group_mappings?cursor=" + of["cursor"]})
		return requests
	},
}
