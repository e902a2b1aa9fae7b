package cli

import (
	"bytes"
	"cmp"
	"context"
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

// apiPrefix is what the paths of all operations begin with.
const apiPrefix = "/manage/v0"

// A client asks for operations of the management API.
type client struct {
	http              http.Client
	base, key, tenant string
}

// newClient returns a client of the API behind the transport. key and tenant may be
// "". A redirect is not followed: it would lead the key to where nobody sent it.
func newClient(transport http.RoundTripper, base, key, tenant string) *client {
	return &client{
		http: http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		base: base, key: key, tenant: tenant,
	}
}

// traceparent is the form of the variable by which whoever runs the command names the
// trace that it is part of (W3C Trace Context, section 3.2, version 00).
var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// A call is a request for one operation.
type call struct {
	method string
	path   string // escaped, behind apiPrefix
	query  url.Values
	header http.Header
	body   io.Reader // nil for none
}

// do sends a call and returns the answer, whose body the caller closes. What is not a
// success is an error: an *atrium.Error if the API says so.
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
		return nil, fmt.Errorf("connect to server %s: %w", c.base, reason(dial.Err))
	}
	if asked, ok := errors.AsType[*url.Error](err); ok && c.base == inThisProcess {
		return nil, asked.Err
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = response.Body.Close() }()
		return nil, refusal(response)
	}
	return response, nil
}

// reason returns why there is no connection, without the name of the system call.
func reason(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	return err
}

// mustBeOperators returns an error unless the key is an operator's. A server takes one
// of a tenant for that tenant wherever --operator stands for the chain of no tenant.
func (c *client) mustBeOperators(ctx context.Context) error {
	_, err := c.ownTenant(ctx)
	switch e, ok := errors.AsType[*atrium.Error](err); {
	case err == nil:
		return errors.New("--operator requires an operator key: this key belongs to a tenant")
	case ok && e.Code == atrium.CodeInvalidRequest: // there is no tenant that would be its own
		return nil
	}
	return err
}

// ownTenant returns the tenant that the key is for, or that the client names.
func (c *client) ownTenant(ctx context.Context) (atrium.TenantID, error) {
	a, err := c.ask(ctx, call{method: http.MethodGet, path: "/tenant"})
	if err != nil {
		return "", err
	}
	var own struct {
		TenantID atrium.TenantID `json:"tenantId"`
	}
	if err := json.Unmarshal(a.body, &own); err != nil || own.TenantID == "" {
		return "", fmt.Errorf("read the tenant of the key: %w", cmp.Or(err, errors.New("no tenantId in the response")))
	}
	return own.TenantID, nil
}

// An answer is one that was read to its end.
type answer struct {
	header http.Header
	body   []byte
}

// maxResponse is the size of the largest response that is read into memory, in bytes. The
// API sends far less: a page of a list ends after the item that exceeds 4 MiB, and an item is
// at most as large as a request body, 64 MiB.
const maxResponse = 128 << 20

// ask sends a call and reads the whole answer.
func (c *client) ask(ctx context.Context, call call) (answer, error) {
	response, err := c.do(ctx, call)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(response.Body, maxResponse+1)); err != nil {
		return answer{}, fmt.Errorf("read response: %w", err)
	}
	if b.Len() > maxResponse {
		return answer{}, fmt.Errorf("read response: larger than %s", mebibytes(maxResponse))
	}
	return answer{response.Header, b.Bytes()}, nil
}

// maxProblem is how much of an error's body is read, in bytes.
const maxProblem = 1 << 20

// A problem is an error's body, as the document of the API has it.
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

// refusal returns the error that an answer is.
func refusal(response *http.Response) error {
	var p problem
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	b, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err == nil && media == "application/problem+json" {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Code == "" { // from something between here and there
		return errors.New("server returned " + atrium.Printable(response.Status))
	}
	e := &atrium.Error{Code: p.Code, Detail: atrium.Printable(p.Detail), Faults: p.faults()} // a line break would fake a message of this program
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
