package crash

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium/internal/store/engine/postgrestest"
)

// Settings of a server whose database fails. Waits for a connection or for the result of a
// statement are limited to databaseTimeout, which leaves PostgreSQL the second after which
// it looks for deadlocks. A request needs several of them in turn: for its key and for its
// data, after an earlier commit.
const (
	databaseTimeout = 2 * time.Second
	connections     = 4                                // few enough that clients need all of them
	answerLimit     = 20*time.Second + databaseTimeout // the wait for storage in docs/limits.md, and one more statement
)

// An outage is a server under load whose database is about to fail.
type outage struct {
	t       *testing.T
	rng     *rand.Rand
	server  *postgrestest.Server
	db      *database
	atrium  *server
	clients []*client
	ledger  *ledger
	stop    func() // stops the clients
}

// newOutage starts PostgreSQL, and Atrium on it with n clients. through, if not nil,
// returns the URL that Atrium uses for the database.
func newOutage(t *testing.T, n int, through func(url string) string) *outage {
	t.Helper()
	server := postgrestest.Start(t)
	return newOutageOf(t, server, newRemote(t, server), n, through)
}

// newOutageOf is newOutage for an existing database.
func newOutageOf(t *testing.T, server *postgrestest.Server, db *database, n int, through func(url string) string) *outage {
	t.Helper()
	o := &outage{t: t, rng: random(t), server: server, db: db}
	url := o.db.url
	if through != nil {
		url = through(url)
	}
	o.atrium = start(t, url, "--database-timeout", databaseTimeout.String(), "--database-connections", strconv.Itoa(connections),
		"--metrics-addr", "127.0.0.1:0")
	o.clients, o.ledger = newClients(t, o.rng, n, o.db.tenants)
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range o.clients {
		c.patient = true
	}
	wait := each(o.clients, o.atrium.base, func(c *client) { c.persist(ctx) })
	o.stop = func() {
		cancel()
		wait()
	}
	t.Cleanup(o.stop)
	o.waitForService()
	return o
}

// waitForService waits until the service is ready and acknowledges entries.
func (o *outage) waitForService() {
	o.t.Helper()
	waitUntil(o.t, "the service to be ready", startLimit, func() bool { return o.atrium.status("/readyz") == http.StatusOK })
	acks := o.ledger.acks()
	waitUntil(o.t, "the service records entries", startLimit, func() bool { return o.ledger.acks() > acks+2*len(o.clients) })
}

// workABit lets the clients work for a random duration.
func (o *outage) workABit() {
	time.Sleep(time.Duration(o.rng.IntN(int(300 * time.Millisecond))))
}

// finish ends the load, checks that the service has recovered, and audits.
func (o *outage) finish() {
	o.t.Helper()
	o.stop()
	waitUntil(o.t, "all that has a key is acknowledged", startLimit, func() bool {
		settle(o.clients, o.atrium.base)
		return !slices.ContainsFunc(o.clients, func(c *client) bool { return len(c.pending) > 0 })
	})
	waitUntil(o.t, "no transaction is open", startLimit, func() bool { return o.db.sessions(o.t, "state LIKE 'idle in transaction%'") == 0 })
	waitUntil(o.t, "there are no more sessions than connections", startLimit, func() bool { return o.db.sessions(o.t, "true") <= connections })
	o.atrium.signalAndWait()
	o.ledger.ended()
	o.atrium.checkRefusals()
	v := o.ledger.audit(o.db.read(o.t), forever)
	v.report(o.t)
	f := o.ledger.figures
	o.t.Logf("sent %d, acknowledged %d, retried %d, refused %d, of these uncertain %d, slowest %s, lost %d, duplicated %d",
		f.sent, f.acknowledged, f.retried, f.refused, f.uncertain, f.slowest.Round(time.Millisecond), v.lost, v.doubled)
	if f.unanswered > 0 {
		o.t.Errorf("%d requests got no response", f.unanswered)
	}
	if f.slowest > answerLimit {
		o.t.Errorf("a request waited %s for its response", f.slowest)
	}
}

// refusedForNow matches the log of an error of the class unavailable, with an optional
// prefix.
var refusedForNow = regexp.MustCompile(`error="([^"]*: )?unavailable: `)

// checkRefusals reports log lines that no state of the database justifies.
func (s *server) checkRefusals() {
	s.t.Helper()
	for line := range strings.Lines(s.log.String()) {
		unavailable := refusedForNow.MatchString(line)
		for _, bad := range []string{"DATA RACE", "panic", "status=500", password} {
			if strings.Contains(line, bad) {
				s.t.Errorf("the server logged %q: %s", bad, line)
			}
		}
		if strings.Contains(line, "level=ERROR") && !unavailable {
			s.t.Errorf("the server logged an error: %s", line)
		}
	}
}

// signalAndWait stops the server gracefully.
func (s *server) signalAndWait() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait().ExitCode(); code != 0 {
		s.t.Errorf("the server ended with exit code %d", code)
	}
}

// status returns the status of a request without a key, 0 without a response.
func (s *server) status(path string) int {
	res, err := s.http.Get(s.base + path)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

var servesMetrics = regexp.MustCompile(`msg="serving metrics" addr=(\S+)`)

// metric returns the value of a metric without labels.
func (s *server) metric(name string) (value float64) {
	s.t.Helper()
	res, err := s.http.Get("http://" + s.waitLog(servesMetrics) + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, name+" %g", &value); err == nil {
			return value
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}
