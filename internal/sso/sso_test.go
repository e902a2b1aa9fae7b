package sso_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/sso"
	"atrium/internal/sso/ssotest"
)

var client = netip.MustParseAddr("192.0.2.1")

// A site is a client of a provider.
type site struct {
	t        *testing.T
	fake     *ssotest.Provider
	provider *sso.Provider
	mu       sync.Mutex
	ahead    time.Duration // of the clock; guarded by mu
}

func newSite(t *testing.T, b ssotest.Behavior) *site {
	t.Helper()
	if b.Subject == "" {
		b.Subject, b.Name = "1", "Jane"
		if b.UserInfo == nil {
			b.Groups = []string{"staff", "editors"}
		}
	}
	s := &site{t: t, fake: ssotest.New(t, b)}
	s.provider = sso.New(sso.Config{
		Issuer: s.fake.Issuer, ClientID: ssotest.ClientID, ClientSecret: func() (string, error) { return ssotest.Secret, nil },
		RedirectURL: "https://atrium.example/callback", Scopes: []string{"openid", "profile"}, GroupsClaim: "groups", Now: s.now,
	})
	return s
}

func (s *site) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

func (s *site) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// begin returns a flow, and what the browser brings back from the provider.
func (s *site) begin() (sso.Flow, url.Values) {
	s.t.Helper()
	flow, to, err := s.provider.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := browser.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = response.Body.Close()
	back, err := response.Location()
	if err != nil || !strings.HasPrefix(back.String(), "https://atrium.example/callback?") {
		s.t.Fatalf("the provider sends the browser to %v, %v", back, err)
	}
	return flow, back.Query()
}

func (s *site) finish(flow sso.Flow, query url.Values) (atrium.Person, error) {
	return s.provider.Finish(s.t.Context(), client, flow, query)
}

// refused fails the test unless an error has the reason and a text, and no secret.
func refused(t *testing.T, err error, reason sso.Reason, text string) {
	t.Helper()
	e, ok := errors.AsType[*sso.Error](err)
	if !ok || e.Reason != reason || !strings.Contains(e.Error(), text) || len(e.Error()) > 400 {
		t.Errorf("the error is %v, want the reason %s and %q", err, reason, text)
		return
	}
	if strings.Contains(e.Error(), "eyJ") || strings.Contains(e.Error(), ssotest.Secret) {
		t.Errorf("the error has a token or the secret: %v", e)
	}
}

