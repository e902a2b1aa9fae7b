// Package config holds every setting of the service in one struct, and reads it
// from the command line, the environment, a file and the defaults, in this
// order of precedence.
package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

//go:generate go run ./reference/write

// A Config is every setting of a serving process. A field's name gives the names
// of its flag and its variable: MaxBody is --max-body, ATRIUM_MAX_BODY, and
// max-body in a file. Its comment is its documentation: what the flag's help, the
// reference page and atrium config say is made from it.
type Config struct {
	// The `host:port` to serve the API on. Port 0 takes a free one.
	Addr string

	// The PEM `file` with the certificate to serve the API with TLS, and the chain
	// behind it. It is read again when it changes and at SIGHUP. Empty for plain HTTP.
	TLSCert string

	// The PEM `file` with the private key of tls-cert, which nobody else should be
	// able to read.
	TLSKey string

	// How long a browser that was here with TLS takes nothing else from this host, on
	// any port (Strict-Transport-Security), whole seconds. 0 does not ask for it.
	HSTS time.Duration

	// How many requests one connection of HTTP/2 may have under way. There is HTTP/2
	// with TLS alone.
	HTTP2Streams int

	// The `URL` of the database: sqlite: and the path of a file, which is made if
	// there is none, or postgres://user@host:port/name for a server.
	Database string

	// How many connections to a database server this process opens at most.
	DatabaseConnections int

	// How long a statement on a database server may take, and how long a request
	// waits for a connection to it. Who waits longer is answered with 503.
	DatabaseTimeout time.Duration

	// How statements reach a database server: prepared keeps them on each
	// connection, unprepared keeps nothing, as a pooler that shares connections
	// between transactions needs it.
	DatabaseStatements string

	// The `host:port` to serve Prometheus metrics on, at /metrics. It is a listener
	// of its own because metrics need no key: keep it off the internet. Empty
	// for none.
	MetricsAddr string

	// Whether profiles of the process are served beside the metrics, at /debug/pprof/.
	// They need no key either, show the command line, and slow the process down while
	// they are taken.
	Pprof bool

	// How the log is written: json, text, or auto, which is text on a terminal
	// and json elsewhere.
	LogFormat string

	// The least level that is logged: debug, info, warn or error. Requests are
	// logged at info.
	LogLevel string

	// Of how many successful requests one is logged. 1 logs each of them, 0 none.
	// Requests that failed are always logged, unless the level leaves them out.
	LogSample int

	// How large the body of a request may be. Larger ones are answered with 413.
	MaxBody Size

	// How large the body of an import may be.
	ImportMaxBody Size
	// How large the body of a request may be that sends many entries at once. Each of
	// them may be as large as max-body.
	BatchMaxBody Size

	// How large the head of a request may be, the request line included.
	MaxHeader Size

	// How many header fields a request may have. More are answered with 431.
	MaxHeaderFields int

	// How long the target of a request may be, the query included. Longer ones are
	// answered with 414.
	MaxURL Size

	// How many parameters a query may have. More are answered with 414.
	MaxQueryParameters int

	// How many connections are open at most. More are closed at once.
	MaxConnections int

	// How many of the connections one client may have: an address, or a network of 64
	// bits with IPv6. More are closed at once. Trusted proxies may have all.
	MaxClientConnections int

	// The proxies that say for whom they speak: `networks` such as 10.0.0.0/8, or
	// addresses, with commas between. X-Forwarded-For of a request that comes from
	// one of them names its client. From others it is ignored.
	TrustedProxies string

	// How much memory the bodies of requests may take that are read or worked on, and
	// answers until their clients have read them, above 16 KiB of each. One tenant may
	// hold half of it, and each of several as much as is left. What finds no room is
	// answered with 503.
	BodyMemory Size

	// How much memory answers to GET of the external API may take that are kept until what
	// they say changes, on SQLite. 0 keeps none.
	AnswerMemory Size

	// How many requests of an API are in flight at the same time, imports and exports
	// not counted. One tenant may have half of them, and each of several as many as are
	// left. As many more of each tenant wait. 0 is no limit. On a server there are at
	// most 32 for each of database-connections.
	MaxRequests int

	// How long a request may wait to be admitted. Then it is answered with 503.
	RequestWait time.Duration

	// How many requests may come with one key: 100/s are so many in a second, at
	// once or evenly. What is above is answered with 429. 0 is no limit. Each process
	// counts for itself.
	KeyRate Rate

	// How many requests may come for one tenant, with whichever of its keys.
	TenantRate Rate

	// How many requests of one client may have a key that is no good. What is above
	// is answered with 429 and does no work; requests with a good key are always
	// answered. 0 is no limit.
	AuthFailures Rate

	// How long the head of a request may take to arrive.
	ReadHeaderTimeout time.Duration

	// How long a whole request may take to arrive.
	ReadTimeout time.Duration

	// How long an answer may take from the end of the request's head until it is
	// sent.
	WriteTimeout time.Duration

	// How long a connection may stay open between two requests.
	IdleTimeout time.Duration

	// How long stopping may take, shutdown-delay included: to answer the requests
	// that were accepted and to commit what waits.
	DrainTimeout time.Duration

	// How long a server that was told to stop goes on as before, but is not ready: so
	// long that whatever sends it requests has asked /readyz again and sends them
	// elsewhere. 0 stops at once, as is right where nothing asks.
	ShutdownDelay time.Duration

	// How many entries may wait to be written. When there are more, the newest
	// of the tenant that waits with most is answered with 503.
	QueueEntries int

	// How much memory the entries that wait may take.
	QueueBytes Size

	// How many entries one commit may hold.
	BatchEntries int

	// How many commits may run at the same time. An embedded database has one
	// writer, whatever this is.
	WriteLanes int

	// How many versions of an audience are kept, the newest ones, beside the one that
	// is published. When a version is made, older ones are deleted, 100 at most at a
	// time. 0 keeps all.
	KeepVersions int
}

