package cli

import "net/http"

func servers() group {
	return group{name: "server", short: "See the settings, background jobs and checks of a running server", operations: []operation{
		{
			use: "settings", short: "List the settings of a server and where each comes from",
			long: `Passwords are redacted. "atrium config" shows the settings that a server on this machine would use
with the same flags, environment and file.`,
			example: "  atrium server settings --server https://atrium.example.com",
			method:  http.MethodGet, path: "/server/settings", tenancy: noTenant, serverOnly: true, layout: layoutMember, rowsMember: "items",
			items: "settings", columns: []column{{"SETTING", "name"}, {"VALUE", "value"}, {"SOURCE", "source"}},
		},
		{
			use: "jobs", short: "List the background jobs of a server with their last runs",
			long: `A job is failing if its last failure is later than its last success. Every server of a database runs
every job; with several behind a load balancer, pass the address of one.`,
			example: "  atrium server jobs --server http://10.0.0.7:8080",
			method:  http.MethodGet, path: "/server/jobs", tenancy: noTenant, serverOnly: true, layout: layoutMember, rowsMember: "items",
			items: "jobs", columns: []column{
				{"JOB", "name"}, {"INTERVAL (S)", "intervalSeconds"}, {"LAST SUCCESS", "lastSuccessAt"}, {"LAST FAILURE", "lastFailureAt"},
				{"LAST ERROR", "lastError"},
			},
		},
		{
			use: "checks", short: "Check the settings, database and machine of a running server",
			long: `The checks are those of "atrium doctor", which runs on the machine of the server and can also read the
whole database. With several servers behind a load balancer, pass the address of one.`,
			example: "  atrium server checks --server http://10.0.0.7:8080",
			method:  http.MethodGet, path: "/server/checks", tenancy: noTenant, serverOnly: true, layout: layoutMember, rowsMember: "items",
			items: "checks", columns: []column{{"CHECK", "name"}, {"STATUS", "status"}, {"FOUND", "found"}, {"FIX", "fix"}},
		},
	}}
}
