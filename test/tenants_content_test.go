package test

import (
	"strings"
	"testing"
)

var contentResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		return s.publishedPage(t, tn)
	},
	places: func(own, of map[string]string) map[string]request {
		requests := map[string]request{}
		target := func(tenant, page map[string]string) string {
			return "/content/v0/" + tenant["tenant"] + "/pages/" + page["page"]
		}
		reads(requests, map[string]string{
			"content of a tenant":                target(of, of),
			"content of a page":                  target(own, of),
			"content of an audience of a tenant": target(of, of) + "/audiences/" + of["audience"],
			"content of an audience of a page":   target(own, of) + "/audiences/" + of["audience"],
			"content of an audience":             target(own, own) + "/audiences/" + of["audience"],
		})
		return requests
	},
}

// A request without a key, or with a token, must not learn what is not public.
func TestContentWithoutAKeyLooksNonexistent(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		has := s.publishedPage(t, s.north)
		other := s.publishedPage(t, s.south)
		previews := "/manage/v0/pages/" + has["page"] + "/previews"
		token := s.made(t, s.north, previews, `{"audienceId":"`+has["audience"]+`","versionNumber":1}`, "token")
		nobody := s.nobodys(has)
		at := func(tenant, page, audience string) string {
			return "/content/v0/" + tenant + "/pages/" + page + "/audiences/" + audience
		}
		want := s.send(t, get(at(nobody["tenant"], nobody["page"], nobody["audience"]), "X-Request-Id: same"))
		if want.status != 404 || !strings.Contains(string(want.body), "Nothing public") {
			t.Fatal(want)
		}
		for _, target := range []string{
			at(has["tenant"], has["page"], has["audience"]), at(has["tenant"], has["page"], nobody["audience"]), at(has["tenant"], nobody["page"], has["audience"]),
			strings.TrimSuffix(at(has["tenant"], has["page"], ""), "/audiences/"), at("x", "y", "z"), at(has["tenant"], "%00", "z"),
		} {
			if got := s.send(t, get(target, "X-Request-Id: same")); got.String() != want.String() {
				t.Errorf("%s: %s, want %s", target, got, want)
			}
		}
		refused := s.send(t, get(at(nobody["tenant"], nobody["page"], nobody["audience"])+"?preview="+token, "X-Request-Id: same"))
		if refused.status != 401 {
			t.Fatal(refused)
		}
		for _, target := range []string{
			at(other["tenant"], has["page"], has["audience"]), at(has["tenant"], other["page"], has["audience"]), at(other["tenant"], other["page"], other["audience"]),
		} {
			if got := s.send(t, get(target+"?preview="+token, "X-Request-Id: same")); got.String() != refused.String() {
				t.Errorf("%s: %s, want %s", target, got, refused)
			}
		}
		if got := s.send(t, get(at(has["tenant"], has["page"], has["audience"])+"?preview="+token)); got.status != 200 {
			t.Error(got)
		}
		if got := s.send(t, get(at(has["tenant"], has["page"], other["audience"])+"?preview="+token)); got.status != 404 {
			t.Error(got)
		}
	})
}
