package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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

// The environment variables that say what the commands work on.
const (
	envServer  = "ATRIUM_SERVER"
	envKey     = "ATRIUM_KEY"
	envProfile = "ATRIUM_PROFILE"
)

// targetHelp is what the help of every command says that has a target.
const targetHelp = `By default, the command works directly on the database, with all permissions. With
--server or a profile, it calls a running server, with the permissions of an API key.

A key passed with --key is visible in the process list. Set ` + envKey + `, set
` + envKey + `_FILE to the path of a file that contains the key, or use a profile: a
JSON file with mode 0600 that contains {"server":…,"key":…,"tenant":…}.`

// A target is what a command works on: the management API of a server, or the same
// one on a database, in this process.
type target struct {
	server, key, profile, tenant string
	operators                    bool   // what is no tenant's, instead of a tenant
	mayMake                      bool   // makes the database if there is none
	asked                        string // the database, without its password; "" before it is opened
	database                     func(stderr io.Writer) (config.Config, error)
}

// served are settings of a server that hold for the same operations on the database.
// The environment and the file may have them.
var served = []string{"max-body", "batch-max-body", "keep-versions"}

// targetFlags adds the flags that say what commands work on.
func targetFlags(flags *pflag.FlagSet) *target {
	t := &target{}
	flags.StringVar(&t.server, "server", "", "`URL` of a running server to call instead of the database (environment: "+envServer+")")
	flags.StringVar(&t.key, "key", "", "API `key` for --server; visible in ps, prefer "+envKey+" or "+envKey+"_FILE")
	flags.StringVar(&t.profile, "profile", "", "JSON `file` with server, key and tenant, mode 0600 (environment: "+envProfile+")")
	flags.StringVar(&t.tenant, "tenant", "", "`ID` of the tenant; with --server, only for operator keys")
	t.database = databaseFlags(flags, served...)
	for _, name := range served {
		_ = flags.MarkHidden(name)
	}
	return t
}

// operatorFlag adds the flag for what is no tenant's.
func operatorFlag(cmd *cobra.Command, t *target) {
	cmd.Flags().BoolVar(&t.operators, "operator", false, "apply the command to operators instead of a tenant")
}

// excludeFlags refuses what contradicts itself. It is called after targetFlags, for
// the command that has them.
func excludeFlags(cmd *cobra.Command) {
	for _, other := range []string{"server", "key", "database"} {
		cmd.MarkFlagsMutuallyExclusive("profile", other)
	}
	cmd.MarkFlagsMutuallyExclusive("database", "server")
	cmd.MarkFlagsMutuallyExclusive("database", "key")
}

// resolve decides what the command works on, once its line is read, and says what of
// that is missing.
func (t *target) resolve(cmd *cobra.Command, of owner) error {
	if err := t.find(cmd); err != nil {
		return err
	}
	switch {
	case t.operators && cmd.Flags().Changed("tenant"):
		return usageError{errors.New("--operator and --tenant cannot be used together")}
	case t.operators && t.remote() && of == operatorsHere: // which would take the tenant of the key
		return usageError{errors.New("operator keys cannot be managed through a server: run the command on the database")}
	case t.operators:
		t.tenant = "" // of a profile
	case t.remote() || t.tenant != "": // a server knows the tenant of a key
	case of == oneTenant:
		return cmd.MarkFlagRequired("tenant")
	case of == orOperators, of == operatorsHere:
		cmd.MarkFlagsOneRequired("tenant", "operator")
	}
	return nil
}

