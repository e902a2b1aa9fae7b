package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestARetentionCheckOfTheCurrentRulesEndsWhenTheyChange(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const account = "account_0000000000000000000checked"
		var lines strings.Builder
		fmt.Fprintf(&lines, `{"kind":"account","accountId":%q,"domain":"checked.example"}`, account)
		for range 10_001 { // more than one page examines
			fmt.Fprintf(&lines, "\n"+`{"kind":"accountLog","accountId":%q,"source":"web","payload":{}}`, account)
		}
		s.load(t, s.north, lines.String())
		setRules := func(rules string) {
			t.Helper()
			a := s.send(t, request{method: "PUT", target: "/manage/v0/retention", body: []byte(`{"rules":` + rules + `}`),
				header: []string{"x-api-key: " + s.north.manage, "If-Match: *"}})
			if a.status != 200 {
				t.Fatal(a)
			}
		}
		check := func(body string, status int) (cursor string) {
			t.Helper()
			r := request{method: "POST", target: "/manage/v0/retention/check", body: []byte(body), header: []string{"x-api-key: " + s.north.manage}}
			a := s.send(t, r)
			var page struct{ NextCursor string }
			if err := json.Unmarshal(a.body, &page); err != nil || a.status != status {
				t.Errorf("%s: want status %d: %s", body, status, a)
			}
			for _, fault := range checkExchange(t, r, a) {
				t.Error(fault)
			}
			return page.NextCursor
		}
		setRules(`[{"source":"web","days":30}]`)
		current := fmt.Sprintf(`{"cursor":%q}`, check(`{}`, 200))
		given := fmt.Sprintf(`{"rules":[{"days":30}],"cursor":%q}`, check(`{"rules":[{"days":30}]}`, 200))
		check(current, 200)
		setRules(`[{"source":"web","days":31}]`)
		check(current, 400)
		check(given, 200)
		setRules(`[]`)
		check(current, 400)
	})
}
