// Package config has every setting of the service in one struct, and reads it from the
// command line, the environment, a file and the defaults, in this order of precedence.
package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"atrium"
)

//go:generate go run ./reference/write

// Config has every setting of a serving process. The name of a field determines its flag,
// environment variable and key in a file: MaxBody is --max-body, ATRIUM_MAX_BODY and
// max-body. The help of the flag, the reference page and atrium config are generated from
// the comment of the field.
type Config struct {
	// The `host:port` to serve the API on. Port 0 chooses a free port.
	Addr string

	// PEM `file` with the TLS certificate and its chain. The server reloads it when it
	// changes and on SIGHUP. Empty serves plain HTTP.
	TLSCert string

	// PEM `file` with the private key of tls-cert. Only the user of the server should be
	// able to read it.
	TLSKey string

	// max-age of Strict-Transport-Security, in whole seconds. Applies to every port of
	// this host name. 0 sends no header.
	HSTS time.Duration

	// Maximum concurrent requests on one HTTP/2 connection. A connection with more than twice
	// as many open streams is closed. HTTP/2 needs TLS.
	HTTP2Streams int

	// Database `URL`: sqlite: and a file path, or postgres://user@host:port/name. Only serve,
	// demo, migrate and restore create a missing file; no command creates a directory.
	Database string

	// Maximum connections that this process opens to a PostgreSQL server.
	DatabaseConnections int

	// Maximum time for one SQL statement on PostgreSQL, and for waiting for a free
	// connection. Requests that wait longer get 503.
	DatabaseTimeout time.Duration

	// How to send SQL to PostgreSQL: prepared caches prepared statements on each
	// connection; unprepared caches nothing, for poolers that share connections between
	// transactions.
	DatabaseStatements string

	// The `host:port` to serve Prometheus metrics on, at /metrics. Metrics need no key, so
	// this is a separate listener: keep it off the internet. Empty serves none.
	MetricsAddr string

	// Serve Go profiles at /debug/pprof/ of metrics-addr. They need no key, show the
	// command line, and slow the process down while they are recorded.
	Pprof bool

	// Log format: json, text, or auto, which is text on a terminal and json otherwise.
	LogFormat string

	// Minimum log level: debug, info, warn or error. Requests are logged at info.
	LogLevel string

	// Log one in N successful requests. 1 logs all of them, 0 none. Failed requests are
	// always logged, if log-level allows.
	LogSample int

	// Maximum size of a request body. Larger ones get 413.
	MaxBody Size

	// Maximum size of the body of an import.
	ImportMaxBody Size

	// Maximum size of a request body that contains many entries. Each entry may be as
	// large as max-body.
	BatchMaxBody Size

	// Maximum size of the request line and headers together.
	MaxHeader Size

	// Maximum number of header fields in a request. More get 431.
	MaxHeaderFields int

	// Maximum length of a request's path and query. Longer ones get 414.
	MaxURL Size

	// Maximum number of query parameters. More get 414.
	MaxQueryParameters int

	// Serve the console at /console, for people who have signed in.
	Console bool

	// The `host:port` to serve the console on, instead of addr, for example on a private network. Its port
	// must differ from that of addr. Empty serves it on addr.
	ConsoleAddr string

	// Public `URL` of the server, such as https://atrium.example.com: the address that browsers and other systems
	// use, without a path. It needs https, except for addresses of this machine. The identity provider sends
	// browsers back to it. With console-addr, its path /console must lead there.
	PublicURL string

	// `URL` of an identity provider (OpenID Connect) for the sign-in to the console, exactly as the provider writes
	// its issuer. Empty leaves login links as the only way to sign in. Needs oidc-client-id,
	// oidc-client-secret-file and public-url.
	OIDCIssuer string

	// Client `ID` of the server at the identity provider. Its redirect URI is the public-url with
	// /console/login/callback.
	OIDCClientID string

	// `file` with the client secret, on one line. Only the user of the server should be able to read it. It is
	// read at each sign-in, so a new secret needs no restart.
	OIDCClientSecretFile string

	// Scopes to ask the identity provider for, separated by spaces, with openid. Add the one that makes it send
	// the groups, if it needs one.
	OIDCScopes string

	// Claim that has the groups of a person, in the ID token or at the userinfo endpoint.
	OIDCGroupsClaim string

	// Name of the identity provider on the button of the sign-in page.
	OIDCLabel string

	// `file` with the keys that encrypt secrets in the database, such as those that sign webhooks: one per line, 256
	// bits in base64. The first one encrypts, and all decrypt. Only the user of the server should be able to read it.
	// Keep a copy apart from the backups of the database. atrium secrets add-key creates it. Empty stores no secrets.
	SecretsKeyFile string

	// Networks that webhooks may call although they are not public, also without TLS: comma-separated `networks` such as
	// 10.0.0.0/8, or addresses. Link-local addresses and those of the metadata services of clouds are never called.
	WebhookAllow string

	// Maximum open connections. The server closes further ones at once.
	MaxConnections int

	// Maximum open connections of one client: an IPv4 address or an IPv6 /64 network. The
	// server closes further ones at once. Trusted proxies are exempt.
	MaxClientConnections int

	// Proxies whose X-Forwarded-For header names the client: comma-separated `networks`
	// such as 10.0.0.0/8, or addresses. The header is ignored in requests from others.
	TrustedProxies string

	// Memory for request bodies in progress and for responses that clients have not read
	// yet, not counting the first 4 KiB of each. One tenant may use half of it; several
	// tenants share it fairly. Requests that do not fit get 503.
	BodyMemory Size

	// Maximum memory of cached responses to GET of the external and the content API, on SQLite. A
	// response is cached until its data changes. 0 disables the cache.
	ResponseCache Size

	// Maximum requests in flight, not counting imports and exports. One tenant may have
	// half of them; several tenants share them fairly. The same number of further
	// requests per tenant can wait, up to request-wait. 0 is unlimited. On PostgreSQL, the
	// maximum is 32 times database-connections.
	MaxRequests int

	// Maximum time that a request waits while max-requests are in flight. Then it gets
	// 503.
	RequestWait time.Duration

	// Requests allowed per API key, receiver and user of the console, such as 100/s. More get 429. 0 is unlimited. Each
	// process counts separately.
	KeyRate Rate

	// Requests allowed per tenant, over all of its keys, such as 500/s. More get 429. 0 is
	// unlimited. Each process counts separately.
	TenantRate Rate

	// Requests without a key that one client address may send, such as 100/s: to the content API, to the sign-in
	// of the console, to receivers that are not in use, and for the documentation. For each 64 KiB of its response,
	// a request counts once more. Further ones get 429. 0 is unlimited. Each process counts separately.
	AnonymousRate Rate

	// Requests with an invalid key, preview token or login link that one client address may send, such as 100/m.
	// After that, further ones get 429, and so do requests with a valid preview token or login link. Requests with
	// a valid key are never refused. 0 is unlimited.
	AuthFailures Rate

	// Maximum time to receive the request line and headers.
	ReadHeaderTimeout time.Duration

	// Maximum time to receive a whole request.
	ReadTimeout time.Duration

	// Maximum time from the end of the request headers to the end of the response.
	WriteTimeout time.Duration

	// Maximum time that a connection stays open between two requests.
	IdleTimeout time.Duration

	// Maximum time for a shutdown, including shutdown-delay: to finish accepted requests
	// and commit queued entries.
	DrainTimeout time.Duration

	// After SIGTERM, how long to keep serving while /readyz returns 503, so that load
	// balancers can drain the node. 0 stops at once.
	ShutdownDelay time.Duration

	// Maximum entries that wait to be written. Beyond it, the newest entry of the tenant
	// with the most waiting entries gets 503.
	QueueEntries int

	// Maximum memory of the entries that wait to be written.
	QueueBytes Size

	// Maximum entries in one commit.
	BatchEntries int

	// Maximum commits that run at the same time on PostgreSQL, not counting those of entries that
	// wait for a lock. SQLite has one writer.
	WriteWorkers int

	// Versions of an audience to keep: the newest ones, and the published one. Creating a
	// version deletes at most 100 older ones, or 4 MiB of them. 0 keeps all.
	KeepVersions int

	// How long events are stored, from 168h (7 days) to 2160h (90 days). Readers and webhooks that are
	// further behind miss the older ones.
	EventRetention time.Duration

	// How long finished deliveries to webhooks are stored, with their attempts, from 24h to 8760h (365 days).
	DeliveryRetention time.Duration

	// How long deliveries to receivers that could not be mapped are in quarantine, from 24h to 8760h (365 days).
	QuarantineRetention time.Duration

	// Maximum requests of this node to webhooks that are in flight, up to 4096: of one tenant a quarter, of one webhook 16.
	// 0 leaves all deliveries to other nodes.
	WebhookRequests int
}

