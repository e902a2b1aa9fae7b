package test

import (
	"fmt"
	"strings"
	"testing"
)

// retentionResource has no identifiers: its places take a cursor of another tenant.
var retentionResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		var lines strings.Builder
		account := externalResources.has(t, s, tn)["account"]
		for i := range 10_001 { // more than one check examines
			fmt.Fprintf(&lines, `{"kind":"accountLog","accountId":%q,"source":"web","payload":{},"createdAt":"2026-01-01T00:00:00Z","idempotencyKey":"retention-%d"}`+"\n", account, i)
		}
		s.load(t, tn, lines.String())
		a := s.send(t, request{method: "POST", target: "/manage/v0/retention/check", body: []byte(`{"rules":[]}`), header: []string{"x-api-key: " + tn.manage}})
		_, after, ok := strings.Cut(string(a.body), `"nextCursor":"`)
		if !ok {
			t.Fatal(a)
		}
		cursor, _, _ := strings.Cut(after, `"`)
		return map[string]string{"cursor": cursor}
	},
	places: func(_, of map[string]string) map[string]request {
		return map[string]request{
			"cursor of a check of retention rules": {
				method: "POST", target: "/manage/v0/retention/check", body: fmt.Appendf(nil, `{"rules":[],"cursor":%q}`, of["cursor"]),
			},
		}
	},
}
