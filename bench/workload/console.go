package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"atrium/bench/load"
	"atrium/bench/server"
)

// The names of the rows of the console.
const (
	GetOverview = "GET overview page"
	GetTimeline = "GET account page"
)

// SignIn creates a user of a tenant, or with the role operator one of all tenants, and uses a login link as a
// browser does. It returns the header with the cookie of the session, and the identifier of the user.
func SignIn(ctx context.Context, a *server.Atrium, tenant, role string) (cookie, id string, err error) {
	of := []string{"--tenant", tenant}
	if role == "operator" {
		of = []string{"--operator"}
	}
	var user struct{ UserID string }
	if err := a.Command(ctx, &user, nil, append([]string{"users", "create", "--name", "Bench", "--role", role}, of...)...); err != nil {
		return "", "", err
	}
	var link struct{ Token string }
	if err := a.Command(ctx, &link, nil, append([]string{"users", "login-link", user.UserID}, of...)...); err != nil {
		return "", "", err
	}
	form := url.Values{"token": {link.Token}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.Addr()+"/console/login", strings.NewReader(form))
	if err != nil {
		return "", "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", "http://"+a.Addr())
	response, err := http.DefaultTransport.RoundTrip(request) // does not follow the redirect
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	for _, c := range response.Cookies() {
		if response.StatusCode == http.StatusSeeOther {
			return "Cookie: " + c.Name + "=" + c.Value, user.UserID, nil
		}
	}
	return "", "", fmt.Errorf("sign in: %s", response.Status)
}

// consoleKinds are pages of the console, as a signed-in user reads them.
func (w *Workload) consoleKinds(account func() int) []load.Kind {
	home := "/console/" + w.Tenant
	overview := load.Get(w.addr, home, w.cookie)
	return []load.Kind{
		{Name: GetOverview, Status: http.StatusOK, Request: func(int) []byte { return overview }},
		{Name: GetTimeline, Status: http.StatusOK, Request: func(int) []byte {
			return load.Get(w.addr, home+"/accounts/"+ID("account", account()), w.cookie)
		}},
	}
}
