// Package sso signs people in through an identity provider (OpenID Connect Core 1.0): the authorization code flow
// with PKCE (RFC 7636), a state and a nonce. It is a client of the provider and nothing else: it knows neither
// users nor sessions.
//
// A provider that does not respond stops nothing else: it is asked for when someone signs in. Its responses are
// bounded in size and time, its redirects are not followed, and none of its texts reaches a page.
package sso

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"atrium"
	"atrium/internal/limit"
)

// FlowLife is how long a person may take to sign in at the provider.
const FlowLife = 10 * time.Minute

// Limits of what a sign-in asks of the provider.
const (
	beginTimeout  = 10 * time.Second
	finishTimeout = 20 * time.Second
	maxExchanges  = 16 // at once, in this process
	ofClient      = 4  // of one client address
	maxCode       = 4 << 10
	maxState      = 100
)

// A Config has the settings of a Provider.
type Config struct {
	Issuer       string // an exact issuer; see atrium.CheckIssuer
	ClientID     string
	ClientSecret func() (string, error) // called for each sign-in, so that a new secret needs no restart
	RedirectURL  string                 // of the callback
	Scopes       []string               // with openid
	GroupsClaim  string                 // has the groups of a person
	Now          func() time.Time
}

// A Provider is an identity provider. It is safe for concurrent use.
type Provider struct {
	config    Config
	client    *http.Client
	exchanges *limit.Semaphore[netip.Addr]

	keys    *atomic.Pointer[string] // their URL; nil before the first discovery
	looking sync.Mutex              // held during a discovery: others wait for its result
	mu      sync.Mutex
	known   *metadata // guarded by mu; nil before the first discovery
	failure error     // guarded by mu; of the last discovery; nil if it succeeded
	failed  int       // guarded by mu; discoveries in a row that failed
	retry   time.Time // guarded by mu; no discovery before
}

// New returns a Provider. It sends nothing.
func New(c Config) *Provider {
	keys := &atomic.Pointer[string]{}
	return &Provider{config: c, keys: keys, client: newClient(keys), exchanges: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{
		Slots: maxExchanges, Each: ofClient, Waiting: maxExchanges, Timeout: beginTimeout,
	})}
}

// Issuer returns the issuer.
func (p *Provider) Issuer() string { return p.config.Issuer }

// A Flow is a sign-in in progress. Only the browser that began it has it.
type Flow struct {
	State    string      `json:"s"`
	Nonce    string      `json:"n"`
	Verifier string      `json:"v"` // of PKCE
	Ends     atrium.Time `json:"e"`
}

// Begin returns a new flow and the URL of the provider that the browser continues at. It returns an Error.
func (p *Provider) Begin(ctx context.Context) (f Flow, to string, err error) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	m, err := p.discover(ctx)
	if err != nil {
		return f, "", &Error{Unavailable, err}
	}
	f = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Ends: atrium.At(p.config.Now().Add(FlowLife))}
	return f, m.oauth.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Finish returns the person whom the provider has authenticated. query has the parameters that the browser
