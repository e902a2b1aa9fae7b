// Package ssotest is an identity provider for tests, which can also misbehave.
package ssotest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// The client that a Provider knows.
const (
	ClientID = "atrium"
	Secret   = "s3cret+&/= value"
)

// A Behavior is what a Provider says about the person who signs in, and how it misbehaves.
type Behavior struct {
	Subject    string
	Name       string
	Groups     any  // of the claim groups; nil for none
	ByUserInfo bool // the groups are only at the userinfo endpoint

	Edit      func(header, claims map[string]any) // of the ID token
	Sign      func(signed string) []byte          // nil for a valid signature
	Token     http.HandlerFunc                    // replaces the token endpoint
	UserInfo  http.HandlerFunc                    // replaces the userinfo endpoint
	Discovery func(metadata map[string]any)
	Response  func(url.Values) // parameters of the redirect to the client
	Away      bool             // every request fails
}

// A Provider is an identity provider at Issuer. It is safe for concurrent use.
type Provider struct {
	Issuer string

	key    *rsa.PrivateKey
	server *httptest.Server

	mu       sync.Mutex
	behavior Behavior
	codes    map[string]url.Values // the requests of codes that were not used
	requests map[string]int
}

// New starts a provider until the test ends.
func New(t testing.TB, b Behavior) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key, behavior: b, codes: map[string]url.Values{}, requests: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	mux.HandleFunc("GET /logout", p.logout)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests[r.URL.Path]++
		away := p.behavior.Away
		p.mu.Unlock()
		if away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	p.Issuer = p.server.URL
	return p
}

// Set changes the behavior.
func (p *Provider) Set(change func(*Behavior)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.behavior)
}

// Requests returns the number of requests for a path.
func (p *Provider) Requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

// SecretFile writes the client secret to a file and returns its name.
func SecretFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, v)
}

func (p *Provider) now() Behavior {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behavior
}

func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token", "jwks_uri": p.Issuer + "/keys",
		"userinfo_endpoint": p.Issuer + "/userinfo", "end_session_endpoint": p.Issuer + "/logout?of=all", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}
	if edit := p.now().Discovery; edit != nil {
		edit(m)
	}
	send(w, m)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	send(w, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize signs the person in at once.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("state") == "" {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.Issuer}}
	if edit := p.now().Response; edit != nil {
		edit(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// logout ends the session of the person at once, and sends the browser back.
func (p *Provider) logout(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("of") != "all" || q.Get("post_logout_redirect_uri") == "" || q.Has("id_token_hint") {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, q.Get("post_logout_redirect_uri"), http.StatusFound)
}

// take returns the request of a code, once.
func (p *Provider) take(code string) (url.Values, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.codes[code]
	delete(p.codes, code)
	return q, ok
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	b := p.now()
	if b.Token != nil {
		b.Token(w, r)
		return
	}
	refuse := func(code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.MarshalWrite(w, map[string]string{"error": code, "error_description": "of " + r.PostFormValue("code")})
	}
	id, secret, _ := r.BasicAuth()
	if plain, _ := url.QueryUnescape(secret); id != ClientID || plain != Secret {
		refuse("invalid_client")
		return
	}
	q, ok := p.take(r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || q.Get("redirect_uri") != r.PostFormValue("redirect_uri") || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		refuse("invalid_grant")
		return
	}
	send(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": p.idToken(b, q.Get("nonce"))})
}

func (p *Provider) idToken(b Behavior, nonce string) string {
	now := time.Now()
	header := map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}
	claims := map[string]any{"iss": p.Issuer, "sub": b.Subject, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": nonce, "name": b.Name}
	if b.Groups != nil && !b.ByUserInfo {
		claims["groups"] = b.Groups
	}
	if b.Edit != nil {
		b.Edit(header, claims)
	}
	part := func(v map[string]any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) //nolint:forbidigo // a mistake in a test
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(header) + "." + part(claims)
	sign := b.Sign
	if sign == nil {
		sign = p.sign
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(signed))
}

func (p *Provider) sign(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) //nolint:forbidigo // the key is valid
	}
	return signature
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	b := p.now()
	if b.UserInfo != nil {
		b.UserInfo(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer access" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	claims := map[string]any{"sub": b.Subject}
	if b.Groups != nil {
		maps.Copy(claims, map[string]any{"groups": b.Groups})
	}
	send(w, claims)
}
