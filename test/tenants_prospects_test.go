package test

import "testing"

var prospectResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		const target = "/manage/v0/prospects"
		s.made(t, tn, target, `{"name":"Other"}`, "prospectId")
		has := externalResources.has(t, s, tn)
		return map[string]string{
			"prospect": s.made(t, tn, target, `{"name":"Matrix"}`, "prospectId"), "cursor": s.firstCursor(t, tn, target), "account": has["account"],
		}
	},
	places: func(own, of map[string]string) map[string]request {
		target := "/manage/v0/prospects/" + of["prospect"]
		link := func(account, prospect string) string {
			return "/manage/v0/accounts/" + account + "/prospects/" + prospect
		}
		requests := map[string]request{
			"prospect to change":               {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`)},
			"prospect to change if *":          {method: "PATCH", target: target, body: []byte(`{"name":"Changed"}`), header: []string{"If-Match: *"}},
			"prospect to delete":               {method: "DELETE", target: target},
			"prospect to delete if *":          {method: "DELETE", target: target, header: []string{"If-Match: *"}},
			"prospect to link":                 {method: "PUT", target: link(own["account"], of["prospect"])},
			"prospect to link if *":            {method: "PUT", target: link(own["account"], of["prospect"]), header: []string{"If-Match: *"}},
			"account to link":                  {method: "PUT", target: link(of["account"], own["prospect"])},
			"account and prospect to link":     {method: "PUT", target: link(of["account"], of["prospect"])},
			"prospect to take from an account": {method: "DELETE", target: link(own["account"], of["prospect"])},
			"account to take a prospect from":  {method: "DELETE", target: link(of["account"], own["prospect"])},
			"link to end":                      {method: "DELETE", target: link(of["account"], of["prospect"])},
		}
		requests["prospects of an account"] = get("/manage/v0/prospects?accountId=" + of["account"])
		reads(requests, map[string]string{
			"prospect":            target,
			"cursor of prospects": "/manage/v0/prospects?cursor=" + of["cursor"],
		})
		return requests
	},
}

var accountListResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		return map[string]string{"cursor": s.firstCursor(t, tn, "/manage/v0/accounts")}
	},
	places: func(_, of map[string]string) map[string]request {
		requests := map[string]request{}
		reads(requests, map[string]string{
			"cursor of accounts":               "/manage/v0/accounts?cursor=" + of["cursor"],
			"cursor of accounts with a filter": "/manage/v0/accounts?q=a&cursor=" + of["cursor"],
		})
		return requests
	},
}
