package secure

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	secretkeys "atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/transfer"
	"atrium/test/cutproxy"
	"atrium/test/nodes"
)

// canaries are marked texts that must not leak.
var canaries = map[string]string{
	"payload": "canarypayload7c1f", "password": "canarypassword93ab", "name": "canaryname44d0", "domain": "canarydomain51e2",
	"idempotency key": "canaryidempotency6b3c", "note": "canarynote20fa", "query": "canaryquery8812", "header": "canaryheader3e77",
	"wrong key": "atr_canarywrongkey1d5a", "client secret": "canaryclientsecret8e01",
}

// member is a marked member name. The location of a problem may have it, in the response
// to its sender only.
const member = "canarymember0e9d"

// search fails the test if a text contains a canary or another secret, in any encoding
// that a program could use.
func search(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for name, canary := range canaries {
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:16], hex.EncodeToString([]byte(canary))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s has the %s: …%s…", where, name, text[max(0, i-200):min(len(text), i+60)])
			}
		}
	}
	for _, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s has a secret: …%s…", where, text[max(0, i-200):min(len(text), i+60)])
		}
	}
}

var measured = regexp.MustCompile(`msg="serving metrics" addr=(\S+)`)

// metrics returns the metrics of a node.
func metrics(t *testing.T, n *nodes.Node) string {
	t.Helper()
	m := measured.FindStringSubmatch(n.Log())
	if m == nil {
		t.Fatalf("it serves no metrics:\n%s", n.Log())
	}
	response, err := nodes.Client(t).Get("http://" + m[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A leak is a place where a secret could leak: server output.
type leak struct{ where, text string }

// Exercises a server that logs as much as it can with all kinds of requests and database
// failures, and then searches its output. Data that a response must return (accounts,
// pages, exports) is not a leak; errors are searched.
func TestSecretsAndBodiesDoNotLeak(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			var away func()
			var cut func(commits bool)
			var database string
			if engine == "sqlite" {
				database = "sqlite:" + filepath.Join(t.TempDir(), "atrium.db")
			} else {
				proxy, through := cutproxy.New(t, postgrestest.Shared(t).NewDatabase(t))
				cut = func(commits bool) {
					proxy.Rule(func(query, _ string) cutproxy.Fate {
						if commits && query == "COMMIT" {
							return cutproxy.Unanswered
						}
						return cutproxy.Passes
					})
				}
				database = withPassword(t, through, func(addr string) string {
					p := newProxy(t, addr)
					away = func() { _ = p.Close() }
					return p.Addr().String()
				})
			}
			sendEverything(t, database, cut, away)
		})
	}
}

