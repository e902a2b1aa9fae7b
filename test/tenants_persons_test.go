package test

import (
	"fmt"
	"testing"
)

var personResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		return map[string]string{
			"account": externalResources.has(t, s, tn)["account"], "tenant": string(tn.id),
			"entry": s.made(t, tn, "/v0/account_logs", `{"source":"matrix","payload":{}}`, "accountLogId"),
		}
	},
	places: func(_, of map[string]string) map[string]request {
		const target = "/manage/v0/persons/export"
		return map[string]request{
			"account to export a person from": {method: "POST", target: target, body: fmt.Appendf(nil, `{"accountId":%q,"rule":{"text":"nobody"}}`, of["account"])},
			"entry to export":                 {method: "POST", target: target, body: fmt.Appendf(nil, `{"rule":{"accountLogIds":[%q]}}`, of["entry"])},
			"tenant to export a person from":  {method: "POST", target: target, body: []byte(`{"rule":{"text":"nobody"}}`), header: []string{"Atrium-Tenant: " + of["tenant"]}},
		}
	},
}
