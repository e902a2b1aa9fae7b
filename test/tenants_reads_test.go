package test

import "testing"

var readResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		for range 2 {
			s.send(t, get("/manage/v0/export", "x-api-key: "+tn.manage))
			s.recorded(t, tn)
		}
		return map[string]string{"cursor": s.firstCursor(t, tn, "/manage/v0/reads"), "actor": keyID(tn.manage)}
	},
	places: func(_, of map[string]string) map[string]request {
		requests := map[string]request{"actor of reads": get("/manage/v0/reads?actor=" + of["actor"])}
		reads(requests, map[string]string{"cursor of reads": "/manage/v0/reads?cursor=" + of["cursor"]})
		return requests
	},
}
