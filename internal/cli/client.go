package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"

	"github.com/go-json-experiment/json"

	"atrium"
)

// apiPrefix is the common prefix of the paths of all operations.
const apiPrefix = "/manage/v0"

// A client calls operations of the management API.
type client struct {
	http              http.Client
	base, key, tenant string
	served            string // where a server with the settings of the client serves; "" if the client uses a server
}

// newClient returns a client that sends requests to base through the transport. key and tenant may
// be empty. The client does not follow redirects: they would send the key to another server.
func newClient(transport http.RoundTripper, base, key, tenant string) *client {
	return &client{
		http: http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		base: base, key: key, tenant: tenant,
	}
}

// serverURL returns the URL of the server, or "" if the client works on a database.
func (c *client) serverURL() string {
	if c.base == inProcessURL {
		return ""
	}
	return c.base
}

// traceparent matches valid values of TRACEPARENT, which names the trace that the command is part
// of (W3C Trace Context, section 3.2, version 00).
var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// A call is a request for one operation.
type call struct {
	method string
	path   string // escaped, relative to apiPrefix
	query  url.Values
	header http.Header
	body   io.Reader // may be nil

	partial []string // members of the body whose own members are added to those of the resource
}

// getCall returns a call that reads a resource.
func getCall(path string) call { return call{method: http.MethodGet, path: path} }

// do sends a call and returns the response, whose body the caller closes. A status other than 2xx
// is an error: an *atrium.Error if the response is a problem document.
func (c *client) do(ctx context.Context, call call) (*http.Response, error) {
	address := c.base + apiPrefix + call.path
	if len(call.query) > 0 {
		address += "?" + call.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, call.method, address, call.body)
	if err != nil {
		return nil, err
	}
	for name, values := range call.header {
		r.Header[name] = values
	}
	if call.body != nil && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("X-Api-Key", c.key)
	}
	if c.tenant != "" {
		r.Header.Set("Atrium-Tenant", c.tenant)
	}
	if parent := os.Getenv("TRACEPARENT"); traceparent.MatchString(parent) {
		r.Header.Set("Traceparent", parent)
	}
	response, err := c.http.Do(r)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return nil, fmt.Errorf("connect to server %s: %w", c.base, dialError(dial.Err))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return nil, fmt.Errorf("connect to server %s: certificate signed by unknown authority: if the certificate is your own, "+
			"set SSL_CERT_FILE to it", c.base)
	}
	if requestErr, ok := errors.AsType[*url.Error](err); ok && c.base == inProcessURL {
		return nil, requestErr.Err
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = response.Body.Close() }()
		return nil, responseError(response)
	}
	return response, nil
}

// dialError returns the cause of a failed dial, without the name of the system call.
func dialError(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	return err
}

// requireOperatorKey returns an error unless the key is an operator key. With the key of a tenant,
// the server would use that tenant although --operator was given.
func (c *client) requireOperatorKey(ctx context.Context) error {
	_, err := c.keyTenant(ctx)
	switch e, ok := errors.AsType[*atrium.Error](err); {
	case err == nil:
		return errors.New("--operator requires an operator key: this key belongs to a tenant")
	case ok && e.Code == atrium.CodeInvalidRequest: // an operator key has no tenant
		return nil
	}
	return err
}

// keyTenant returns the tenant that requests of the client are for: that of the key, or the one
// that the client names.
func (c *client) keyTenant(ctx context.Context) (atrium.TenantID, error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: "/tenant"})
	if err != nil {
		return "", err
	}
	var own struct {
		TenantID atrium.TenantID `json:"tenantId"`
	}
	if err := json.Unmarshal(response.body, &own); err != nil || own.TenantID == "" {
		return "", fmt.Errorf("read the tenant of the key: %w", cmp.Or(err, errors.New("no tenantId in the response")))
	}
	return own.TenantID, nil
}

// A bufferedResponse is a response whose body was read completely.
type bufferedResponse struct {
	header http.Header
	body   []byte
}

// maxResponse is the size of the largest response that is read into memory, in bytes. The API sends
// less: a page of a list ends after the item that reaches 1 MiB, and an item is at most about as large
// as a request body, 64 MiB.
const maxResponse = 128 << 20

// fetch sends a call and reads the whole response.
func (c *client) fetch(ctx context.Context, call call) (bufferedResponse, error) {
	response, err := c.do(ctx, call)
	if err != nil {
		return bufferedResponse{}, err
	}
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(response.Body, maxResponse+1)); err != nil {
		return bufferedResponse{}, fmt.Errorf("read response: %w", err)
	}
	if b.Len() > maxResponse {
		return bufferedResponse{}, fmt.Errorf("read response: larger than %s", mebibytes(maxResponse))
	}
	return bufferedResponse{response.Header, b.Bytes()}, nil
}

// maxProblem is the maximum number of bytes read from an error response.
const maxProblem = 1 << 20

// A problem is a problem document of the API.
type problem struct {
	Detail    string      `json:"detail"`
	Code      atrium.Code `json:"code"`
	RequestID string      `json:"requestId"`
	Errors    []struct {
		Pointer   *string `json:"pointer"`
		Parameter *string `json:"parameter"`
		Header    *string `json:"header"`
		Detail    string  `json:"detail"`
	} `json:"errors"`
}

// responseError returns the error that an error response describes.
func responseError(response *http.Response) error {
	var p problem
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	b, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err == nil && media == "application/problem+json" {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Code == "" { // not from the API, but from a proxy for example
		return errors.New("server returned " + atrium.Printable(response.Status))
	}
	// a line break could imitate a message of this program
	e := &atrium.Error{Code: p.Code, Detail: atrium.Printable(p.Detail), Faults: p.faults()}
	if response.StatusCode >= http.StatusInternalServerError {
		e.Detail += " (request ID " + atrium.Printable(p.RequestID) + ")"
	}
	return e
}

func (p *problem) faults() (faults []atrium.Fault) {
	for _, f := range p.Errors {
		switch {
		case f.Pointer != nil:
			faults = append(faults, atrium.Fault{In: atrium.InBody, Where: *f.Pointer, Detail: f.Detail})
		case f.Parameter != nil:
			faults = append(faults, atrium.Fault{In: atrium.InQuery, Where: *f.Parameter, Detail: f.Detail})
		case f.Header != nil:
			faults = append(faults, atrium.Fault{In: atrium.InHeader, Where: *f.Header, Detail: f.Detail})
		}
	}
	return faults
}