// newPreview creates a preview of a page that is not published, and returns its address and token.
func newPreview(t *testing.T, s *store.Store, tenant atrium.TenantID) (path, token string) {
	t.Helper()
	page := atrium.PageID("page_00000000000000000000000001")
	audience := atrium.AudienceID("audience_00000000000000000000000001")
	lines := `{"kind":"page","pageId":"` + string(page) + `","brandId":"b","name":"` + canaries["name"] + `","pageContext":"","title":"","status":"draft","actions":[],"scripts":[],"footerLinks":[]}
{"kind":"audience","audienceId":"` + string(audience) + `","pageId":"` + string(page) + `","name":"a"}
{"kind":"audienceVersion","audienceId":"` + string(audience) + `","versionNumber":1,"content":1}`
	if _, err := transfer.Import(t.Context(), s, tenant, strings.NewReader(lines), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	id, token, hash := auth.NewPreviewToken()
	p := atrium.Preview{ID: id, PageID: page, AudienceID: audience, Number: 1, ExpiresAt: atrium.At(time.Now().Add(time.Hour))}
	if _, _, err := s.CreatePreview(t.Context(), atrium.CommandLine(tenant), p, hash); err != nil {
		t.Fatal(err)
	}
	return "/content/v0/" + string(tenant) + "/pages/" + string(page), token
}

// sendEverything sends the requests. cut makes commits of a database server fail or makes
// it unreachable; it is nil for a file.
func sendEverything(t *testing.T, database string, cut func(commits bool), away func()) {
	t.Helper()
	tenant, key := newTenant(t, database)
	st, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	manager, _ := apptest.Key(t, st, tenant, atrium.ManageScopes()...)
	site, _ := apptest.Key(t, st, tenant, atrium.ScopeContentRead)
	shown, token := newPreview(t, st, tenant)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pair := apptest.NewPair(t, time.Now().Add(90*24*time.Hour))
	chain, keyFile := pair.Write(t, dir)
	named := filepath.Join(dir, "database")
	if err := os.WriteFile(named, []byte(database+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ATRIUM_DATABASE_FILE", named)
	sent := newCollector(t)
	s := &server{key: key, trust: pair.Trust}
	keys := filepath.Join(dir, "secrets-keys")
	if _, _, err := secretkeys.AddKey(keys, false); err != nil {
		t.Fatal(err)
	}
	encrypting, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(dir, "client-secret")
	if err := os.WriteFile(client, []byte(canaries["client secret"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{ // no provider listens at the issuer
		"SECRETS_KEY_FILE": keys, "OIDC_ISSUER": "https://127.0.0.1:1", "OIDC_CLIENT_ID": "atrium", "OIDC_CLIENT_SECRET_FILE": client, "PUBLIC_URL": "https://atrium.example",
	} {
		t.Setenv("ATRIUM_"+name, value)
	}
	s.Node = nodes.Start(t, 1, "", "--log-level", "debug", "--metrics-addr", "127.0.0.1:0", "--tls-cert", chain, "--tls-key", keyFile, "--database-timeout", "1s", "--webhook-allow", "127.0.0.0/8")[0]

	secrets := []string{strings.Split(string(pair.Key), "\n")[1]} // a line of the private key
	for _, k := range []string{key, manager, site, token, strings.TrimSpace(string(encrypting))} {
		secrets = append(secrets, k, k[len(k)-20:])
	}
	c := s.client(t, true)
	refused := map[int]int{}
	send := func(method, path, key, body string, header ...string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.Addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("x-api-key", key)
		}
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		if body != "" && r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
		response, err := c.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		defer func() { _ = response.Body.Close() }()
		b, _ := io.ReadAll(response.Body)
		refused[response.StatusCode]++
		if response.StatusCode >= 400 {
			search(t, fmt.Sprintf("the response %d to %s %s", response.StatusCode, method, path), fmt.Sprint(response.Header)+string(b), secrets...)
		}
		return string(b)
	}
	// create returns the members of what a request of the management API creates, with a text that is shown once.
	create := func(path, secret, body string) map[string]string {
		t.Helper()
		var all map[string]any
		if err := json.Unmarshal([]byte(send("POST", "/manage/v0"+path, manager, body)), &all); err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for name, value := range all {
			texts[name], _ = value.(string)
		}
		if texts[secret] == "" {
			t.Fatalf("POST %s returned %v", path, all)
		}
		secrets = append(secrets, texts[secret])
		return texts
	}
	// Each attempt to deliver an event fails.
	hook := create("/webhooks", "secret", `{"url":"https://127.0.0.1:1/","headers":{"Authorization":"Bearer `+canaries["header"]+`"}}`)
	receiver := create("/receivers", "secret", `{"name":"a","provider":"token","source":"shop","verification":{"header":"X-Token"}}`)
	robin := create("/users", "userId", `{"name":"a","role":"admin"}`)["userId"]
	secrets = secrets[:len(secrets)-1] // an identifier is not secret
	login := create("/users/"+robin+"/login_link", "token", "")["token"]
	session := signIn(t, c, "https://"+s.Addr, login)
	secrets = append(secrets, session)
	x := strings.NewReplacer("PAYLOAD", canaries["payload"], "NAME", canaries["name"], "DOMAIN", canaries["domain"]+".example", "IDEM", canaries["idempotency key"], "NOTE", canaries["note"], "MEMBER", member).Replace
	const logs, manage = "/v0/account_logs", "/manage/v0"
	sendAll := func() {
		t.Helper()
		for _, body := range []string{
			`{"source":"crm","domain":"DOMAIN","name":"NAME","payload":{"a":"PAYLOAD"},"idempotencyKey":"IDEM"}`,
			`{"source":"crm","domain":"DOMAIN","payload":{"a":"PAYLOAD 2"},"idempotencyKey":"IDEM"}`, // already used
			`{"source":"crm","domain":"DOMAIN","payload":"PAYLOAD","MEMBER":1,"accountId":"NAME"}`,
			`{"source":"PAYLOAD","source":"PAYLOAD"}`, `{"MEMBER":`, `{"source":"PAYLOAD`, `PAYLOAD`, `{"a":"PAYLOAD` + "\xff" + `"}`, `["PAYLOAD"]`,
			`{"source":"crm","payload":{"a":"` + strings.Repeat("PAYLOAD", 200_000) + `"}}`,
		} {
			send("POST", logs, key, x(body))
		}
		send("POST", logs, key, x(`{"source":"crm","payload":{"a":"PAYLOAD"}}`), "Idempotency-Key: "+canaries["idempotency key"]+" \u00e9")
		send("POST", logs, key, x(`PAYLOAD`), "Content-Type: text/"+canaries["header"])
		for _, path := range []string{"/v0/pages", "/v0/accounts/account_00000000000000000000000001", "/nowhere", manage + "/brands"} {
			for _, wrong := range []string{"", canaries["wrong key"], key[:len(key)-1] + "0", key + "0", " " + key} {
				send("GET", path, wrong, "")
			}
			send("GET", path+"?x-api-key="+key+"&limit="+canaries["query"]+"&cursor="+canaries["query"], "", "")
			send("GET", path+"?limit="+canaries["query"]+"&cursor="+canaries["query"], key, "")
			send("GET", path, "", "", "Authorization: Bearer "+key, "Cookie: key="+key, "Referer: https://a.example/"+key, "User-Agent: "+key)
			send("GET", path, key, "", "X-Api-Key: "+manager)
			send("GET", path, key, "", "Accept: text/"+canaries["header"], "If-None-Match: "+canaries["header"])
			send("PATCH", path, key, x(`{"name":"NAME"}`), "If-Match: "+canaries["header"])
		}
		for _, preview := range []string{token, token[:len(token)-1] + "0", canaries["wrong key"], ""} {
			for _, k := range []string{site, key, canaries["wrong key"], ""} {
				send("GET", shown+"?preview="+preview, k, "", "Referer: https://a.example/?preview="+token, "Origin: https://"+canaries["header"]+".example")
				send("OPTIONS", shown+"?preview="+preview, k, "", "Access-Control-Request-Headers: "+token)
				send("GET", "/content/v0/"+canaries["name"]+"/pages/"+token+"?preview="+preview, k, "")
			}
		}
		for _, secret := range []string{receiver["secret"], receiver["secret"] + "0", canaries["wrong key"]} {
			for _, body := range []string{`{"a":"PAYLOAD"}`, `PAYLOAD`, `["PAYLOAD"]`, ``} {
				send("POST", receiver["path"], "", x(body), "X-Token: "+secret)
				send("POST", receiver["path"]+"?token="+secret, "", x(body), "Authorization: Bearer "+secret)
			}
		}
		send("POST", manage+"/webhooks/"+hook["webhookId"]+"/test", manager, "")
		send("GET", "/console/login/sso", "", "")
		send("PATCH", manage+"/webhooks/"+hook["webhookId"], manager, `{"url":"https://`+hook["secret"]+`"}`, "If-Match: *")
		for _, cookie := range []string{session, session + "0", login, canaries["wrong key"]} {
			for _, path := range []string{"/console", "/console/accounts?q=" + canaries["query"], "/console/nowhere", "/console/login?token=" + login, "/console/login?token=" + canaries["wrong key"]} {
				send("GET", path, "", "", "Cookie: __Host-atrium="+cookie)
			}
			send("POST", "/console/login", "", "token="+cookie, "Content-Type: application/x-www-form-urlencoded")
			send("POST", "/console/keys", "", "name="+canaries["name"], "Content-Type: application/x-www-form-urlencoded", "Cookie: __Host-atrium="+cookie)
		}
		send("GET", "/v0/accounts/"+key, key, "")
		send("GET", "/"+key, key, "")
		send(canaries["header"], "/v0/pages", key, "")
		for path, body := range map[string]string{
			"/brands": `{"name":"NAME"}`, "/prospects": `{"name":"NAME","email":"NAME@DOMAIN"}`, "/tenants": `{"name":"NAME"}`,
			"/keys": `{"name":"NAME","scopes":["NAME"]}`, "/pages": `{"name":"NAME","metadata":"PAYLOAD"}`, "/nothing": `{"note":"NOTE"}`,
			"/erasures": `{"rule":{"text":"PAYLOAD","claimedName":"NAME"}}`, "/persons/export": `{"rule":{"text":"PAYLOAD"}}`,
			"/import": `{"kind":"account","domain":"DOMAIN","name":"NAME"}` + "\n" + `{"kind":"NAME"}` + "\n",
		} {
			for _, b := range []string{body, `{"MEMBER":"NOTE","name":["NAME"]}`, `{"name":"` + strings.Repeat("NAME", 300) + `"}`, `NOTE`} {
				media := "Content-Type: application/json"
				if path == "/import" {
					media = "Content-Type: application/x-ndjson"
				}
				send("POST", manage+path, manager, x(b), media, "Idempotency-Key: "+canaries["idempotency key"], "Atrium-Tenant: "+canaries["name"])
				send("POST", manage+path, manager, x(b), "Idempotency-Key: "+canaries["idempotency key"])
			}
			send("GET", manage+path+"?search="+canaries["query"]+"&q="+canaries["query"], manager, "")
			send("PATCH", manage+path+"/"+canaries["name"], manager, x(body), "If-Match: "+canaries["header"])
		}
	}
	sendAll()
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 406, 413, 415, 422} {
		if refused[status] == 0 {
			t.Errorf("no request got %d: %v", status, refused)
		}
	}

	leaks := []leak{{"the metrics", metrics(t, s.Node)}}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.PID(), name))
		if err != nil {
			t.Fatal(err)
		}
		leaks = append(leaks, leak{"its " + name, string(bytes.ReplaceAll(b, []byte{0}, []byte(" ")))})
	}
	run := func(args ...string) {
		t.Helper()
		stdout, stderr, code := nodes.Command(t, args...)
		leaks = append(leaks, leak{fmt.Sprintf("atrium %s, which ended with %d,", args[0], code), stdout + stderr})
	}
	run("config")
	run("config", "-o", "json")
	run("migrate")
	run("keys", "list", "--tenant", string(tenant))
	run("doctor")
	run("doctor", "--full", "-o", "json")
	copied, broken := filepath.Join(dir, "copied.db"), filepath.Join(dir, "broken.db")
	if err := os.WriteFile(broken, []byte("SQLite format 3\x00"+strings.Repeat(canaries["payload"], 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // for a file, the second finds an existing one
		run("backup", copied)
	}
	run("restore", copied) // onto an existing database
	run("restore", copied, "--verify")
	run("restore", broken, "--verify")
	run("restore", broken, "--no-manifest", "--database", "sqlite:"+filepath.Join(dir, "restored.db"))
	t.Setenv("ATRIUM_KEY", key)
	t.Setenv("SSL_CERT_FILE", chain)
	run("brands", "list", "--server", "https://"+s.Addr)
	run("brands", "create", "--server", "https://"+s.Addr, "--name", canaries["name"])
	run("brands", "list", "--server", "https://127.0.0.1:1")

	if away != nil { // the database fails, first at commit
		cut(true)
		before := refused[http.StatusServiceUnavailable]
		send("POST", logs, key, x(`{"source":"crm","domain":"DOMAIN","payload":{"a":"PAYLOAD 4"},"idempotencyKey":"IDEM 4"}`))
		send("POST", manage+"/brands", manager, x(`{"name":"NAME 4"}`))
		if refused[http.StatusServiceUnavailable]-before < 2 {
			t.Errorf("with commits of unknown outcome: %v", refused)
		}
		cut(false)
		away()
		before = refused[http.StatusServiceUnavailable]
		send("POST", logs, key, x(`{"source":"crm","domain":"DOMAIN","payload":{"a":"PAYLOAD 3"},"idempotencyKey":"IDEM 3"}`))
		send("GET", "/v0/pages", key, "")
		send("POST", manage+"/brands", manager, x(`{"name":"NAME 2"}`))
		send("GET", "/readyz", "", "")
		if refused[http.StatusServiceUnavailable]-before < 3 {
			t.Errorf("without its database: %v", refused)
		}
		run("migrate")
		run("doctor", "--database-timeout", "1s")
	}
	s.Signal(t, syscall.SIGTERM)
	s.ExitCode(t, exchangeTimeout) // depends on the database
	leaks = append(leaks, leak{"the log", s.Log()}, leak{"what a collector was sent", sent.String()})
	for _, l := range leaks {
		search(t, l.where, l.text, append(secrets, member)...)
		if len(l.text) < 20 || l.where == "what a collector was sent" && !strings.Contains(l.text, "/v0/account_logs") {
			t.Errorf("%s is empty: %.100q", l.where, l.text)
		}
	}
	if !strings.Contains(s.Log(), "status=400") || !strings.Contains(s.Log(), "level=DEBUG") && away != nil && !strings.Contains(s.Log(), "level=ERROR") {
		t.Errorf("the log is not that of what happened:\n%s", s.Log())
	}
}

// signIn returns the token of the session that a login link begins.
func signIn(t *testing.T, c *http.Client, base, link string) string {
	t.Helper()
	form := url.Values{"token": {link}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/console/login", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := c.Transport.RoundTrip(r) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for _, cookie := range response.Cookies() {
		if cookie.Value != "" {
			return cookie.Value
		}
	}
	t.Fatalf("the sign-in returned %d without a session", response.StatusCode)
	return ""
}
