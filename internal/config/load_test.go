package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load loads settings from a command line, an environment and the text of a file.
func load(t *testing.T, args []string, environment map[string]string, file string, only ...string) (Config, []Setting, error) {
	t.Helper()
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l := Bind(flags, &c, only...)
	if file != "" {
		path := filepath.Join(t.TempDir(), "atrium.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	settings, err := l.Load(func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	return c, settings, err
}

// warnings returns the warnings of a valid command line and environment.
func warnings(t *testing.T, args []string, environment map[string]string) []string {
	t.Helper()
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l := Bind(flags, &c)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err := l.Load(func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.Warnings
}

// configPath matches the path of the file that load writes.
var configPath = regexp.MustCompile(`/\S*/atrium\.yaml`)

// wantFaults checks that the error has exactly these faults, in order.
func wantFaults(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(configPath.ReplaceAllString(err.Error(), "atrium.yaml"), "\n")
	}
	same := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		same = same && strings.HasSuffix(got[i], want[i])
	}
	if !same {
		t.Errorf("the faults are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSourcesHavePrecedence(t *testing.T) {
	for _, c := range []struct {
		name                        string
		flag, variable, file, unset string // in the form of String
		value                       func(*Config) string
	}{
		{"addr", "a:1", "b:2", "c:3", "127.0.0.1:8080", func(c *Config) string { return c.Addr }},
		{"log-sample", "2", "3", "4", "1", func(c *Config) string { return strings.Repeat("i", c.LogSample) }},
		{"max-body", "2KiB", "3KiB", "4KiB", "1MiB", func(c *Config) string { return c.MaxBody.String() }},
		{"write-timeout", "2s", "3s", "4s", "1m0s", func(c *Config) string { return c.WriteTimeout.String() }},
	} {
		for from, want := range map[Source]string{FromFlag: c.flag, FromEnvironment: c.variable, FromFile: c.file, FromDefault: c.unset} {
			var args []string
			environment, file := map[string]string{}, ""
			switch from {
			case FromFlag:
				args = []string{"--" + c.name, c.flag}
				fallthrough
			case FromEnvironment:
				environment[Variable(c.name)] = c.variable
				fallthrough
			case FromFile:
				file = c.name + ": " + c.file + "\n"
			}
			got, settings, err := load(t, args, environment, file)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == c.name })
			if settings[i] != (Setting{c.name, want, from}) {
				t.Errorf("%+v, want %s from %s", settings[i], want, from)
			}
			if c.name == "log-sample" {
				want = strings.Repeat("i", int(want[0]-'0'))
			}
			if value := c.value(&got); value != want {
				t.Errorf("%s from %s is %s, want %s", c.name, from, value, want)
			}
		}
	}
}

func TestEmptyVariableCountsAsUnset(t *testing.T) {
	c, _, err := load(t, nil, map[string]string{"ATRIUM_ADDR": "", "ATRIUM_CONFIG": "", "ATRIUM_MAX_BODY": ""}, "")
	if err != nil || c != Default() {
		t.Errorf("loaded %+v, %v, want the defaults", c, err)
	}
}

func TestEmptyFlagCountsAsSet(t *testing.T) {
	c, _, err := load(t, []string{"--metrics-addr", ""}, map[string]string{"ATRIUM_METRICS_ADDR": ":9090"}, "")
	if err != nil || c.MetricsAddr != "" {
		t.Errorf("metrics-addr is %q, %v, want none", c.MetricsAddr, err)
	}
}

func TestConfigFileFromFlagOrVariable(t *testing.T) {
	missing := map[string]string{"ATRIUM_CONFIG": filepath.Join(t.TempDir(), "none.yaml")}
	if c, _, err := load(t, nil, missing, "log-sample: 5\n"); err != nil || c.LogSample != 5 {
		t.Errorf("with a flag: %d, %v", c.LogSample, err)
	}
	if _, _, err := load(t, nil, missing, ""); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestAllFaultsAreReportedTogether(t *testing.T) {
	_, _, err := load(t,
		[]string{"--log-sample", "-1", "--max-header", "1", "--database", "", "--tls-cert", "chain.pem", "--hsts", "1500ms", "--http2-streams", "0"},
		map[string]string{"ATRIUM_READ_TIMEOUT": "soon", "ATRIUM_MAX_BODY": "1GB", "ATRIUM_LOG_LEVEL": "loud", "ATRIUM_DRAIN_TIMEOUT": "8s", "ATRIUM_SHUTDOWN_DELAY": "6s"},
		"queue-entries: many\nlog-format: xml\nadr: a:1\nMaxBody: 1\nidle-timeout: 1ms\nbatch-entries: 5000\nqueue-bytes: 1KiB\n")
	wantFaults(t, err,
		`ATRIUM_MAX_BODY: "1GB" is not a size such as 64KiB`,
		`ATRIUM_READ_TIMEOUT: "soon" is not a duration such as 90s or 7d`,
		`atrium.yaml: queue-entries: "many" is not an integer`,
		`atrium.yaml: unknown setting MaxBody`,
		`atrium.yaml: unknown setting adr: did you mean addr?`,
		`tls-cert and tls-key must be set together: --tls-cert is "chain.pem"`,
		`hsts must be whole seconds and not negative: --hsts is "1.5s"`,
		`http2-streams must be from 1 to 1000: --http2-streams is "0"`,
		"database must be sqlite: and a path, or postgres:// and a URL: check --database",
		`log-format must be auto, json or text: log-format in atrium.yaml is "xml"`,
		`log-level must be debug, info, warn or error: ATRIUM_LOG_LEVEL is "loud"`,
		`log-sample must not be negative: --log-sample is "-1"`,
		`max-header must be from 4KiB to 1MiB: --max-header is "1"`,
		"max-url must be at most max-header, which includes it",
		`idle-timeout must be from 1s to 1h: idle-timeout in atrium.yaml is "1ms"`,
		`drain-timeout must be from 0s to 7s: ATRIUM_DRAIN_TIMEOUT is "8s"`,
		`shutdown-delay must be from 0s to 5s: ATRIUM_SHUTDOWN_DELAY is "6s"`,
		`queue-bytes must be at least max-body: queue-bytes in atrium.yaml is "1KiB"`,
		`batch-entries must be from 1 to 4096: batch-entries in atrium.yaml is "5000"`,
	)
}

func TestFaultsNameTheValueAndItsOrigin(t *testing.T) {
	for _, c := range []struct {
		args        []string
		environment map[string]string
		file, fault string
	}{
		{nil, map[string]string{"ATRIUM_LOG_LEVEL": "loud"}, "", `log-level must be debug, info, warn or error: ATRIUM_LOG_LEVEL is "loud"`},
		{[]string{"--log-level=loud"}, nil, "", `log-level must be debug, info, warn or error: --log-level is "loud"`},
		{nil, nil, "log-level: loud", `atrium.yaml is "loud"`},
		{nil, map[string]string{"ATRIUM_LOG_LEVEL_FILE": secretFile(t, canary)}, "", "log-level must be debug, info, warn or error: check the file of ATRIUM_LOG_LEVEL_FILE"},
		{nil, map[string]string{"ATRIUM_DATABASE": "postgres:me:" + canary + "@db/x"}, "", "database must be sqlite: and a path, or postgres:// and a URL: check ATRIUM_DATABASE"},
		{nil, map[string]string{"ATRIUM_MAX_BODY": "32MiB"}, "", "batch-max-body must be at least max-body"},
	} {
		_, _, err := load(t, c.args, c.environment, c.file)
		if err == nil || !strings.HasSuffix(err.Error(), c.fault) && !strings.Contains(err.Error(), c.fault+"\n") || strings.Contains(err.Error(), canary) {
			t.Errorf("%v, want %s", err, c.fault)
		}
	}
}

func TestConfigFileIsOneMapping(t *testing.T) {
	const example = "write one setting on each line, such as addr: 127.0.0.1:8080"
	for text, fault := range map[string]string{
		"":                                  "",
		"# nothing\n":                       "",
		"addr: a:1\n":                       "",
		"log-sample: 010\n":                 "",
		"addr: a:1\naddr: a:2\n":            `atrium.yaml: line 2: addr is set twice`,
		"# only\n---\n":                     "",
		"addr:\n":                           "addr must be host:port",
		"- addr\n":                          "atrium.yaml: line 1: " + example,
		"addr=127.0.0.1:8080\n":             "atrium.yaml: line 1: " + example,
		"log-level: warn\naddr: [a, b]\n":   `atrium.yaml: line 2: "addr" must have one value: ` + example,
		"addr: a:1\n---\nlog-level: warn\n": "more than one YAML document",
		"addr: 'a\n":                        "atrium.yaml: line 2: found unexpected end of stream: " + example,
		"log-level: warn\naddr b\n":         "atrium.yaml: line 2: could not find expected ':': " + example,
	} {
		_, _, err := load(t, nil, nil, text+" ")
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}

// A command that needs one setting accepts the configuration file of a server.
func TestCommandIgnoresUnusedSettingsInAFile(t *testing.T) {
	c, settings, err := load(t, nil, nil, "database: sqlite:x.db\nqueue-entries: many\n", "database")
	if err != nil || c.Database != "sqlite:x.db" || len(settings) != 1 {
		t.Errorf("loaded %q and %v, %v", c.Database, settings, err)
	}
	_, _, err = load(t, nil, nil, "databas: sqlite:x.db\n", "database")
	wantFaults(t, err, "atrium.yaml: unknown setting databas: did you mean database?")
}

func TestDefaultsAreValid(t *testing.T) {
	c := Default()
	if faults := c.faults(); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestEverySettingHasAFlagAndHelp(t *testing.T) {
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l := Bind(flags, &c)
	if len(l.names) != len(usage) {
		t.Errorf("there are %d settings and %d usage texts", len(l.names), len(usage))
	}
	for _, name := range l.names {
		if flags.Lookup(name) == nil {
			t.Errorf("%s has no flag", name)
		}
	}
}

func TestSizesAreWholeBytesKiBMiBOrGiB(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1023": 1023, "1024": 1 << 10, "0KiB": 0, "1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "1024KiB": 1 << 20, "1GiB": 1 << 30,
		"007": 7, "2147483647": 1<<31 - 1, "2147483647MiB": (1<<31 - 1) << 20,
	} {
		var s Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v, want %d", text, s, err, want)
		}
		var again Size
		if err := again.Set(s.String()); s < 1<<31 && (err != nil || again != s) {
			t.Errorf("%q is written %q, which is %d, %v", text, s.String(), again, err)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "-0", "1.5KiB", "1 KiB", " 1", "1_000", "0x10", "1e3", "KiB", "MiB", "1kib", "1KB", "1k", "1GB", "1TiB", "1KiBMiB",
		"2147483648", "2147483648KiB", "99999999999999999999", "\u0661",
	} {
		s := Size(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for size, want := range map[Size]string{0: "0", 1: "1", 1000: "1000", 1 << 10: "1KiB", 1536: "1536", 1 << 20: "1MiB", 3 << 19: "1536KiB", 1 << 30: "1GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d is written %s, want %s", size, got, want)
		}
	}
}

func TestNamesFollowFromFields(t *testing.T) {
	for field, want := range map[string]string{"Addr": "addr ATRIUM_ADDR", "TLSKey": "tls-key ATRIUM_TLS_KEY", "HSTS": "hsts ATRIUM_HSTS", "HTTP2Streams": "http2-streams ATRIUM_HTTP2_STREAMS", "ReadHeaderTimeout": "read-header-timeout ATRIUM_READ_HEADER_TIMEOUT"} {
		if got := Name(field) + " " + Variable(Name(field)); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
}

func TestRedactTextHidesTheCredentialsOfEveryURL(t *testing.T) {
	for text, want := range map[string]string{
		"database is locked":                                                   "database is locked",
		"connect to postgres://me:s3cr3t@db/x: refused":                        "connect to postgres://xxxxx@db/x: refused",
		"postgres://me:s3@cr3t@db/x and https://me:s3cr3t@proxy/ do not reply": "postgres://xxxxx@db/x and https://xxxxx@proxy/ do not reply",
		"cannot parse `host=db password=s3cr3t user=me`":                       "cannot parse `host=db password=xxxxx user=me`",
		"see https://example.com/a":                                            "see https://example.com/a",
	} {
		if got := RedactText(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestRedactHidesPasswordsAndNothingElse(t *testing.T) {
	const secret = "s3cr3t"
	for value, want := range map[string]string{
		"":                                                   "",
		"127.0.0.1:8080":                                     "127.0.0.1:8080",
		"sqlite:/var/lib/atrium/a@b.db":                      "sqlite:/var/lib/atrium/a@b.db",
		"postgres://db.example/atrium":                       "postgres://db.example/atrium",
		"postgres://me@db.example/x":                         "postgres://me@db.example/x",
		"postgres://me:s3cr3t@db/x":                          "postgres://me:xxxxx@db/x",
		"postgres://me:s3cr3t%@db/x":                         "postgres://xxxxx@db/x",
		"postgres://me:s3cr3t/@db/x":                         "postgres://xxxxx@db/x",
		"postgres://me:1/s3cr3t@db/x":                        "postgres://xxxxx@db/x",
		"postgres://me:s3@cr3t@db/x":                         "postgres://me:xxxxx@db/x",
		"postgres://db/x?password=s3cr3t":                    "postgres://db/x?password=xxxxx",
		"postgres://db/x?sslpassword=s3cr3t&sslmode=require": "postgres://db/x?sslpassword=xxxxx&sslmode=require",
		"host=db password=s3cr3t user=me":                    "host=db password=xxxxx user=me",
		"host=db password = 's3cr3t \\' s3cr3t' user=me":     "host=db password = xxxxx user=me",
	} {
		got := Redact(value)
		if got != want || strings.Contains(got, secret) {
			t.Errorf("%s is shown as %s, want %s", value, got, want)
		}
	}
	_, settings, err := load(t, []string{"--database", "postgres://me:" + secret + "%@db/x"}, nil, "")
	wantFaults(t, err, "database must be sqlite: and a path, or postgres:// and a URL: check --database")
	for _, s := range settings {
		if strings.Contains(s.Value, secret) {
			t.Errorf("the setting %s shows a password", s.Name)
		}
	}
}

func TestDurationsAreWrittenWithTheirUnit(t *testing.T) {
	c, _, err := load(t, nil, map[string]string{"ATRIUM_IDLE_TIMEOUT": "1h", "ATRIUM_DRAIN_TIMEOUT": "0", "ATRIUM_EVENT_RETENTION": "9d"}, "write-timeout: 1m30s\n")
	if err != nil || c.IdleTimeout != time.Hour || c.EventRetention != 9*24*time.Hour || c.DrainTimeout != 0 || c.WriteTimeout != 90*time.Second {
		t.Errorf("loaded %+v, %v", c, err)
	}
	_, _, err = load(t, nil, map[string]string{"ATRIUM_IDLE_TIMEOUT": "60"}, "")
	wantFaults(t, err, `ATRIUM_IDLE_TIMEOUT: "60" is not a duration such as 90s or 7d`)
}

func TestInvalidSettingsAreReported(t *testing.T) {
	const address, database = "must be host:port, with a port from 0 to 65535", "must be sqlite: and a path, or postgres:// and a URL"
	for _, c := range []struct{ args, fault string }{
		{"--addr=nonsense", "addr " + address},
		{"--addr=127.0.0.1:99999", "addr " + address},
		{"--addr=127.0.0.1:", "addr " + address},
		{"--metrics-addr=9090", "metrics-addr " + address},
		{"--metrics-addr=127.0.0.1:8080", "metrics-addr must differ from addr"},
		{"--database=mysql://x", "database " + database},
		{"--database=sqlite:", "database " + database},
		{"--database=postgres:x", "database " + database},
		{"--database=postgres://me:%zz@db/x", "database " + database},
		{"--trusted-proxies=10.0.0.1,0.0.0.0/0", "trusted-proxies must not include every address: any client could then choose its own"},
		{"--trusted-proxies=::/0", "trusted-proxies must not include every address: any client could then choose its own"},
		{"--max-url=32KiB", "max-url must be at most max-header, which includes it"},
		{"--batch-max-body=1KiB", "batch-max-body must be at least max-body"},
		{"--max-client-connections=9000", "max-client-connections must be at most max-connections"},
		{"--read-header-timeout=31s", "read-header-timeout must be at most read-timeout, which includes it"},
	} {
		_, _, err := load(t, []string{c.args}, nil, "")
		name, value, _ := strings.Cut(c.args, "=")
		origin := fmt.Sprintf(": %s is %q", name, value)
		if name == "--database" {
			origin = ": check --database"
		}
		wantFaults(t, err, c.fault+origin)
	}
	for _, args := range [][]string{
		{"--addr=:0", "--metrics-addr=:0"}, {"--addr=[::1]:http"}, {"--database=postgresql://me@one:1,two:2/x"}, {"--max-url=32KiB", "--max-header=32KiB"},
	} {
		if _, _, err := load(t, args, nil, ""); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestTheShutdownDelayIsPartOfTheDrain(t *testing.T) {
	_, _, err := load(t, []string{"--shutdown-delay", "3s", "--drain-timeout", "2s"}, nil, "")
	wantFaults(t, err, "shutdown-delay must be at least a second less than drain-timeout, which includes it: --shutdown-delay is \"3s\"")
	if _, _, err := load(t, []string{"--shutdown-delay", "5s"}, nil, ""); err != nil {
		t.Error(err)
	}
}

func TestMisspelledVariablesAreFound(t *testing.T) {
	found := Misspellings([]string{
		"ATRIUM_LOG_SAMPEL=1", "ATRIUM_DATABSE_FILE=/x", "ATRIUM_LOG_SAMPLE=1", "ATRIUM_DATABASE_FILE=/x", "ATRIUM_CONFIG=/x",
		"ATRIUM_SERVER=x", "ATRIUM_KEY=x", "ATRIUM_KEY_FILE=x", "ATRIUM_PROFILE=x", "ATRIUM_MANAGE_KEY=x", "ATRIUM_OPERATOR_KEY=x",
		"ATRIUM_DEV=x", "ATRIUM_PORT=tcp://10.0.0.1:8080", "ATRIUM_SERVICE_HOST=10.0.0.1", "ATRIUM_TENNANT=x", "ATRIUM_ADRR=",
		"LOG_SAMPEL=1", "ATRIUM_=1",
	}, "ATRIUM_SERVER", "ATRIUM_KEY", "ATRIUM_PROFILE", "ATRIUM_TENANT")
	want := []Misspelling{
		{"ATRIUM_LOG_SAMPEL", "ATRIUM_LOG_SAMPLE"},
		{"ATRIUM_DATABSE_FILE", "ATRIUM_DATABASE_FILE"},
		{"ATRIUM_TENNANT", "ATRIUM_TENANT"},
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if text, want := found[0].String(), "ATRIUM_LOG_SAMPEL is not a setting: did you mean ATRIUM_LOG_SAMPLE?"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