// find takes the server and its key from where they are: a flag comes before the
// environment, and a profile is taken as a whole or not at all, so that no key is sent
// to a server that it is not for.
func (t *target) find(cmd *cobra.Command) error {
	if cmd.Flags().Changed("database") {
		return nil
	}
	given := cmd.Flags().Changed("server") || cmd.Flags().Changed("key")
	profile := os.Getenv(envProfile)
	switch {
	case t.profile != "":
		return t.readProfile(t.profile)
	case !given && profile != "" && os.Getenv(envServer) != "":
		return usageError{fmt.Errorf("%s and %s are both set: unset one of them", envProfile, envServer)}
	case !given && profile != "":
		return t.readProfile(profile)
	}
	if t.server == "" {
		t.server = os.Getenv(envServer)
	}
	switch {
	case t.server == "" && given:
		return usageError{errors.New("--key requires --server")}
	case t.server == "":
		return nil
	case t.key != "":
		warn(cmd.ErrOrStderr(), fmt.Sprintf("--key is visible in the process list: set %s or %[1]s_FILE instead", envKey))
	default:
		key, warning, err := config.ReadVariable(os.LookupEnv, envKey)
		if err != nil {
			return usageError{err}
		}
		if t.key = key; warning != "" {
			warn(cmd.ErrOrStderr(), warning)
		}
	}
	if t.key == "" {
		return usageError{fmt.Errorf("no API key for the server: set %s or %[1]s_FILE, or pass --profile", envKey)}
	}
	return nil
}

// readProfile takes the server and the key of a profile, and its tenant unless there
// is one.
func (t *target) readProfile(path string) error {
	p, err := readProfile(path)
	if err != nil {
		return usageError{err}
	}
	t.server, t.key = p.Server, p.Key
	if t.tenant == "" {
		t.tenant = p.Tenant
	}
	return nil
}

// remote reports whether the target is a server.
func (t *target) remote() bool { return t.server != "" }

// with calls f with a client of the target. On the database, the tenant is that of the
// key unless one is named; key may be "".
func (t *target) with(cmd *cobra.Command, key string, f func(*client) error) error {
	if err := t.checkTenant(); err != nil {
		return err
	}
	if t.remote() {
		base, err := parseServer(t.server)
		if err != nil {
			return err
		}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, ExpectContinueTimeout: time.Second}
		defer transport.CloseIdleConnections()
		c := newClient(transport, base, t.key, t.tenant)
		if t.operators {
			if err := c.mustBeOperators(cmd.Context()); err != nil {
				return err
			}
		}
		return f(c)
	}
	return t.onDatabase(cmd, func(settings config.Config, s *store.Store) error {
		tenant, err := t.tenantOn(cmd.Context(), s, key)
		if err != nil {
			return err
		}
		log := telemetry.NewLogger(cmd.ErrOrStderr(), "text", "error") // the command says itself what else went wrong
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		handler, err := app.Manage(ctx, app.Config{Settings: settings, Store: s, Log: log})
		if err != nil {
			return err
		}
		transport := &inProcess{handler: handler}
		defer transport.wait() // before the store is closed
		return f(newClient(transport, inThisProcess, "", tenant))
	})
}

func (t *target) checkTenant() error {
	if t.tenant == string(atrium.OperatorChain) { // which the database takes for --operator
		return errors.New("tenant " + t.tenant + " not found")
	}
	if t.tenant == "" {
		return nil
	}
	return checkID("tenant_id", t.tenant)
}

// onDatabase calls f with the migrated store that --database names.
func (t *target) onDatabase(cmd *cobra.Command, f func(config.Config, *store.Store) error) (err error) {
	settings, err := t.database(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	t.asked = config.Redact(settings.Database)
	if path, ok := strings.CutPrefix(settings.Database, "sqlite:"); ok && path != "" && !t.mayMake {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("database %s does not exist: pass --database, set ATRIUM_DATABASE, or run atrium migrate to create it", path)
		}
	}
	s, err := openStore(cmd.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Migrate(cmd.Context()); err != nil {
		return fmt.Errorf("migrate %s: %w", t.asked, err)
	}
	return f(settings, s)
}

// tenantOn returns the tenant that a request to the database is for.
func (t *target) tenantOn(ctx context.Context, s *store.Store, key string) (string, error) {
	switch {
	case t.operators:
		return string(atrium.OperatorChain), nil
	case t.tenant != "" || key == "":
		return t.tenant, nil
	}
	k, _, _, err := s.Key(ctx, atrium.KeyID(key))
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return "", fmt.Errorf("key %s not found in database %s", key, t.asked)
	}
	return string(cmp.Or(k.TenantID, atrium.OperatorChain)), err
}

// parseServer returns the URL of a server without a slash at its end.
func parseServer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", usageError{errors.New("server URL must be http:// or https:// and a host, without user, query or fragment")}
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}