func TestAPersonSignsInWithTheGroupsOfTheProvider(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct {
		b    ssotest.Behavior
		want atrium.Person
	}{
		"groups in the ID token":             {ssotest.Behavior{Subject: "1", Name: "Jane", Groups: []string{"a", "b"}}, atrium.Person{Subject: "1", Name: "Jane", Groups: []string{"a", "b"}}},
		"groups at the userinfo endpoint":    {ssotest.Behavior{Subject: "1", Name: "Jane", Groups: []string{"a"}, ByUserInfo: true}, atrium.Person{Subject: "1", Name: "Jane", Groups: []string{"a"}}},
		"one group as a text":                {ssotest.Behavior{Subject: "1", Name: "Jane", Groups: "a"}, atrium.Person{Subject: "1", Name: "Jane", Groups: []string{"a"}}},
		"no groups":                          {ssotest.Behavior{Subject: "1", Name: "Jane"}, atrium.Person{Subject: "1", Name: "Jane"}},
		"groups that no mapping can name":    {ssotest.Behavior{Subject: "1", Name: "Jane", Groups: []string{"", "a\x00", long, "b"}}, atrium.Person{Subject: "1", Name: "Jane", Groups: []string{"b"}}},
		"a name of only the subject":         {ssotest.Behavior{Subject: "1", Name: " \x00 "}, atrium.Person{Subject: "1", Name: "1"}},
		"a name that is too long":            {ssotest.Behavior{Subject: "1", Name: long}, atrium.Person{Subject: "1", Name: strings.Repeat("é", atrium.MaxName)}},
		"the preferred name without another": {ssotest.Behavior{Subject: "1", Edit: func(_, c map[string]any) { c["preferred_username"] = "jane" }}, atrium.Person{Subject: "1", Name: "jane"}},
		"several audiences with a party": {
			ssotest.Behavior{Subject: "1", Name: "Jane", Edit: func(_, c map[string]any) { c["aud"], c["azp"] = []string{"other", ssotest.ClientID}, ssotest.ClientID }},
			atrium.Person{Subject: "1", Name: "Jane"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.b)
			c.want.Issuer = s.fake.Issuer
			got, err := s.finish(s.begin())
			if err != nil || got.Issuer != c.want.Issuer || got.Subject != c.want.Subject || got.Name != c.want.Name || !slices.Equal(got.Groups, c.want.Groups) {
				t.Errorf("signed in as %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestEveryInvalidIDTokenIsRefused(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(_, claims map[string]any) {
		return func(_, claims map[string]any) { claims[name] = value }
	}
	hmacWith := func(key string) func(string) []byte {
		return func(signed string) []byte {
			h := hmac.New(sha256.New, []byte(key))
			h.Write([]byte(signed))
			return h.Sum(nil)
		}
	}
	for name, c := range map[string]struct {
		b    ssotest.Behavior
		text string
	}{
		"another nonce":                {ssotest.Behavior{Edit: claim("nonce", "other")}, "nonce"},
		"no nonce":                     {ssotest.Behavior{Edit: func(_, c map[string]any) { delete(c, "nonce") }}, "nonce"},
		"another audience":             {ssotest.Behavior{Edit: claim("aud", "other")}, "audience"},
		"several audiences, no party":  {ssotest.Behavior{Edit: claim("aud", []string{ssotest.ClientID, "other"})}, "authorized party"},
		"another party":                {ssotest.Behavior{Edit: claim("azp", "other")}, "authorized party"},
		"another issuer":               {ssotest.Behavior{Edit: claim("iss", "https://other.example")}, "different provider"},
		"expired":                      {ssotest.Behavior{Edit: claim("exp", time.Now().Add(-time.Second).Unix())}, "expired"},
		"not valid yet":                {ssotest.Behavior{Edit: claim("nbf", time.Now().Add(time.Hour).Unix())}, "nbf"},
		"issued in the future":         {ssotest.Behavior{Edit: claim("iat", time.Now().Add(time.Hour).Unix())}, "future"},
		"no subject":                   {ssotest.Behavior{Edit: claim("sub", "")}, "subject"},
		"a subject that is too long":   {ssotest.Behavior{Edit: claim("sub", strings.Repeat("x", 256))}, "subject"},
		"a subject with a line break":  {ssotest.Behavior{Edit: claim("sub", "1\n")}, "subject"},
		"another access token":         {ssotest.Behavior{Edit: claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA")}, "access token hash"},
		"an invalid signature":         {ssotest.Behavior{Sign: func(string) []byte { return make([]byte, 256) }}, "signature"},
		"no algorithm":                 {ssotest.Behavior{Edit: func(h, _ map[string]any) { h["alg"] = "none" }, Sign: func(string) []byte { return nil }}, "malformed"},
		"the secret as an HMAC key":    {ssotest.Behavior{Edit: func(h, _ map[string]any) { h["alg"] = "HS256" }, Sign: hmacWith(ssotest.Secret)}, "malformed"},
		"a key that is not there":      {ssotest.Behavior{Edit: func(h, _ map[string]any) { h["kid"] = "2" }}, "signature"},
		"groups of numbers":            {ssotest.Behavior{Edit: claim("groups", []int{1})}, "list of texts"},
		"groups as an object":          {ssotest.Behavior{Edit: claim("groups", map[string]any{"a": true})}, "list of texts"},
		"more groups than are allowed": {ssotest.Behavior{Edit: claim("groups", make([]string, atrium.MaxGroups+1))}, "1001 groups"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.b)
			_, err := s.finish(s.begin())
			refused(t, err, sso.Invalid, c.text)
		})
	}
}

func TestASignInIsBoundToItsFlow(t *testing.T) {
	t.Parallel()
	s := newSite(t, ssotest.Behavior{})
	flow, query := s.begin()
	other, _ := s.begin()
	_, err := s.finish(other, query)
	refused(t, err, sso.Stale, "state")
	_, err = s.finish(sso.Flow{}, query)
	refused(t, err, sso.Stale, "no sign-in in progress")
	_, err = s.finish(sso.Flow{}, url.Values{"state": {""}, "code": {"x"}})
	refused(t, err, sso.Stale, "no sign-in in progress")
	doubled := url.Values{"state": {flow.State, flow.State}, "code": query["code"], "iss": query["iss"]}
	_, err = s.finish(flow, doubled)
	refused(t, err, sso.Stale, "state")
	for _, mixed := range []sso.Flow{ // a code of another flow with the state of this one
		{State: flow.State, Nonce: flow.Nonce, Verifier: other.Verifier, Ends: flow.Ends},
		{State: flow.State, Nonce: other.Nonce, Verifier: flow.Verifier, Ends: flow.Ends},
	} {
		again, query := s.begin()
		mixed.State = again.State
		_, err = s.finish(mixed, query)
		refused(t, err, sso.Invalid, "")
	}
	s.step(sso.FlowLife)
	_, err = s.finish(flow, query)
	refused(t, err, sso.Stale, "expired")
}

func TestACodeSignsInOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, ssotest.Behavior{})
	flow, query := s.begin()
	if _, err := s.finish(flow, query); err != nil {
		t.Fatal(err)
	}
	_, err := s.finish(flow, query)
	refused(t, err, sso.Invalid, "invalid_grant")
}

func TestInvalidResponsesAreRefused(t *testing.T) {
	t.Parallel()
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"x","token_type":"Bearer","id_token":"`+strings.Repeat("a", 2<<20)+`"}`)
	}
	set := func(name string, values ...string) func(url.Values) {
		return func(q url.Values) { q[name] = values }
	}
	for name, c := range map[string]struct {
		b      ssotest.Behavior
		reason sso.Reason
		text   string
	}{
		"another issuer":             {ssotest.Behavior{Response: set("iss", "https://other.example")}, sso.Invalid, "other.example"},
		"no issuer":                  {ssotest.Behavior{Response: func(q url.Values) { q.Del("iss") }}, sso.Invalid, "issuer"},
		"no code":                    {ssotest.Behavior{Response: func(q url.Values) { q.Del("code") }}, sso.Invalid, "no code"},
		"two codes":                  {ssotest.Behavior{Response: set("code", "a", "b")}, sso.Invalid, "no code"},
		"a code that is too long":    {ssotest.Behavior{Response: set("code", strings.Repeat("a", 5000))}, sso.Invalid, "no code"},
		"the person refuses":         {ssotest.Behavior{Response: set("error", "access_denied")}, sso.Denied, "access_denied"},
		"an invalid scope":           {ssotest.Behavior{Response: set("error", "invalid_scope")}, sso.Invalid, "invalid_scope"},
		"the provider is overloaded": {ssotest.Behavior{Response: set("error", "temporarily_unavailable")}, sso.Unavailable, "temporarily"},
		"hostile text":               {ssotest.Behavior{Response: set("error", "x\n\x1b[31m"+strings.Repeat("<b>", 1000))}, sso.Invalid, "<b>"},
		"an error of the endpoint":   {ssotest.Behavior{Token: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }}, sso.Unavailable, "status 500"},
		"no ID token": {ssotest.Behavior{Token: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "access_token=x&token_type=bearer")
		}}, sso.Invalid, "sent none"},
		"a redirect": {ssotest.Behavior{Token: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/keys", http.StatusTemporaryRedirect)
		}}, sso.Invalid, "status 307"},
		"too many bytes of tokens":    {ssotest.Behavior{Token: huge}, sso.Invalid, ""},
		"too many bytes of userinfo":  {ssotest.Behavior{Subject: "1", UserInfo: huge}, sso.Invalid, "larger than 1 MiB"},
		"userinfo of another subject": {ssotest.Behavior{Subject: "1", UserInfo: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"sub":"2","groups":["a"]}`) }}, sso.Invalid, "another subject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.b)
			_, err := s.finish(s.begin())
			refused(t, err, c.reason, c.text)
		})
	}
}

func TestAProviderThatStopsSendingIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newSite(t, ssotest.Behavior{})
	flow, query := s.begin()
	ctx, cancel := context.WithCancel(t.Context())
	s.fake.Set(func(b *ssotest.Behavior) {
		b.Token = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":`)
			_ = http.NewResponseController(w).Flush()
			time.AfterFunc(10*time.Millisecond, cancel) // as if the time were up
			<-r.Context().Done()
		}
	})
	_, err := s.provider.Finish(ctx, client, flow, query)
	refused(t, err, sso.Unavailable, "token endpoint")
}

func TestAnInvalidProviderIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		member string
		value  any
		text   string
	}{
		"another issuer":               {"issuer", "https://other.example", "did not match"},
		"http on another machine":      {"token_endpoint", "http://192.0.2.1/token", "not an https URL"},
		"a file":                       {"jwks_uri", "file:///etc/passwd", "not an https URL"},
		"no authorization":             {"authorization_endpoint", "", "not an https URL"},
		"a password in a URL":          {"userinfo_endpoint", "https://a:b@c.example", "not an https URL"},
		"no way to authenticate":       {"token_endpoint_auth_methods_supported", []string{"private_key_jwt"}, "client_secret_basic"},
		"PKCE with plain text":         {"code_challenge_methods_supported", []string{"plain"}, "S256"},
		"a document of the wrong type": {"token_endpoint_auth_methods_supported", 1, "discovery"},
		"a document that is too large": {"x", strings.Repeat("x", 2<<20), "read response body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, ssotest.Behavior{Discovery: func(m map[string]any) { m[c.member] = c.value }})
			_, _, err := s.provider.Begin(t.Context())
			refused(t, err, sso.Unavailable, c.text)
			refused(t, s.provider.Check(t.Context()), sso.Unavailable, c.text)
		})
	}
}

