package test

import "testing"

// summaryResource has no identifiers: its places name a source of which another tenant has a template.
var summaryResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		source := "summary-north"
		if tn == s.south {
			source = "summary-south"
		}
		a := s.send(t, request{
			method: "PUT", target: "/manage/v0/summary_templates", body: []byte(`{"source":"` + source + `","template":"{/name}"}`),
			header: []string{"x-api-key: " + tn.manage},
		})
		if a.status != 200 {
			t.Fatal(a)
		}
		return map[string]string{"source": source}
	},
	places: func(_, of map[string]string) map[string]request {
		target := "/manage/v0/summary_templates?source=" + of["source"]
		return map[string]request{
			"summary template to delete":      {method: "DELETE", target: target},
			"summary template to delete if *": {method: "DELETE", target: target, header: []string{"If-Match: *"}},
		}
	},
}
