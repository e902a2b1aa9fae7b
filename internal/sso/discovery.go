package sso

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"
)

// Limits of a request to the provider.
const (
	requestTimeout   = 10 * time.Second
	maxResponse      = 1 << 20 // bytes of a body
	maxHeaders       = 64 << 10
	metadataLife     = time.Hour // then a sign-in asks for them again
	firstRetry       = time.Second
	longestRetry     = 30 * time.Second
	maxIdle          = 4
	idleConnTimeout  = time.Minute
	handshakeTimeout = 5 * time.Second
)

// newClient returns the client for all requests to the provider. It uses the proxy that the environment names.
func newClient(keys *atomic.Pointer[string]) *http.Client {
	return &http.Client{
		Timeout: requestTimeout,
		Transport: bounded{keys, &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: handshakeTimeout}).DialContext,
			TLSHandshakeTimeout: handshakeTimeout, ResponseHeaderTimeout: requestTimeout, MaxResponseHeaderBytes: maxHeaders,
			MaxIdleConns: maxIdle, MaxConnsPerHost: maxExchanges + 2, IdleConnTimeout: idleConnTimeout, ForceAttemptHTTP2: true,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded limits the size of responses, and of the keys in them.
type bounded struct {
	keys *atomic.Pointer[string] // the URL of the keys
	http.RoundTripper
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{response.Body, maxResponse}
	if keys := b.keys.Load(); keys == nil || r.URL.String() != *keys {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	body, err = usable(body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, err
}

// maxKey is the maximum size of an RSA key in bits, as in crypto/tls. A signature with a larger one could take a minute of
// processor time to verify.
const maxKey = 8192

// maxKeys is how many keys of a provider are used. A token that does not name its key is compared with all of them.
const maxKeys = 32

// usable returns a set of keys (RFC 7517, section 5) without RSA keys that are too large or whose exponent is, and with
// at most maxKeys.
func usable(body []byte) ([]byte, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the keys are not valid JSON")
	}
	set.Keys = slices.DeleteFunc(set.Keys, func(text jsontext.Value) bool {
		var key struct {
			N string `json:"n"` // base64url of the modulus (RFC 7518, section 6.3.1.1)
			E string `json:"e"` // base64url of the exponent; usually 65537, in three bytes
		}
		return json.Unmarshal(text, &key) != nil || base64.RawURLEncoding.DecodedLen(len(key.N)) > maxKey/8 || base64.RawURLEncoding.DecodedLen(len(key.E)) > 3
	})
	set.Keys = set.Keys[:min(len(set.Keys), maxKeys)]
	return json.Marshal(set)
}

type boundedBody struct {
	io.ReadCloser
	left int
}

var errTooLarge = errors.New("the response is larger than 1 MiB")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// metadata is what the provider says about itself.
type metadata struct {
	issuer      string
	provider    *oidc.Provider
	verifier    *oidc.IDTokenVerifier
	oauth       oauth2.Config // without the secret
	sendsIssuer bool          // responses name the issuer (RFC 9207)
	endSession  *url.URL      // ends the session of a browser at the provider; nil if it has no such address
	at          time.Time
}

// discover returns the metadata of the provider. It asks for them at most once at a time, at most once an hour,
// and after a failure not before a pause. While a known provider does not respond, what it said before counts.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	if m, err := p.discovered(); m != nil || err != nil {
		return m, err
	}
	p.looking.Lock() // bounded by the timeout of the one that holds it
	defer p.looking.Unlock()
	if m, err := p.discovered(); m != nil || err != nil {
		return m, err
	}
	m, err := p.lookUp(context.WithoutCancel(ctx)) // others wait for the result; the client has a timeout
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.known, p.failure, p.failed = m, nil, 0
		return m, nil
	}
	p.failure, p.retry = err, p.config.Now().Add(min(firstRetry<<min(p.failed, 10), longestRetry))
	p.failed++
	if p.known != nil {
		return p.known, nil
	}
	return nil, err
}

// discovered returns the known metadata, or the error of the last discovery during the pause after it. It
// returns neither if it is time for a discovery.
func (p *Provider) discovered() (*metadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	pausing := p.failure != nil && now.Before(p.retry)
	switch {
	case p.known != nil && (pausing || now.Sub(p.known.at) < metadataLife):
		return p.known, nil
	case pausing:
		return nil, p.failure
	}
	return nil, nil
}

// lookUp asks the provider for its metadata.
func (p *Provider) lookUp(ctx context.Context) (*metadata, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	var claims struct {
		Keys        string   `json:"jwks_uri"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		Challenges  []string `json:"code_challenge_methods_supported"`
		SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
		EndSession  string   `json:"end_session_endpoint"`
	}
	if err := found.Claims(&claims); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	endpoint := found.Endpoint()
	for name, address := range map[string]string{
		"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": claims.Keys, "userinfo_endpoint": found.UserInfoEndpoint(),
	} {
		if optional := name == "userinfo_endpoint" && address == ""; !optional && !p.mayUse(address) {
			return nil, fmt.Errorf("discovery: %s is %q, which is not an https URL", name, shorten(address))
		}
	}
	switch {
	case len(claims.Methods) == 0 || slices.Contains(claims.Methods, "client_secret_basic"):
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	case slices.Contains(claims.Methods, "client_secret_post"):
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	default:
		return nil, errors.New("discovery: the provider supports neither client_secret_basic nor client_secret_post")
	}
	if len(claims.Challenges) > 0 && !slices.Contains(claims.Challenges, "S256") {
		return nil, errors.New("discovery: the provider does not support PKCE with S256")
	}
	p.keys.Store(&claims.Keys)
	var endSession *url.URL
	if p.mayUse(claims.EndSession) { // people can sign in without it
		endSession, _ = url.Parse(claims.EndSession)
	}
	return &metadata{
		issuer: p.config.Issuer, provider: found, sendsIssuer: claims.SendsIssuer, endSession: endSession, at: p.config.Now(),
		verifier: found.Verifier(&oidc.Config{ClientID: p.config.ClientID, Now: p.config.Now}),
		oauth:    oauth2.Config{ClientID: p.config.ClientID, Endpoint: endpoint, RedirectURL: p.config.RedirectURL, Scopes: p.config.Scopes},
	}, nil
}

// mayUse reports whether an address is an https URL, or an http URL of this machine if the issuer is one too.
func (p *Provider) mayUse(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(u) && !isHTTPS(p.config.Issuer)
}

func isHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https"
}

// Loopback reports whether a URL is of this machine.
func Loopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// Check asks the provider for its metadata and its keys, and returns an error unless people can sign in. It is
// for diagnosis: it does not keep the result.
func (p *Provider) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	m, err := p.lookUp(ctx)
	if err != nil {
		return &Error{Unavailable, err}
	}
	var claims struct {
		Keys string `json:"jwks_uri"`
	}
	if err := m.provider.Claims(&claims); err != nil {
		return &Error{Invalid, err}
	}
	if err := p.checkKeys(ctx, claims.Keys); err != nil {
		return &Error{Unavailable, fmt.Errorf("keys: %w", err)}
	}
	return nil
}

// checkKeys fetches the keys of the provider.
func (p *Provider) checkKeys(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
