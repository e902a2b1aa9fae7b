// Code generated from the comments of Config by go generate; DO NOT EDIT.

package config

// usage is what each field's comment says, in one line.
var usage = map[string]string{
	"Addr":                "The `host:port` to serve the API on. Port 0 takes a free one.",
	"TLSCert":             "The PEM `file` with the certificate to serve the API with TLS, and the chain behind it. It is read again when it changes and at SIGHUP. Empty for plain HTTP.",
	"TLSKey":              "The PEM `file` with the private key of tls-cert, which nobody else should be able to read.",
	"HSTS":                "How long a browser that was here with TLS takes nothing else from this host, on any port (Strict-Transport-Security). 0 does not ask for it.",
	"HTTP2Streams":        "How many requests one connection of HTTP/2 may have under way. There is HTTP/2 with TLS alone.",
	"Database":            "The `URL` of the database: sqlite: and the path of a file, which is made if there is none, or postgres://user@host:port/name for a server.",
	"DatabaseConnections": "How many connections to a database server this process opens at most.",
	"DatabaseTimeout":     "How long a statement on a database server may take, and how long a request waits for a connection to it. Who waits longer is answered with 503.",
	"DatabaseStatements":  "How statements reach a database server: prepared keeps them on each connection, unprepared keeps nothing, as a pooler that shares connections between transactions needs it.",
	"MetricsAddr":         "The `host:port` to serve Prometheus metrics on, at /metrics. It is a listener of its own because metrics need no key: keep it off the internet. Empty for none.",
	"Pprof":               "Whether profiles of the process are served beside the metrics, at /debug/pprof/. They need no key either, show the command line, and slow the process down while they are taken.",
	"LogFormat":           "How the log is written: json, text, or auto, which is text on a terminal and json elsewhere.",
	"LogLevel":            "The least level that is logged: debug, info, warn or error. Requests are logged at info.",
	"LogSample":           "Of how many successful requests one is logged. 1 logs each of them, 0 none. Requests that failed are always logged, unless the level leaves them out.",
	"MaxBody":             "How large the body of a request may be. Larger ones are answered with 413.",
	"ImportMaxBody":       "How large the body of an import may be.",
	"BatchMaxBody":        "How large the body of a request may be that sends many entries at once. Each of them may be as large as max-body.",
	"MaxHeader":           "How large the head of a request may be, the request line included.",
	"ReadHeaderTimeout":   "How long the head of a request may take to arrive.",
	"ReadTimeout":         "How long a whole request may take to arrive.",
	"WriteTimeout":        "How long an answer may take from the end of the request's head until it is sent.",
	"IdleTimeout":         "How long a connection may stay open between two requests.",
	"DrainTimeout":        "How long stopping may take, shutdown-delay included: to answer the requests that were accepted and to commit what waits.",
	"ShutdownDelay":       "How long a server that was told to stop goes on as before, but is not ready: so long that whatever sends it requests has asked /readyz again and sends them elsewhere. 0 stops at once, as is right where nothing asks.",
	"QueueEntries":        "How many entries may wait to be written. When there are more, the newest of the tenant that waits with most is answered with 503.",
	"QueueBytes":          "How much memory the entries that wait may take.",
	"BatchEntries":        "How many entries one commit may hold.",
	"WriteLanes":          "How many commits may run at the same time. An embedded database has one writer, whatever this is.",
	"KeepVersions":        "How many versions of an audience are kept, the newest ones, beside the one that is published. When a version is made, older ones are deleted, 100 at most at a time. 0 keeps all.",
}