func TestAProviderThatIsAwayIsAskedSeldom(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/openid-configuration"
	s := newSite(t, ssotest.Behavior{Away: true, Edit: func(_, c map[string]any) { c["exp"] = time.Now().Add(24 * time.Hour).Unix() }})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, _, err := s.provider.Begin(t.Context())
			refused(t, err, sso.Unavailable, "502")
		})
	}
	all.Wait()
	if n := s.fake.Requests(path); n > 2 { // 1, unless a second passes
		t.Errorf("%d requests within the first pause", n)
	}
	for range 10 {
		s.step(time.Minute)
		_, _, _ = s.provider.Begin(t.Context())
	}
	before := s.fake.Requests(path)
	s.step(29 * time.Second)
	_, _, _ = s.provider.Begin(t.Context())
	if n := s.fake.Requests(path); n != before {
		t.Error("the provider was asked during the pause")
	}
	s.step(2 * time.Second)
	s.fake.Set(func(b *ssotest.Behavior) { b.Away = false })
	if _, err := s.finish(s.begin()); err != nil {
		t.Errorf("the provider is back: %v", err)
	}
	before = s.fake.Requests(path)
	if _, err := s.finish(s.begin()); err != nil || s.fake.Requests(path) != before {
		t.Errorf("a known provider was asked again: %v", err)
	}
	s.fake.Set(func(b *ssotest.Behavior) { b.Away = true })
	s.step(2 * time.Hour)
	if _, _, err := s.provider.Begin(t.Context()); err != nil {
		t.Errorf("a provider that was known before: %v", err)
	}
}

func TestASealOpensOnlyForItsPurposeAndProvider(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	seal, err := sso.NewSeal(key, "https://id.example", "atrium")
	if err != nil {
		t.Fatal(err)
	}
	flow := sso.Flow{State: "state", Nonce: "nonce", Verifier: "verifier", Ends: atrium.At(time.Now())}
	text, err := seal.Close("flow", flow)
	if err != nil || strings.Contains(text, "verifier") {
		t.Fatal(text, err)
	}
	var got sso.Flow
	if !seal.Open("flow", text, &got) || got != flow {
		t.Errorf("opened %+v", got)
	}
	others := map[string]*sso.Seal{}
	for name, c := range map[string][3]string{
		"key": {"1123456789abcdef0123456789abcdef", "https://id.example", "atrium"}, "issuer": {string(key), "https://other.example", "atrium"}, "client": {string(key), "https://id.example", "other"},
	} {
		if others[name], err = sso.NewSeal([]byte(c[0]), c[1], c[2]); err != nil {
			t.Fatal(err)
		}
	}
	for name, other := range others {
		if other.Open("flow", text, &got) {
			t.Errorf("it opens with another %s", name)
		}
	}
	if seal.Open("choice", text, &got) {
		t.Error("it opens for another purpose")
	}
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		if seal.Open("flow", string(changed), &got) {
			t.Fatalf("it opens with a change at %d", i)
		}
	}
	for _, text := range []string{"", "a", text[:len(text)-2], text + "AA", "%"} {
		if seal.Open("flow", text, &got) {
			t.Errorf("%q opens", text)
		}
	}
}
