package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A key is a key as the API shows it.
type key struct {
	KeyID      atrium.KeyID `json:"keyId"`
	Name       string       `json:"name"`
	Scopes     []string     `json:"scopes"`
	Origins    []string     `json:"origins"`
	CreatedAt  string       `json:"createdAt"`
	ExpiresAt  string       `json:"expiresAt"`
	RevokedAt  string       `json:"revokedAt"`
	LastUsedAt string       `json:"lastUsedAt"`

	PreviousEndsAt string `json:"previousEndsAt"` // when the secret before the last rotation stops working
	Key            string `json:"key"`            // the secret, only of a new one
}

type keysPage struct {
	State  string
	States []string
	Keys   list[key]
	New    key // just created or rotated; zero for none
	Scopes []scope
}

// A scope is a permission that a new key can have.
type scope struct {
	Name       atrium.Scope
	Allows     string
	GroupTitle string // of the group that begins with the scope; "" if it begins none
}

// allowed says what keys with a scope may do.
var allowed = map[atrium.Scope]string{
	atrium.ScopeLogsWrite: "record entries", atrium.ScopeAccountsRead: "read accounts", atrium.ScopeAccountsWrite: "change accounts",
	atrium.ScopePagesRead: "read pages, audiences and versions", atrium.ScopeManage: "do everything in this group",
	atrium.ScopeManageRead: "read everything", atrium.ScopeManagePages: "change pages and audiences",
	atrium.ScopeManageAccounts: "change, merge and erase accounts, change prospects, move entries", atrium.ScopeManageKeys: "create and revoke keys",
	atrium.ScopeManageErase: "erase and export persons, set retention", atrium.ScopeManageUsers: "create users and login links",
	atrium.ScopeManageReceivers: "create receivers, map deliveries again",
	atrium.ScopeManageEvents:    "read all events and send them to webhooks; requires manage:read",
}

// keyFilters are the parameters of the list of keys.
var keyFilters = []string{"state"}

func (c *Console) listKeys(r *request) error { return r.showKeys(key{}) }

func (r *request) showKeys(made key) error {
	p := keysPage{State: r.query("state"), States: []string{"active", "expired", "revoked"}, New: made}
	group := ""
	for _, s := range atrium.AllScopes() {
		if s == atrium.ScopeContentRead || !r.user.Role.Scopes().MayGrant(atrium.Scopes{s}) {
			continue
		}
		shown, of := scope{Name: s, Allows: allowed[s]}, "Management"
		if slices.Contains(atrium.ExternalScopes(), s) {
			of = "Programs and sites"
		}
		if of != group {
			group, shown.GroupTitle = of, of
		}
		p.Scopes = append(p.Scopes, shown)
	}
	var err error
	if p.Keys, err = readList[key](r, "/keys", keyFilters...); err != nil {
		return err
	}
	return r.show("keys", "keys", "Keys", p)
}

// createKey shows the new key in its response, because it can be shown only once.
func (c *Console) createKey(r *request) error {
	body := map[string]any{"name": r.form("name"), "scopes": r.http.PostForm["scopes"]}
	if r.query("for") == "site" {
		body["scopes"] = atrium.Scopes{atrium.ScopeContentRead}
		if origins := strings.Fields(r.form("origins")); len(origins) > 0 {
			body["origins"] = origins
		}
	}
	if day := r.form("lastDay"); day != "" {
		seconds, err := secondsOf(day)
		if err != nil {
			return err
		}
		body["expiresInSeconds"] = seconds
	}
	a, err := r.once(call{method: http.MethodPost, path: "/keys", body: body})
	if err != nil {
		return err
	}
	var made key
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.showKeys(made)
}

// secondsOf returns the seconds until the end of a day in UTC.
func secondsOf(day string) (int64, error) {
	start, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0, wrong("lastDay", "must be a date such as 2027-03-31")
	}
	left := time.Until(start.AddDate(0, 0, 1))
	if left <= 0 {
		return 0, wrong("lastDay", "has passed")
	}
	return int64(left/time.Second) + 1, nil
}

// rotateKey gives a key a new secret. Its response shows the secret, because it can be shown only once.
func (c *Console) rotateKey(r *request) error {
	a, err := r.once(call{method: http.MethodPost, path: "/keys/" + url.PathEscape(r.http.PathValue("key_id")) + "/rotate", body: map[string]any{}})
	if err != nil {
		return err
	}
	var made key
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.showKeys(made)
}

func (c *Console) revokeKey(r *request) error {
	path := "/keys/" + url.PathEscape(r.http.PathValue("key_id"))
	if _, err := r.call(call{method: http.MethodPost, path: path + "/revoke"}); err != nil {
		return err
	}
	var revoked key
	if _, err := r.get(&revoked, path, nil); err != nil {
		return err
	}
	return r.redirect(r.path("keys"), "revoked", revoked.Name)
}
