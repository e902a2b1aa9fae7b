package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"atrium"
)

// hang is the maximum duration of a request during any fault. The service documents 20
// seconds.
const hang = 25 * time.Second

// A tenant has keys for both APIs, and a mark that is in all of its data.
type tenant struct {
	id     atrium.TenantID
	mark   string // "mark-" and 12 hexadecimal digits
	key    string // for the external API
	keyID  atrium.KeyID
	manage string // for the management API
}

// A client sends one request after the other, without retries.
type client struct {
	s    *soak
	rng  *rand.Rand
	http *http.Client
	name string
	of   *tenant
	made int // number of names so far
}

func (s *soak) newClient(name string, of *tenant) *client {
	transport := &http.Transport{}
	s.mu.Lock()
	s.transports = append(s.transports, transport)
	c := &client{
		s: s, name: name, of: of, rng: rand.New(rand.NewPCG(s.rng.Uint64(), 0)),
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect") }},
	}
	s.mu.Unlock()
	return c
}

// unique returns a name that this client has not used yet. Clients of other tenants use
// the same names: only the tenant distinguishes them.
func (c *client) unique() string {
	c.made++
	return fmt.Sprintf("%s-%d", c.name, c.made)
}

// A call is a request with its expected statuses; none means any but 5xx.
type call struct {
	op     string // name in the report
	method string
	path   string
	key    string // for the API; "" for none
	header []string
	body   []byte
	want   []int
}

// An response is a complete response, or has status 0.
type response struct {
	status   int
	header   http.Header
	body     []byte
	repeated bool // an earlier attempt may have been executed
}

// with returns the call with an additional header, such as "If-Match: *".
func (q call) with(header string) call {
	q.header = append(slices.Clone(q.header), header)
	return q
}

// failed reports whether the request must be retried.
func (a response) failed() bool { return a.status == 0 || a.status >= 500 }

// decode decodes the body, which must be an object.
func (a response) decode() map[string]any {
	var m map[string]any
	_ = json.Unmarshal(a.body, &m) // nothing, then
	return m
}

func (a response) text(member string) string {
	text, _ := a.decode()[member].(string)
	return text
}

// once sends a request once and checks the response.
func (c *client) once(q call) response {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	before, began := c.s.phases.now(), time.Now()
	a, err := c.send(ctx, q)
	took, quiet := time.Since(began), c.s.phases.quietSince(before)
	t := c.s.tally
	t.answered(q.op, a.status, took, quiet)
	switch {
	case took >= hang:
		t.fault(&t.hangs, "%s took %s", q.op, took)
	case err != nil && quiet:
		t.fault(&t.unexpected, "%s in a quiet phase: %v", q.op, err)
	case err != nil:
		t.refusal()
	case a.status >= 500:
		c.s.judgeRefusal(q, a, quiet)
	case len(q.want) > 0 && !slices.Contains(q.want, a.status):
		t.fault(&t.wrong, "%s of %s: %d %.300s", q.op, c.name, a.status, a.body)
	}
	if other := c.s.foreignMark(a.body, c.of); other != "" {
		t.fault(&t.leaks, "%s of %s shows %s", q.op, c.of.mark, other)
	}
	return a
}

// judgeRefusal checks a 5xx: during a fault, the service or the load balancer may return
// 503 with Retry-After.
func (s *soak) judgeRefusal(q call, a response, quiet bool) {
	allowed := []int{http.StatusServiceUnavailable}
	if s.front != nil {
		allowed = append(allowed, http.StatusBadGateway, http.StatusGatewayTimeout)
	}
	fair := slices.Contains(allowed, a.status) && a.header.Get("Retry-After") != "" && bytes.Contains(a.body, []byte(`"code":"unavailable"`))
	if quiet || !fair {
		s.tally.fault(&s.tally.unexpected, "%s (quiet: %t): %d %.300s", q.op, quiet, a.status, a.body)
		return
	}
	s.tally.refusal()
}

// foreignMark returns the mark of another tenant in a body, or "".
func (s *soak) foreignMark(body []byte, own *tenant) string {
	for rest := body; ; {
		i := bytes.Index(rest, []byte(markPrefix))
		if i < 0 || len(rest) < i+markLen {
			break
		}
		if mark := string(rest[i : i+markLen]); mark != own.mark {
			return mark
		}
		rest = rest[i+markLen:]
	}
	for _, other := range s.tenants {
		if other.mark != own.mark && bytes.Contains(body[:min(len(body), 4096)], []byte(other.id)) {
			return string(other.id)
		}
	}
	return ""
}

// send returns an error without a complete response.
func (c *client) send(ctx context.Context, q call) (a response, err error) {
	r, err := http.NewRequestWithContext(ctx, q.method, c.s.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return response{}, err
	}
	r.GetBody = nil // keeps net/http from retrying
	if q.key != "" {
		r.Header.Set("x-api-key", q.key)
	}
	for _, h := range q.header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return response{}, err
	}
	return response{status: res.StatusCode, header: res.Header, body: body}, nil
}

// sure retries a request until the response is not a 5xx, like a sender that must lose
// nothing. The request has an idempotency key or is idempotent.
func (c *client) sure(q call) response {
	began := time.Now()
	for repeated := false; ; repeated = true {
		a := c.once(q)
		if !a.failed() || !c.again(q.op, began) {
			a.repeated = repeated
			return a
		}
	}
}

// retryLimit is how long a client retries one request: longer than any fault.
const retryLimit = 2 * time.Minute

// again waits briefly, and reports whether to retry a request that was first sent at
// began.
func (c *client) again(op string, began time.Time) bool {
	time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
	if time.Since(began) > retryLimit {
		c.s.tally.fault(&c.s.tally.hangs, "%s failed for %s", op, retryLimit)
		return false
	}
	return !c.s.giveUp()
}

// external and managing return calls.
func (c *client) external(op, method, path string, body any, want ...int) call {
	return call{op: op, method: method, path: path, key: c.of.key, body: encode(body), want: want}
}

func (c *client) managing(op, method, path string, body any, want ...int) call {
	return call{op: "manage: " + op, method: method, path: "/manage/v0" + path, key: c.of.manage, body: encode(body), want: want}
}

// making is managing for a POST that creates something, with an idempotency key.
func (c *client) making(op, path string, body any) call {
	return c.managing(op, http.MethodPost, path, body, http.StatusCreated).with("Idempotency-Key: " + c.unique())
}

func encode(body any) []byte {
	switch body := body.(type) {
	case nil:
		return nil
	case []byte:
		return body
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return b
}