// The values of DatabaseStatements.
const (
	Prepared   = "prepared"
	Unprepared = "unprepared"
)

// Default returns the settings that hold where nothing says otherwise.
func Default() Config {
	return Config{
		Addr:                 "127.0.0.1:8080",
		HTTP2Streams:         100,
		Database:             "sqlite:atrium.db",
		DatabaseConnections:  16,
		DatabaseTimeout:      10 * time.Second,
		DatabaseStatements:   Prepared,
		LogFormat:            "auto",
		LogLevel:             "info",
		LogSample:            1,
		MaxBody:              1 << 20,
		ImportMaxBody:        1 << 30,
		BatchMaxBody:         16 << 20,
		MaxHeader:            16 << 10,
		MaxHeaderFields:      100,
		MaxURL:               8 << 10,
		MaxQueryParameters:   100,
		MaxConnections:       8192,
		MaxClientConnections: 4096,
		BodyMemory:           256 << 20,
		AnswerMemory:         32 << 20,
		MaxRequests:          2048,
		RequestWait:          time.Second,
		AuthFailures:         Rate{100, time.Minute},
		ReadHeaderTimeout:    10 * time.Second,
		ReadTimeout:          30 * time.Second,
		WriteTimeout:         time.Minute,
		IdleTimeout:          2 * time.Minute,
		DrainTimeout:         7 * time.Second,
		QueueEntries:         4096,
		QueueBytes:           64 << 20,
		BatchEntries:         256,
		WriteLanes:           2,
	}
}

// maxDrain leaves the process a second of the eight in which it has to be gone.
const maxDrain = 7 * time.Second

// maxShutdownDelay leaves the longest drain two seconds for what it is for.
const maxShutdownDelay = 5 * time.Second

// maxDatabaseTimeout is less than a request with a body waits for storage.
const maxDatabaseTimeout = 15 * time.Second

