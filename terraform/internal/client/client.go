// Package client sends requests to the management API of Atrium. It repeats those that are safe to repeat.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// The limits of a request.
const (
	maxRetries      = 5 // with waits of 0.5, 1, 2, 4 and 8 seconds, unless Retry-After says otherwise
	minWait         = 500 * time.Millisecond
	maxWait         = 8 * time.Second
	attemptTimeout  = time.Minute
	maxResponseBody = 16 << 20
)

// A Client calls the management API of one server with one key.
type Client struct {
	server    *url.URL
	key       string
	userAgent string
	http      *retryablehttp.Client
}

// New returns a client of the server with the given base URL, such as https://atrium.example.com.
func New(server, key, userAgent string) (*Client, error) {
	base, err := ParseServer(server)
	if err != nil {
		return nil, err
	}
	h := retryablehttp.NewClient()
	h.Logger = nil
	h.RetryMax, h.RetryWaitMin, h.RetryWaitMax = maxRetries, minWait, maxWait
	h.ErrorHandler = retryablehttp.PassthroughErrorHandler
	h.CheckRetry = checkRetry
	h.HTTPClient.Timeout = attemptTimeout
	// A redirect could send the key to another server.
	h.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.RequestLogHook = func(_ retryablehttp.Logger, r *http.Request, attempt int) {
		tflog.Debug(r.Context(), "request to Atrium", map[string]any{"method": r.Method, "path": r.URL.Path, "retry": attempt})
	}
	h.ResponseLogHook = func(_ retryablehttp.Logger, r *http.Response) {
		tflog.Debug(r.Request.Context(), "response of Atrium", map[string]any{"status": r.StatusCode, "request_id": r.Header.Get("X-Request-Id")})
	}
	return &Client{server: base, key: key, userAgent: userAgent, http: h}, nil
}

// ParseServer parses the base URL of a server.
func ParseServer(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("must be a URL such as https://atrium.example.com")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// A Request is a request to an operation.
type Request struct {
	Method         string
	Path           string // after /manage/v0
	Query          url.Values
	Tenant         string // "" for the tenant of the key
	Body           any    // nil for none
	IfMatch        string
	IdempotencyKey string

	// Once means that the request must not be repeated if it could have been processed. A request that the server
	// has refused with a 429 is repeated even so.
	Once bool
}

// A Response is a successful response.
type Response struct {
	Status   int
	Body     []byte
	ETag     string
	Replayed bool // the server had processed the request before
}

// Do sends a request. The error is a *Problem if the server has refused it.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	u := *c.server
	u.Path += "/manage/v0" + r.Path
	u.RawQuery = r.Query.Encode()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return Response{}, fmt.Errorf("encode the request: %w", err)
		}
	}
	ctx = context.WithValue(ctx, onceKey{}, r.Once)
	req, err := retryablehttp.NewRequestWithContext(ctx, r.Method, u.String(), body)
	if err != nil {
		return Response{}, err
	}
	for name, value := range map[string]string{
		"x-api-key": c.key, "User-Agent": c.userAgent, "Accept": "application/json, application/problem+json",
		"Atrium-Tenant": r.Tenant, "If-Match": r.IfMatch, "Idempotency-Key": r.IdempotencyKey,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Response{}, fmt.Errorf("the server %s cannot be reached: %w", c.server, err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBody))
	if err != nil {
		return Response{}, fmt.Errorf("read the response: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return Response{}, problemOf(resp, content)
	}
	return Response{resp.StatusCode, content, resp.Header.Get("ETag"), resp.Header.Get("Idempotency-Replayed") == "true"}, nil
}

// Get reads a resource into out, and returns its entity tag.
func (c *Client) Get(ctx context.Context, tenant, path string, query url.Values, out any) (etag string, err error) {
	r, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: query, Tenant: tenant})
	if err != nil {
		return "", err
	}
	return r.ETag, r.Decode(out)
}

// Decode decodes the body of a response.
func (r Response) Decode(out any) error {
	if err := json.Unmarshal(r.Body, out); err != nil {
		return fmt.Errorf("the response is not from the management API of Atrium: %w", err)
	}
	return nil
}

type onceKey struct{}

// checkRetry reports whether to repeat a request after a response or an error.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	once, _ := ctx.Value(onceKey{}).(bool)
	if once && !neverProcessed(resp, err) {
		return false, ctx.Err()
	}
	return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
}

// neverProcessed reports whether a request has certainly had no effect: it was not sent, or the server has refused it.
func neverProcessed(resp *http.Response, err error) bool {
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial"
	}
	return resp.StatusCode == http.StatusTooManyRequests
}

// A Problem is an error response.
type Problem struct {
	Status    int     `json:"status"`
	Code      string  `json:"code"`
	Title     string  `json:"title"`
	Detail    string  `json:"detail"`
	RequestID string  `json:"requestId"`
	Faults    []Fault `json:"errors"`
}

// A Fault is one fault of an invalid request. One of Pointer, Parameter and Header says where it is.
type Fault struct {
	Pointer   *string `json:"pointer"`
	Parameter string  `json:"parameter"`
	Header    string  `json:"header"`
	Detail    string  `json:"detail"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s (%d %s)", p.Detail, p.Status, p.Code)
}

// HasStatus reports whether an error is a response with the status.
func HasStatus(err error, status int) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == status
}

// problemOf returns the problem of a response.
func problemOf(resp *http.Response, content []byte) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "application/problem+json" && json.Unmarshal(content, p) == nil && p.Status == resp.StatusCode && p.Code != "" {
		return p
	}
	return &Problem{
		Status: resp.StatusCode, Title: "Unexpected response", RequestID: resp.Header.Get("X-Request-Id"),
		Detail: fmt.Sprintf("The server responded with %s and the content type %q, which Atrium does not send. Check that the URL is that of an Atrium server, and proxies in front of it.",
			resp.Status, kind),
	}
}
