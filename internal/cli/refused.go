package cli

import (
	"net/http"
)

func refusedRequests() group {
	return group{name: "refused", short: "See which requests were refused, and why", operations: []operation{
		{
			use: "list", short: "List refused requests, newest first",
			long: `List the requests of a tenant that were refused or failed: the newest 1,000 of the last 30 days.
Equal requests within a second are one row with a count. The list is the same on all servers, and
has a request about a second after its response.`,
			example: "  atrium refused list --tenant tenant_… --limit 20\n" +
				"  atrium refused list --tenant tenant_… --code invalid_request --since 2026-06-01 -o json",
			method: http.MethodGet, path: "/refused_requests", layout: layoutList, items: "refused requests", columns: []column{
				{"AT", "at"}, {"COUNT", "count"}, {"STATUS", "status"}, {"CODE", "code"}, {"METHOD", "method"}, {"ROUTE", "route"},
				{"KEY", "keyId"}, {"USER", "userId"}, {"NAME", "actorName"}, {"REQUEST", "requestId"}, {"CLIENT", "userAgent"},
				{"DETAIL", "detail"}, {"ERRORS", "errors"},
			}, params: []param{
				{flag: "status", kind: integer, minimum: 200, usage: "only requests whose response had this `status`"},
				{flag: "code", usage: "only requests with this `code`, such as invalid_request"},
				{flag: "route", usage: "only requests of this `route`, such as /v0/account_logs"},
				{flag: "key-id", names: "key_id", usage: "only requests with the key with this `ID`"},
				{flag: "request", name: "requestId", usage: "only the request with this `ID`: the X-Request-Id of its response"},
				{flag: "sent-by", name: "sentBy", usage: "only requests of `people` or of programs", values: []string{"people", "programs"}},
				{flag: "since", kind: instant, usage: "only requests at or after this `time`"},
				{flag: "until", kind: instant, usage: "only requests before this `time`"},
			},
		},
		{
			use: "counts", short: "Count refused requests by code",
			long:   "By default, count those of the last 24 hours. If not all are stored, the counts begin later.",
			method: http.MethodGet, path: "/refused_requests/counts", layout: layoutMember, rowsMember: "codes", items: "refused requests",
			columns: []column{{"CODE", "code"}, {"STATUS", "status"}, {"COUNT", "count"}, {"TITLE", "title"}},
			params: []param{
				{flag: "sent-by", name: "sentBy", usage: "count only requests of `people` or of programs", values: []string{"people", "programs"}},
				{flag: "since", kind: instant, usage: "count from this `time` on (default: 24 hours ago)"},
			},
		},
	}}
}