// The values of DatabaseStatements.
const (
	Prepared   = "prepared"
	Unprepared = "unprepared"
)

// Default returns the default settings.
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
		ResponseCache:        32 << 20,
		MaxRequests:          2048,
		RequestWait:          time.Second,
		AnonymousRate:        Rate{100, time.Second},
		Console:              true,
		OIDCScopes:           "openid profile",
		OIDCGroupsClaim:      "groups",
		OIDCLabel:            "single sign-on",
		AuthFailures:         Rate{100, time.Minute},
		ReadHeaderTimeout:    10 * time.Second,
		ReadTimeout:          30 * time.Second,
		WriteTimeout:         time.Minute,
		IdleTimeout:          2 * time.Minute,
		DrainTimeout:         7 * time.Second,
		QueueEntries:         4096,
		QueueBytes:           64 << 20,
		BatchEntries:         256,
		WriteWorkers:         2,
		EventRetention:       atrium.MinEventRetention,
		DeliveryRetention:    atrium.DefaultDeliveryRetention,
		QuarantineRetention:  atrium.DefaultQuarantineRetention,
		WebhookRequests:      256,
	}
}

// maxDrain leaves one second to exit: the process must stop within eight.
const maxDrain = 7 * time.Second

// maxShutdownDelay leaves two seconds of maxDrain to complete requests.
const maxShutdownDelay = 5 * time.Second