// faults returns what is wrong with the values, each with the name of its
// setting before it.
func (c *Config) faults() (all []string) {
	check := func(ok bool, setting, rule string) {
		if !ok {
			all = append(all, setting+" "+rule)
		}
	}
	check(isAddress(c.Addr), "addr", "must be host:port, with a port from 0 to 65535")
	check((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert", "and tls-key are set both or neither")
	check(c.HSTS >= 0 && c.HSTS%time.Second == 0, "hsts", "must be whole seconds and not negative")
	check(c.HTTP2Streams >= 1 && c.HTTP2Streams <= 1000, "http2-streams", "must be from 1 to 1000")
	check(isDatabase(c.Database), "database", "must be sqlite: and a path, or postgres:// and a URL")
	check(c.MetricsAddr == "" || isAddress(c.MetricsAddr), "metrics-addr", "must be host:port, with a port from 0 to 65535")
	check(c.MetricsAddr == "" || c.MetricsAddr != c.Addr || strings.HasSuffix(c.Addr, ":0"), "metrics-addr", "must not be addr: it is a listener of its own")
	check(!c.Pprof || c.MetricsAddr != "", "pprof", "needs metrics-addr, where it is served")
	check(c.DatabaseConnections >= 2 && c.DatabaseConnections <= 1000, "database-connections", "must be from 2 to 1000")
	check(c.DatabaseTimeout >= time.Second && c.DatabaseTimeout <= maxDatabaseTimeout, "database-timeout", "must be from 1s to "+maxDatabaseTimeout.String())
	check(c.DatabaseStatements == Prepared || c.DatabaseStatements == Unprepared, "database-statements", "must be prepared or unprepared")
	check(c.LogFormat == "auto" || c.LogFormat == "json" || c.LogFormat == "text", "log-format", "must be auto, json or text")
	check(c.LogLevel == "debug" || c.LogLevel == "info" || c.LogLevel == "warn" || c.LogLevel == "error", "log-level", "must be debug, info, warn or error")
	check(c.LogSample >= 0, "log-sample", "must not be negative")
	check(c.MaxBody >= 1<<10 && c.MaxBody <= 64<<20, "max-body", "must be from 1KiB to 64MiB")
	check(c.ImportMaxBody >= 1<<20, "import-max-body", "must be at least 1MiB")
	check(c.BatchMaxBody >= 1<<10 && c.BatchMaxBody <= 64<<20, "batch-max-body", "must be from 1KiB to 64MiB")
	check(c.BatchMaxBody >= c.MaxBody, "batch-max-body", "must be at least max-body")
	check(c.MaxHeader >= 4<<10 && c.MaxHeader <= 1<<20, "max-header", "must be from 4KiB to 1MiB")
	check(c.MaxHeaderFields >= 10 && c.MaxHeaderFields <= 10_000, "max-header-fields", "must be from 10 to 10000")
	check(c.MaxURL >= 1<<10 && c.MaxURL <= 1<<20, "max-url", "must be from 1KiB to 1MiB")
	check(c.MaxURL <= c.MaxHeader, "max-url", "must be at most max-header, which includes it")
	check(c.MaxQueryParameters >= 10 && c.MaxQueryParameters <= 10_000, "max-query-parameters", "must be from 10 to 10000")
	check(c.MaxConnections >= 10 && c.MaxConnections <= 1<<20, "max-connections", "must be from 10 to 1048576")
	check(c.MaxClientConnections >= 1 && c.MaxClientConnections <= 1<<20, "max-client-connections", "must be from 1 to 1048576")
	check(c.MaxClientConnections <= c.MaxConnections, "max-client-connections", "must be at most max-connections")
	check(c.BodyMemory >= 2*max(c.MaxBody, c.BatchMaxBody), "body-memory", "must be at least twice max-body and batch-max-body")
	check(c.AnswerMemory >= 0, "answer-memory", "must be a size, or 0")
	check(c.MaxRequests >= 0 && c.MaxRequests <= 1<<20, "max-requests", "must be from 0 to 1048576")
	check(c.RequestWait >= 0 && c.RequestWait <= time.Minute, "request-wait", "must be from 0s to "+time.Minute.String())
	proxies, err := Networks(c.TrustedProxies)
	check(err == nil, "trusted-proxies", "must be networks such as 10.0.0.0/8 or addresses, with commas between")
	everybody := func(n netip.Prefix) bool { return n.Bits() == 0 }
	check(!slices.ContainsFunc(proxies, everybody), "trusted-proxies", "must not be everybody: each client could say who it is")
	for _, d := range []struct {
		setting string
		value   time.Duration
	}{
		{"read-header-timeout", c.ReadHeaderTimeout}, {"read-timeout", c.ReadTimeout},
		{"write-timeout", c.WriteTimeout}, {"idle-timeout", c.IdleTimeout},
	} {
		check(d.value >= time.Second && d.value <= time.Hour, d.setting, "must be from 1s to 1h")
	}
	check(c.ReadHeaderTimeout <= c.ReadTimeout, "read-header-timeout", "must be at most read-timeout, which includes it")
	check(c.DrainTimeout >= 0 && c.DrainTimeout <= maxDrain, "drain-timeout", "must be from 0s to "+maxDrain.String())
	check(c.ShutdownDelay >= 0 && c.ShutdownDelay <= maxShutdownDelay, "shutdown-delay", "must be from 0s to "+maxShutdownDelay.String())
	check(c.ShutdownDelay == 0 || c.ShutdownDelay+time.Second <= c.DrainTimeout, "shutdown-delay", "must be at least a second less than drain-timeout, which includes it")
	check(c.QueueEntries >= 1 && c.QueueEntries <= 1<<20, "queue-entries", "must be from 1 to 1048576")
	check(c.QueueBytes >= c.MaxBody, "queue-bytes", "must be at least max-body")
	check(c.BatchEntries >= 1 && c.BatchEntries <= 4096, "batch-entries", "must be from 1 to 4096")
	check(c.WriteLanes >= 1 && c.WriteLanes <= 64, "write-lanes", "must be from 1 to 64")
	check(c.KeepVersions >= 0, "keep-versions", "must not be negative")
	return all
}

// isAddress reports whether a listener can have the address, if its host is there.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// isDatabase reports whether the text has the form of a database's URL.
func isDatabase(text string) bool {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		return path != ""
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return false
	}
	_, err := url.Parse(text)
	return err == nil
}

// Networks reads a list of networks and addresses with commas between.
func Networks(text string) (all []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" && text == "" {
			return nil, nil
		}
		network, err := netip.ParsePrefix(part)
		if addr, alone := netip.ParseAddr(part); alone == nil {
			addr = addr.Unmap().WithZone("")
			network, err = addr.Prefix(addr.BitLen())
		}
		if err == nil && network.Addr().Is4In6() {
			err = errors.New("a network of IPv4 is not written in the form of IPv6")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, network.Masked())
	}
	return all, nil
}
