package cli

import "net/http"

func personalReads() group {
	return group{name: "reads", short: "See who has read personal data", operations: []operation{{
		use: "list", short: "List reads of personal data, newest first",
		long: `List which users have read prospects, payloads and audit records, and which users and keys have
exported them, in the last 90 days. Equal requests within a second are one row with a count.`,
		example: "  atrium reads list --tenant tenant_… --subject prospect_…\n" +
			"  atrium reads list --tenant tenant_… --kind export --since 2026-06-01",
		method: http.MethodGet, path: "/reads", layout: layoutList, columns: []column{
			{"AT", "at"}, {"COUNT", "count"}, {"ACTOR", "actor"}, {"ACTOR NAME", "actorName"}, {"KIND", "kind"}, {"SUBJECT", "subject"},
			{"ROUTE", "route"}, {"REQUEST", "requestId"},
		}, params: []param{
			{flag: "subject", usage: "only reads of the resource with this `ID`, or of the account with this domain", check: checkSubject, subject: true},
			{flag: "actor", usage: "only reads by the user or key with this `ID`"},
			{flag: "kind", usage: "only reads of this `kind`", values: []string{"account", "prospect", "entry", "delivery", "list", "export"}},
			{flag: "since", kind: instant, usage: "only reads at or after this `time`"},
			{flag: "until", kind: instant, usage: "only reads before this `time`"},
		},
	}}}
}
