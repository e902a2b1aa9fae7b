package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// Environment variables that select the target.
const (
	envServer  = "ATRIUM_SERVER"
	envKey     = "ATRIUM_KEY"
	envProfile = "ATRIUM_PROFILE"
	envTenant  = "ATRIUM_TENANT"
)

// A target is what a command works on: the management API of a server, or the same API on a
// database, in this process.
type target struct {
	server, key, profile, tenant string
	keyVariable                  string // environment variable that has the key; "" if it is not from one
	operator                     bool   // operators instead of a tenant
	onlyTenant                   bool   // the tenant is the only one of the database
	databaseName                 string // database without its password; "" until it is opened
	database                     func(stderr io.Writer) (config.Config, error)
}

// serverSettings are settings of a server that also apply to operations on the database, or that say where
// the server is. They can be set in the environment or the settings file.
var serverSettings = []string{"max-body", "batch-max-body", "keep-versions", "addr", "console-addr", "public-url", "tls-cert", "tls-key", "secrets-key-file", "webhook-allow"}

// targetFlags adds the flags that select the target.
func targetFlags(flags *pflag.FlagSet) *target {
	t := &target{}
	others := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { others[f.Name] = true })
	flags.StringVar(&t.server, "server", "",
		"`URL` of a running server to call instead of the database (environment: "+envServer+")")
	flags.StringVar(&t.key, "key", "", "API `key` for --server; visible in ps, prefer "+envKey+" or "+envKey+"_FILE")
	flags.StringVar(&t.profile, "profile", "",
		"JSON `file` with server, key and tenant, mode 0600 (environment: "+envProfile+")")
	flags.StringVar(&t.tenant, "tenant", "", "`ID` of the tenant; with a server, only for operator keys (environment: "+
		envTenant+"; default: the only tenant of the database)")
	t.database = databaseFlags(flags, serverSettings...)
	for _, name := range serverSettings {
		_ = flags.MarkHidden(name)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !others[f.Name] {
			_ = flags.SetAnnotation(f.Name, ofTarget, nil)
		}
	})
	return t
}

// operatorFlag adds the flag that selects operators instead of a tenant.
func operatorFlag(cmd *cobra.Command, t *target) {
	cmd.Flags().BoolVar(&t.operator, "operator", false, "apply the command to operators instead of a tenant")
}

// markExclusiveFlags makes conflicting flags an error. Call it after targetFlags, on the command
// that has these flags.
func markExclusiveFlags(cmd *cobra.Command) {
	for _, other := range []string{"server", "key", "database"} {
		cmd.MarkFlagsMutuallyExclusive("profile", other)
	}
	cmd.MarkFlagsMutuallyExclusive("database", "server")
	cmd.MarkFlagsMutuallyExclusive("database", "key")
}

// resolve determines the target after flag parsing. It returns an error if something is missing.
func (t *target) resolve(cmd *cobra.Command, tenancy tenancy) error {
	if err := t.resolveServer(cmd); err != nil {
		return err
	}
	switch {
	case t.operator && cmd.Flags().Changed("tenant"):
		return usageError{errors.New("--operator and --tenant cannot be used together")}
	case t.operator && t.remote() && tenancy == tenantOrLocalOperators: // the server would use the tenant of the key
		return usageError{errors.New("operator keys cannot be managed through a server: run the command on the " +
			"database")}
	case t.operator:
		t.tenant = "" // the profile may have one
	case t.tenant != "", tenancy == noTenant, tenancy == tenantOfKey && !t.remote(), t.usesProfile():
	case os.Getenv(envTenant) != "":
		t.tenant = os.Getenv(envTenant)
		if err := t.checkTenant(); err != nil {
			return usageError{fmt.Errorf("%s: %w", envTenant, err)}
		}
	default:
		t.onlyTenant = !t.remote() // a server knows the tenant of the key
	}
	return nil
}

// usesProfile reports whether the server is that of a profile.
func (t *target) usesProfile() bool { return t.remote() && t.profile != "" }

// resolveServer sets the server and its key. Flags override the environment. A profile is used
// completely or not at all, so that no key is sent to a different server.
func (t *target) resolveServer(cmd *cobra.Command) error {
	if cmd.Flags().Changed("database") {
		return nil
	}
	explicit := cmd.Flags().Changed("server") || cmd.Flags().Changed("key")
	profile := os.Getenv(envProfile)
	switch {
	case t.profile != "":
		return t.readProfile(t.profile)
	case !explicit && profile != "" && os.Getenv(envServer) != "":
		return usageError{fmt.Errorf("%s and %s are both set: unset one of them", envProfile, envServer)}
	case !explicit && profile != "":
		return t.readProfile(profile)
	}
	if t.server == "" {
		t.server = os.Getenv(envServer)
	}
	switch {
	case t.server == "" && explicit:
		return usageError{errors.New("--key requires --server")}
	case t.server == "":
		return nil
	case t.key != "":
		warn(cmd.ErrOrStderr(),
			fmt.Sprintf("--key is visible in the process list: set %s or %[1]s_FILE instead", envKey))
	default:
		key, warning, err := config.ReadVariable(os.LookupEnv, envKey)
		if err != nil {
			return usageError{err}
		}
		if t.key = key; warning != "" {
			warn(cmd.ErrOrStderr(), warning)
		}
		t.keyVariable = envKey
		if os.Getenv(envKey) == "" {
			t.keyVariable = envKey + "_FILE"
		}
	}
	if t.key == "" {
		return usageError{fmt.Errorf("no API key for the server: set %s or %[1]s_FILE, or pass --profile", envKey)}
	}
	return nil
}