// maxDatabaseTimeout is shorter than the storage timeout of a request.
const maxDatabaseTimeout = 15 * time.Second

// faults returns one message for each invalid value, which begins with the name of the
// setting.
func (c *Config) faults() (all []string) {
	c.check(func(ok bool, setting, rule string) {
		if !ok {
			all = append(all, setting+" "+rule)
		}
	})
	return append(all, c.signInFaults()...)
}

// Rules returns the rules about the value of a setting, such as its range: "must be from 0s to 5s".
func Rules(setting string) (all []string) {
	defaults := Default()
	defaults.check(func(_ bool, of, rule string) {
		if of == setting {
			all = append(all, rule)
		}
	})
	return all
}

// check reports for each rule about a setting whether its value obeys the rule. It leaves out those of the sign-in.
func (c *Config) check(check func(ok bool, setting, rule string)) {
	check(isAddress(c.Addr), "addr", "must be host:port, with a port from 0 to 65535")
	check((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert", "and tls-key must be set together")
	check(c.HSTS >= 0 && c.HSTS%time.Second == 0, "hsts", "must be whole seconds and not negative")
	check(c.HTTP2Streams >= 1 && c.HTTP2Streams <= 1000, "http2-streams", "must be from 1 to 1000")
	check(isDatabase(c.Database), "database", "must be sqlite: and a path, or postgres:// and a URL")
	check(c.MetricsAddr == "" || isAddress(c.MetricsAddr), "metrics-addr", "must be host:port, with a port from 0 to 65535")
	check(c.MetricsAddr == "" || c.MetricsAddr != c.Addr || strings.HasSuffix(c.Addr, ":0"), "metrics-addr", "must differ from addr")
	check(c.ConsoleAddr == "" || isAddress(c.ConsoleAddr), "console-addr", "must be host:port, with a port from 0 to 65535")
	check(c.ConsoleAddr == "" || differ(c.ConsoleAddr, c.Addr) && differ(c.ConsoleAddr, c.MetricsAddr), "console-addr", "must have another port than addr and metrics-addr")
	check(c.ConsoleAddr == "" || c.Console, "console-addr", "needs console")
	check(!c.Pprof || c.MetricsAddr != "", "pprof", "needs metrics-addr")
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
	check(c.ResponseCache >= 0, "response-cache", "must be a size, or 0")
	check(c.MaxRequests >= 0 && c.MaxRequests <= 1<<20, "max-requests", "must be from 0 to 1048576")
	check(c.RequestWait >= 0 && c.RequestWait <= time.Minute, "request-wait", "must be from 0s to "+time.Minute.String())
	proxies, err := Networks(c.TrustedProxies)
	check(err == nil, "trusted-proxies", "must be networks such as 10.0.0.0/8 or addresses, separated by commas")
	_, err = Networks(c.WebhookAllow)
	check(err == nil, "webhook-allow", "must be networks such as 10.0.0.0/8 or addresses, separated by commas")
	everyone := func(n netip.Prefix) bool { return n.Bits() == 0 }
	check(!slices.ContainsFunc(proxies, everyone), "trusted-proxies", "must not include every address: any client could then choose its own")
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
	check(c.WriteWorkers >= 1 && c.WriteWorkers <= 64, "write-workers", "must be from 1 to 64")
	check(c.KeepVersions >= 0, "keep-versions", "must not be negative")
	check(c.EventRetention >= atrium.MinEventRetention && c.EventRetention <= atrium.MaxEventRetention, "event-retention", "must be from 168h to 2160h")
	check(c.DeliveryRetention >= atrium.MinDeliveryRetention && c.DeliveryRetention <= atrium.MaxDeliveryRetention, "delivery-retention", "must be from 24h to 8760h")
	check(c.QuarantineRetention >= atrium.MinQuarantineRetention && c.QuarantineRetention <= atrium.MaxQuarantineRetention, "quarantine-retention", "must be from 24h to 8760h")
	check(c.WebhookRequests >= 0 && c.WebhookRequests <= 4096, "webhook-requests", "must be from 0 to 4096")
}

// isAddress reports whether the text is a host:port to listen on.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// differ reports whether the ports of two addresses differ, or are chosen by the system.
func differ(a, b string) bool {
	_, port, _ := net.SplitHostPort(a) // "" if it is not an address, which another check reports
	_, other, _ := net.SplitHostPort(b)
	return port != other || port == "0"
}

// isDatabase reports whether the text is a database URL.
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

// Networks parses a comma-separated list of networks and addresses.
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
			err = errors.New("write IPv4 networks in IPv4 form")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, network.Masked())
	}
	return all, nil
}
