package test

import "testing"

// publishedPage creates a page with a published version, and returns the variables of the matrix.
func (s *service) publishedPage(t *testing.T, tn tenant) map[string]string {
	t.Helper()
	brand := s.made(t, tn, "/manage/v0/brands", `{"name":"Matrix"}`, "brandId")
	page := s.made(t, tn, "/manage/v0/pages", `{"brandId":"`+brand+`","name":"Matrix"}`, "pageId")
	audiences := "/manage/v0/pages/" + page + "/audiences"
	audience := s.made(t, tn, audiences, `{"name":"Matrix"}`, "audienceId")
	s.made(t, tn, audiences+"/"+audience+"/versions", `{"content":1}`, "id")
	for _, target := range []string{audiences + "/" + audience + "/versions/1/publish", "/manage/v0/pages/" + page + "/publish"} {
		if a := s.send(t, request{method: "POST", target: target, header: []string{"x-api-key: " + tn.manage}}); a.status != 200 {
			t.Fatalf("%s: %s", target, a)
		}
	}
	return map[string]string{"tenant": string(tn.id), "page": page, "audience": audience}
}

var previewResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		has := s.publishedPage(t, tn)
		target, body := "/manage/v0/pages/"+has["page"]+"/previews", `{"audienceId":"`+has["audience"]+`","versionNumber":1}`
		s.made(t, tn, target, body, "previewId")
		has["preview"], has["cursor"] = s.made(t, tn, target, body, "previewId"), s.firstCursor(t, tn, target)
		delete(has, "tenant")
		return has
	},
	places: func(own, of map[string]string) map[string]request {
		previews := func(page map[string]string) string { return "/manage/v0/pages/" + page["page"] + "/previews" }
		body := []byte(`{"audienceId":"` + of["audience"] + `","versionNumber":1}`)
		requests := map[string]request{
			"page of a preview to make":     {method: "POST", target: previews(of), body: body},
			"audience of a preview to make": {method: "POST", target: previews(own), body: body},
			"preview to revoke":             {method: "DELETE", target: previews(own) + "/" + of["preview"]},
			"preview to revoke if *":        {method: "DELETE", target: previews(of) + "/" + of["preview"], header: []string{"If-Match: *"}},
		}
		reads(requests, map[string]string{
			"previews of a page": previews(of),
			"preview":            previews(own) + "/" + of["preview"],
			"preview of a page":  previews(of) + "/" + of["preview"],
			"cursor of previews": previews(own) + "?cursor=" + of["cursor"],
		})
		return requests
	},
}
