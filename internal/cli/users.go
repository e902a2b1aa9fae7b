package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// roleFlag returns the flag for a role of someone.
func roleFlag(of string, required bool) param {
	roles := []string{string(atrium.RoleOperator)}
	for _, role := range atrium.TenantRoles() {
		roles = append(roles, string(role))
	}
	return param{flag: "role", name: "role", usage: "`role` " + of, required: required, values: roles}
}

func users() group {
	columns := []column{
		{"USER", "userId"}, {"NAME", "name"}, {"ROLE", "role"}, {"CREATED", "createdAt"}, {"UPDATED", "updatedAt"},
	}
	sessionColumns := []column{
		{"SESSION", "sessionId"}, {"BROWSER", "browser"}, {"CREATED", "createdAt"}, {"LAST USED", "usedAt"}, {"EXPIRES", "expiresAt"},
	}
	const user = "/users/{user_id}"
	return group{name: "users", short: "Manage the people who use the console", operations: []operation{
		{
			use: "list", short: "List users, newest first", method: http.MethodGet, path: "/users", tenancy: tenantOrLocalOperators,
			layout: layoutList, columns: columns,
		},
		{
			use: "get USER_ID", short: "Show a user", method: http.MethodGet, path: user, tenancy: tenantOrLocalOperators, columns: columns,
		},
		{
			use: "create", short: "Create a user",
			long: `Create a user of a tenant, or with --operator an operator, who manages all tenants. Operators
can be created only on the database. The user signs in with login links.

A viewer reads everything. Support also changes accounts and prospects and moves entries. An
editor also changes pages and audiences. An admin does everything in the tenant.`,
			example: "  atrium users create --tenant tenant_… --name Robin --role editor\n  atrium users create --operator --name Robin --role operator",
			method:  http.MethodPost, path: "/users", tenancy: tenantOrLocalOperators, idempotent: true, layout: layoutDetails,
			columns: []column{{"ID", "userId"}, {"Name", "name"}, {"Role", "role"}},
			params:  []param{nameParam("the user", true), roleFlag("of the user", true)},
		},
		{
			use: "update USER_ID", short: "Change the name or the role of a user",
			long:   "A new role ends the sessions and the login link of the user.",
			method: http.MethodPatch, path: user, tenancy: tenantOrLocalOperators, ifMatch: requiredIfMatch, columns: columns,
			params: []param{nameParam("the user", false), roleFlag("of the user", false)},
		},
		{
			use: "remove USER_ID", short: "Remove a user and end its sessions", method: http.MethodDelete, path: user,
			tenancy: tenantOrLocalOperators, ifMatch: optionalIfMatch, confirm: "Remove", layout: layoutNone, done: "The user is removed.",
		},
		{
			use: "login-link USER_ID", short: "Create a link that signs a user in once",
			long:   "The link works once, within " + minutes(atrium.LoginLinkLife) + ". An earlier link of the user stops working.",
			method: http.MethodPost, path: user + "/login_link", tenancy: tenantOrLocalOperators, ifMatch: optionalIfMatch, layout: layoutDetails,
			columns: []column{{"Token", "token"}, {"User", "userId"}, {"Expires", "expiresAt"}}, note: "(shown only once)", address: loginText,
		},
		{
			use: "sign-out USER_ID", short: "End all sessions of a user", method: http.MethodPost, path: user + "/sign_out",
			long:    "The login link of the user ends, too.",
			tenancy: tenantOrLocalOperators, ifMatch: optionalIfMatch, columns: columns, confirm: "End all sessions of",
			before: sessionsOf, advise: endedSessions,
		},
		{
			use: "sessions USER_ID", short: "List the sessions of a user, newest first", method: http.MethodGet, path: user + "/sessions",
			tenancy: tenantOrLocalOperators, layout: layoutMember, rowsMember: "items", items: "sessions", columns: sessionColumns,
		},
		{
			use: "end-session SESSION_ID", short: "End a session of a user", method: http.MethodDelete,
			path: user + "/sessions/{session_id}", tenancy: tenantOrLocalOperators, ifMatch: optionalIfMatch, confirm: "End", layout: layoutNone,
			done: "The session is ended.",
		},
	}}
}

// sessionsOf returns a call that lists the sessions that a sign-out ends.
func sessionsOf(signOut call) call {
	return call{method: http.MethodGet, path: strings.TrimSuffix(signOut.path, "/sign_out") + "/sessions"}
}

// endedSessions says how many sessions a sign-out has ended.
func endedSessions(_ context.Context, _ *client, e effect) string {
	var found struct {
		Items []jsontext.Value `json:"items"`
	}
	if json.Unmarshal(e.before, &found, lenientJSON) != nil {
		return ""
	}
	return "Ended " + atrium.Count(len(found.Items), "session", "sessions") + "."
}
