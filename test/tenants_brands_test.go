package test

import "testing"

var brandResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/brands"
		s.made(t, tn, target, `{"name":"Other"}`, "brandId")
		return map[string]string{"brand": s.made(t, tn, target, `{"name":"Matrix"}`, "brandId"), "cursor": s.firstCursor(t, tn, target)}
	},
	places: func(_, of map[string]string) map[string]request {
		target := "/manage/v0/brands/" + of["brand"]
		requests := map[string]request{
			"brand to change":      {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`)},
			"brand to change if *": {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`), header: []string{"If-Match: *"}},
			"brand to delete":      {method: "DELETE", target: target},
			"brand to delete if *": {method: "DELETE", target: target, header: []string{"If-Match: *"}},
		}
		reads(requests, map[string]string{
			"brand":            target,
			"cursor of brands": "/manage/v0/brands?cursor=" + of["cursor"],
		})
		return requests
	},
}