// readProfile sets the server and the key from a profile, and the tenant unless it is set.
func (t *target) readProfile(path string) error {
	p, err := readProfile(path)
	if err != nil {
		return usageError{err}
	}
	t.profile, t.server, t.key = path, p.Server, p.Key
	if t.tenant == "" {
		t.tenant = p.Tenant
	}
	return nil
}

// remote reports whether the target is a server.
func (t *target) remote() bool { return t.server != "" }

// withClient calls f with a client of the target. On the database, the tenant defaults to that of
// the key with the ID key, which may be empty.
func (t *target) withClient(cmd *cobra.Command, key string, f func(*client) error) error {
	if err := t.checkTenant(); err != nil {
		return err
	}
	if t.remote() {
		base, err := parseServer(t.server)
		if err != nil {
			return err
		}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			ExpectContinueTimeout: time.Second}
		defer transport.CloseIdleConnections()
		c := newClient(transport, base, t.key, t.tenant)
		if t.operator {
			if err := c.requireOperatorKey(cmd.Context()); err != nil {
				return err
			}
		}
		return f(c)
	}
	return t.withStore(cmd, func(settings config.Config, s *store.Store) error {
		tenant, err := t.tenantFor(cmd.Context(), s, key)
		if err != nil {
			return err
		}
		log := telemetry.NewLogger(cmd.ErrOrStderr(), "text", "error") // the command prints other errors itself
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		handler, err := app.Manage(ctx, app.Config{Settings: settings, Store: s, Log: log})
		if err != nil {
			return err
		}
		transport := &inProcess{handler: handler}
		defer transport.wait() // before the store is closed
		c := newClient(transport, inProcessURL, "", tenant)
		c.served = servedURL(settings)
		return f(c)
	})
}

func (t *target) checkTenant() error {
	if t.tenant == string(atrium.OperatorChain) { // stands for operators in the database
		return errors.New("tenant " + t.tenant + " not found")
	}
	if t.tenant == "" {
		return nil
	}
	return checkID("tenant_id", t.tenant)
}

// withStore calls f with the store that --database names, after applying migrations.
func (t *target) withStore(cmd *cobra.Command, f func(config.Config, *store.Store) error) (err error) {
	settings, err := t.database(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	t.databaseName = config.Redact(settings.Database)
	if err := requireDatabase(settings); err != nil {
		return err
	}
	s, err := openStore(cmd.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Migrate(cmd.Context()); err != nil {
		return fmt.Errorf("migrate %s: %w", t.databaseName, err)
	}
	return f(settings, s)
}

// requireDatabase returns an error if the SQLite database does not exist. Only serve, demo, migrate
// and restore create one: other commands in the wrong directory would work on an empty database.
func requireDatabase(settings config.Config) error {
	path, ok := strings.CutPrefix(settings.Database, "sqlite:")
	if _, err := os.Stat(path); !ok || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	hint := ""
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), demoFile)); err == nil {
		hint = "; for the demo, pass --database sqlite:" + demoFile
	}
	return fmt.Errorf("no database at %s: pass --database, set ATRIUM_DATABASE, or run atrium migrate to create it%s", path, hint)
}

// requireLocal returns an error if the environment selects a server and the command works only on a
// database, unless --database names one.
func requireLocal(cmd *cobra.Command) error {
	for _, variable := range []string{envProfile, envServer} {
		if os.Getenv(variable) != "" && !cmd.Flags().Changed("database") {
			return usageError{fmt.Errorf("%s selects a server, but %s works only on a database: pass --database, or unset "+
				"%[1]s", variable, cmd.CommandPath())}
		}
	}
	return nil
}

// tenantFor returns the tenant of a request on the database.
func (t *target) tenantFor(ctx context.Context, s *store.Store, key string) (string, error) {
	switch {
	case t.operator:
		return string(atrium.OperatorChain), nil
	case t.tenant != "":
		return t.tenant, nil
	case key != "":
		k, _, _, err := s.Key(ctx, atrium.KeyID(key))
		if atrium.CodeOf(err) == atrium.CodeNotFound {
			return "", fmt.Errorf("key %s not found in database %s", key, t.databaseName)
		}
		return string(cmp.Or(k.TenantID, atrium.OperatorChain)), err
	case !t.onlyTenant:
		return "", nil
	}
	tenants, more, err := s.Tenants(ctx, nil, 1)
	switch {
	case err != nil:
		return "", err
	case len(tenants) == 0:
		return "", fmt.Errorf("database %s has no tenants: run atrium tenants create", t.databaseName)
	case more:
		return "", usageError{fmt.Errorf("database %s has several tenants: pass --tenant or set %s; run atrium tenants "+
			"list to list them", t.databaseName, envTenant)}
	}
	t.tenant = string(tenants[0].ID)
	return t.tenant, nil
}

// parseServer returns the URL of a server without a trailing slash.
func parseServer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", usageError{errors.New("server URL must be http:// or https:// and a host, without user, query " +
			"or fragment")}
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}
