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

// hang is how long no request may take, whatever fails meanwhile. The service promises
// answers within 20 seconds.
const hang = 25 * time.Second

// A tenant has keys for both APIs, and a mark that is in all of its data.
type tenant struct {
	id     atrium.TenantID
	mark   string // "mark-" and 12 hexadecimal digits
	key    string // for the external API
	keyID  atrium.KeyID
	manage string // for the management API
}

// A client sends one request after the other, each once.
type client struct {
	s    *soak
	rng  *rand.Rand
	http *http.Client
	name string
	of   *tenant
	made int // names so far
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
// the same ones: only the tenant tells them apart.
func (c *client) unique() string {
	c.made++
	return fmt.Sprintf("%s-%d", c.name, c.made)
}

// A call is a request and the statuses that are right for it; none stands for any that
// is not 5xx.
type call struct {
	op     string // as the report names it
	method string
	path   string
	key    string // of the API; "" for none
	header []string
	body   []byte
	want   []int
}

// An answer is a whole answer, or status 0.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	repeated bool // an earlier attempt may have been carried out
}

// with returns the call with a header more, such as "If-Match: *".
func (q call) with(header string) call {
	q.header = append(slices.Clone(q.header), header)
	return q
}

// failed reports whether the request has to be sent again.
func (a answer) failed() bool { return a.status == 0 || a.status >= 500 }

// decode reads the members of the body, which must be an object.
func (a answer) decode() map[string]any {
	var m map[string]any
	_ = json.Unmarshal(a.body, &m) // nothing, then
	return m
}

func (a answer) text(member string) string {
	text, _ := a.decode()[member].(string)
	return text
}

// once sends a request once and judges the answer.
func (c *client) once(q call) answer {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	before, began := c.s.weather.now(), time.Now()
	a, err := c.send(ctx, q)
	took, quiet := time.Since(began), c.s.weather.quietSince(before)
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

// judgeRefusal judges a 5xx: with a fault, the service or the balancer may say that it
// is not available, and when to come again.
func (s *soak) judgeRefusal(q call, a answer, quiet bool) {
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

// send returns an error if no whole answer came.
func (c *client) send(ctx context.Context, q call) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, q.method, c.s.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return answer{}, err
	}
	r.GetBody = nil // so that net/http does not send it twice
	if q.key != "" {
		r.Header.Set("x-api-key", q.key)
	}
	for _, h := range q.header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}, nil
}

// sure sends a request until it is answered with what is not a 5xx, as a sender does
// that must lose nothing. Its idempotency key makes that safe, or that it says what is
// to be.
func (c *client) sure(q call) answer {
	began := time.Now()
	for repeated := false; ; repeated = true {
		a := c.once(q)
		if !a.failed() || !c.again(q.op, began) {
			a.repeated = repeated
			return a
		}
	}
}

// patience is how long a client goes on sending one request again: longer than any fault.
const patience = 2 * time.Minute

// again waits a moment, and reports whether a request is to be sent again that was sent
// first at an instant.
func (c *client) again(op string, began time.Time) bool {
	time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
	if time.Since(began) > patience {
		c.s.tally.fault(&c.s.tally.hangs, "%s failed for %s", op, patience)
		return false
	}
	return !c.s.giveUp()
}

// external and managing make calls.
func (c *client) external(op, method, path string, body any, want ...int) call {
	return call{op: op, method: method, path: path, key: c.of.key, body: encode(body), want: want}
}

func (c *client) managing(op, method, path string, body any, want ...int) call {
	return call{op: "manage: " + op, method: method, path: "/manage/v0" + path, key: c.of.manage, body: encode(body), want: want}
}

// making is managing for a POST that makes something, with an idempotency key.
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
		panic(err) // all of it is text and numbers
	}
	return b
}
