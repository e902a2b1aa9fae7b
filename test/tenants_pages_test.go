package test

import "testing"

var pageResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/pages"
		brand := s.made(t, tn, "/manage/v0/brands", `{"name":"Matrix"}`, "brandId")
		body := `{"brandId":"` + brand + `","name":"Matrix"}`
		s.made(t, tn, target, body, "pageId")
		page := s.made(t, tn, target, body, "pageId")
		return map[string]string{"brand": brand, "page": page, "cursor": s.firstCursor(t, tn, target)}
	},
	places: func(own, of map[string]string) map[string]request {
		target := "/manage/v0/pages/" + of["page"]
		brand := []byte(`{"brandId":"` + of["brand"] + `","name":"Changed"}`)
		requests := map[string]request{
			"page to change":          {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`)},
			"page to change if *":     {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`), header: []string{"If-Match: *"}},
			"brand of a page to make": {method: "POST", target: "/manage/v0/pages", body: brand},
			"brand of a page to change": {
				method: "PATCH", target: "/manage/v0/pages/" + own["page"], body: brand, header: []string{"If-Match: *"},
			},
			"page to delete":     {method: "DELETE", target: target},
			"page to schedule":   {method: "PUT", target: target + "/schedule", body: []byte(`{"publishAt":"9999-01-01T00:00:00Z"}`)},
			"page to unschedule": {method: "DELETE", target: target + "/schedule"},
		}
		for _, verb := range []string{"publish", "unpublish", "archive", "restore", "undelete"} {
			requests["page to "+verb] = request{method: "POST", target: target + "/" + verb}
			requests["page to "+verb+" if *"] = request{method: "POST", target: target + "/" + verb, header: []string{"If-Match: *"}}
		}
		requests["pages of a brand"] = get("/manage/v0/pages?brandId=" + of["brand"])
		reads(requests, map[string]string{
			"managed page":            target,
			"cursor of managed pages": "/manage/v0/pages?cursor=" + of["cursor"],
			"audiences of a page":     target + "/audiences",
		})
		return requests
	},
}

var audienceResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		brand := s.made(t, tn, "/manage/v0/brands", `{"name":"Matrix"}`, "brandId")
		page := s.made(t, tn, "/manage/v0/pages", `{"brandId":"`+brand+`","name":"Matrix"}`, "pageId")
		audiences := "/manage/v0/pages/" + page + "/audiences"
		s.made(t, tn, audiences, `{"name":"Other"}`, "audienceId")
		audience := s.made(t, tn, audiences, `{"name":"Matrix"}`, "audienceId")
		versions := audiences + "/" + audience + "/versions"
		for _, body := range []string{`{"content":1}`, `{"content":2}`} {
			s.made(t, tn, versions, body, "id")
		}
		return map[string]string{
			"page": page, "audience": audience, "cursor": s.firstCursor(t, tn, audiences), "history": s.firstCursor(t, tn, versions),
		}
	},
	places: func(_, of map[string]string) map[string]request {
		audiences := "/manage/v0/pages/" + of["page"] + "/audiences"
		target := audiences + "/" + of["audience"]
		version := target + "/versions/1"
		requests := map[string]request{
			"audience to make":        {method: "POST", target: audiences, body: []byte(`{"name":"More"}`)},
			"audience to change if *": {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`), header: []string{"If-Match: *"}},
			"audience to archive":     {method: "POST", target: target + "/archive"},
			"audience to restore":     {method: "POST", target: target + "/restore"},
			"version to make":         {method: "POST", target: target + "/versions", body: []byte(`{"content":3}`)},
			"version to publish":      {method: "POST", target: version + "/publish"},
			"version to archive":      {method: "POST", target: version + "/archive"},
			"version to restore":      {method: "POST", target: version + "/restore"},
		}
		reads(requests, map[string]string{
			"audience":            target,
			"versions":            target + "/versions",
			"version":             version,
			"comparison":          version + "/diff?to=2",
			"cursor of audiences": audiences + "?cursor=" + of["cursor"],
			"cursor of versions":  target + "/versions?cursor=" + of["history"],
		})
		return requests
	},
}