// brings from the provider, and from is the address of the client. It returns an Error.
func (p *Provider) Finish(ctx context.Context, from netip.Addr, f Flow, query url.Values) (atrium.Person, error) {
	if err := p.checkFlow(f, query); err != nil {
		return atrium.Person{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := p.exchanges.Acquire(ctx, limit.Network(from)); err != nil {
		return atrium.Person{}, &Error{Unavailable, fmt.Errorf("too many sign-ins at once: %w", err)}
	}
	defer p.exchanges.Release(limit.Network(from))
	m, err := p.discover(ctx)
	if err != nil {
		return atrium.Person{}, &Error{Unavailable, err}
	}
	if err := m.checkResponse(query); err != nil {
		return atrium.Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.exchange(ctx, m, f, query.Get("code"))
	if err != nil {
		return atrium.Person{}, err
	}
	id, err := p.verify(ctx, m, f, tokens)
	if err != nil {
		return atrium.Person{}, &Error{reasonOf(err), fmt.Errorf("ID token: %w", err)}
	}
	return p.person(ctx, m, id, tokens)
}

// Matches reports whether a browser brings the state of the flow. Others, which any site can make it send, must not end the flow.
func (f Flow) Matches(query url.Values) bool {
	states := query["state"]
	return f.State != "" && len(states) == 1 && len(states[0]) <= maxState && subtle.ConstantTimeCompare([]byte(states[0]), []byte(f.State)) == 1
}

// checkFlow compares the state that comes back with that of the flow.
func (p *Provider) checkFlow(f Flow, query url.Values) error {
	switch {
	case f.State == "":
		return &Error{Stale, errors.New("the browser has no sign-in in progress")}
	case f.Ends <= atrium.At(p.config.Now()):
		return &Error{Stale, errors.New("the sign-in in progress has expired")}
	case !f.Matches(query):
		return &Error{Stale, errors.New("the state is not that of the sign-in in progress")}
	}
	return nil
}

// checkResponse checks the parameters that the provider sends through the browser (RFC 6749, section 4.1.2).
func (m *metadata) checkResponse(query url.Values) error {
	issuers := query["iss"] // RFC 9207
	if len(issuers) > 1 || len(issuers) == 1 && issuers[0] != m.issuer || len(issuers) == 0 && m.sendsIssuer {
		return &Error{Invalid, fmt.Errorf("the response is of the issuer %q", shorten(strings.Join(issuers, " ")))}
	}
	if code := query.Get("error"); code != "" {
		err := fmt.Errorf("the provider responded with the error %q: %q", shorten(code), shorten(query.Get("error_description")))
		switch code {
		case "access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required":
			return &Error{Denied, err}
		case "server_error", "temporarily_unavailable":
			return &Error{Unavailable, err}
		}
		return &Error{Invalid, err}
	}
	if code := query["code"]; len(code) != 1 || code[0] == "" || len(code[0]) > maxCode {
		return &Error{Invalid, errors.New("the response has no code")}
	}
	return nil
}

// exchange trades the code for tokens.
func (p *Provider) exchange(ctx context.Context, m *metadata, f Flow, code string) (*oauth2.Token, error) {
	secret, err := p.config.ClientSecret()
	if err != nil {
		return nil, &Error{Unavailable, fmt.Errorf("read the client secret: %w", err)}
	}
	c := m.oauth
	c.ClientSecret = secret
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	tokens, err := c.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text may have the body
		err = fmt.Errorf("the token endpoint responded with status %d, error %q", e.Response.StatusCode, shorten(e.ErrorCode))
		if e.Response.StatusCode >= http.StatusInternalServerError {
			return nil, &Error{Unavailable, err}
		}
		return nil, &Error{Invalid, err}
	}
	if err != nil {
		reason := reasonOf(err)
		if ctx.Err() != nil { // oauth2 hides why the body could not be read
			reason = Unavailable
		}
		return nil, &Error{reason, fmt.Errorf("token endpoint: %w", err)}
	}
	return tokens, nil
}

// verify returns the ID token if it is for this client and this flow, and has not expired (OpenID Connect Core,
// section 3.1.3.7).
func (p *Provider) verify(ctx context.Context, m *metadata, f Flow, tokens *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the token endpoint sent none")
	}
	id, err := m.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	var claims struct {
		Party *string `json:"azp"`
	}
	if err := id.Claims(&claims); err != nil {
		return nil, err
	}
	others := func(audience string) bool { return audience != p.config.ClientID }
	now := p.config.Now()
	switch {
	case claims.Party != nil && *claims.Party != p.config.ClientID:
		return nil, fmt.Errorf("the authorized party is %q", shorten(*claims.Party))
	case claims.Party == nil && slices.ContainsFunc(id.Audience, others):
		return nil, errors.New("it is for other clients too, and names no authorized party")
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1:
		return nil, errors.New("the nonce is not that of the sign-in in progress")
	case id.IssuedAt.After(now.Add(clockTolerance)):
		return nil, fmt.Errorf("it was issued at %s, in the future: check the clocks", id.IssuedAt.UTC().Format(time.RFC3339))
	case id.Subject == "" || len(id.Subject) > atrium.MaxSubject || strings.ContainsFunc(id.Subject, unicode.IsControl):
		return nil, errors.New("the subject is empty, too long or has control characters")
	}
	if id.AccessTokenHash != "" {
		return id, id.VerifyAccessToken(tokens.AccessToken)
	}
	return id, nil
}

// clockTolerance is how far the clock of the provider may be ahead. go-oidc has the same for the claim nbf, and none for exp.
const clockTolerance = 5 * time.Minute
