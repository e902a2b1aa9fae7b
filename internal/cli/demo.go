package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/transfer"
)

// demoData is a small fictional tenant, with domains that are reserved for examples (RFC 2606).
//
//go:embed demo.ndjson
var demoData string

const demoTenant = "Demo"

// The default database of the demo, and the keys of its secrets, in the current directory.
const (
	demoFile = "atrium-demo.db"
	demoKeys = "atrium-demo.keys"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve the API with demo data and print example commands",
		Long: `Serve the API like atrium serve, with a demo tenant, sample data and a new key for each
API. Print the keys to stdout, with curl commands and atrium commands to try.

Each start creates two keys; the first start also creates the demo tenant, and a file with
the keys of secrets. The command refuses a database that has tenants but no demo tenant.`,
		Args: cobra.NoArgs,
	}
	defaults := config.Default()
	defaults.Database, defaults.SecretsKeyFile = "sqlite:"+demoFile, demoKeys
	load, loader := settingsFlags(cmd, defaults)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		settings, origins, err := load()
		if err = errors.Join(err, misspelledTarget(cmd)); err != nil {
			return err
		}
		if err := createKeys(settings.SecretsKeyFile); err != nil {
			return err
		}
		return serve(cmd.Context(), settings, origins, loadingFindings(loader), cmd.ErrOrStderr(),
			func(a *app.App, s *store.Store) error {
				tenant, key, operator, err := prepareDemo(cmd.Context(), s)
				if err != nil {
					return err
				}
				login, err := demoLogin(cmd.Context(), s, tenant)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), demoText, key, a.Addr(), operator, tenant,
						shellQuote(os.Args[0]), shellQuote(config.Redact(settings.Database)), loginAddress("http://"+a.Addr(), login),
						shellQuote(settings.SecretsKeyFile))
				}
				return err
			})
	})
	return cmd
}

// createKeys creates the file with the keys of secrets, unless it exists or there is no path.
func createKeys(path string) error {
	if _, err := os.Stat(path); path == "" || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, _, err := secrets.AddKey(path, false); err != nil {
		return fmt.Errorf("secrets-key-file: %w", err)
	}
	return nil
}

// instants matches the instants of the demo data.
var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

// recent returns data with its instants moved by whole days, so that the newest one is less than a day before
// now: a demo shows what a service in use does.
func recent(data string, now time.Time) string {
	newest := slices.Max(instants.FindAllString(data, -1)) // they sort as text
	last, err := time.Parse(time.RFC3339, newest)
	if err != nil {
		return data
	}
	days := int(now.Sub(last) / (24 * time.Hour))
	return instants.ReplaceAllStringFunc(data, func(text string) string {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return text
		}
		return at.AddDate(0, 0, days).Format("2006-01-02T15:04:05.000Z")
	})
}

// prepareDemo creates the demo tenant if it does not exist, and two keys for it: one for the
// external API and one for the management API.
func prepareDemo(ctx context.Context, s *store.Store) (id atrium.TenantID, key, operator string, err error) {
	tenant, err := findDemo(ctx, s)
	if err != nil {
		return "", "", "", err
	}
	if tenant.ID == "" { // later starts keep what was changed since
		if others, _, err := s.Tenants(ctx, nil, 1); err != nil || len(others) > 0 {
			return "", "", "", cmp.Or(err, errOtherTenants)
		}
		if tenant, _, err = s.CreateTenant(ctx, atrium.CommandLine(atrium.OperatorChain), demoTenant); err != nil {
			return "", "", "", err
		}
		if _, err := transfer.Import(ctx, s, tenant.ID, strings.NewReader(recent(demoData, time.Now())), transfer.Options{}); err != nil {
			return "", "", "", fmt.Errorf("import sample data: %w", err)
		}
	}
	newKey := func(name string, scopes atrium.Scopes) (text string, err error) {
		id, text, hash := auth.NewKey()
		_, _, err = s.CreateKey(ctx, atrium.CommandLine(tenant.ID), atrium.APIKey{ID: id, Name: name, Scopes: scopes},
			hash)
		return text, err
	}
	if key, err = newKey("demo", atrium.ExternalScopes()); err != nil {
		return "", "", "", err
	}
	operator, err = newKey("demo operator", atrium.Scopes{atrium.ScopeManage})
	return tenant.ID, key, operator, err
}

// demoLogin returns the token of a login link for the admin of the demo tenant, whom it creates if there is
// none.
func demoLogin(ctx context.Context, s *store.Store, tenant atrium.TenantID) (token string, err error) {
	users, _, err := s.Users(ctx, tenant, nil, pageSize)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(users, func(u atrium.User) bool { return u.Role == atrium.RoleAdmin && u.Issuer == "" })
	var admin atrium.User
	if i >= 0 {
		admin = users[i]
	} else if admin, _, err = s.CreateUser(ctx, atrium.CommandLine(tenant), atrium.User{
		ID: atrium.NewID[atrium.UserID](), Name: "Demo admin", Role: atrium.RoleAdmin,
	}); err != nil {
		return "", err
	}
	id, token, hash := auth.NewLoginToken()
	_, err = s.CreateLoginLink(ctx, atrium.CommandLine(tenant), atrium.LoginLink{ID: id, UserID: admin.ID}, hash,
		func(atrium.User) error { return nil })
	return token, err
}

// errOtherTenants protects the database of a service: the demo tenant and its keys would stay in it.
var errOtherTenants = errors.New("the database has tenants, but no demo tenant: run atrium demo on an empty database")

// findDemo returns the oldest demo tenant. Its ID is empty if there is none.
func findDemo(ctx context.Context, s *store.Store) (demo atrium.Tenant, err error) {
	var after *atrium.Position
	for more := true; more; {
		var page []atrium.Tenant
		if page, more, err = s.Tenants(ctx, after, pageSize); err != nil {
			return demo, err
		}
		for _, t := range page {
			if t.Name == demoTenant {
				demo = t
			}
			after = atrium.PositionAt(0, t.ID)
		}
	}
	return demo, nil
}

const demoText = `
Atrium is running with a demo tenant. Open the console; the link works once, within ten minutes:

%[7]s

Or paste these into another terminal:

export ATRIUM_KEY=%[1]s
export ATRIUM_MANAGE_KEY=%[3]s

# record activity; this creates an account for the domain
curl -sw '\n' http://%[2]s/v0/account_logs -H "x-api-key: $ATRIUM_KEY" -H 'Content-Type: application/json' \
  -d '{"source":"crm","type":"deal.won","domain":"https://www.acme.example","name":"Acme","payload":{"deal":"D-1042","amount":4200.00},"idempotencyKey":"deal-1"}'

# read an account with its prospects
curl -sw '\n' http://%[2]s/v0/accounts/account_01kzdemo0000000000000000a1 -H "x-api-key: $ATRIUM_KEY"

# rename it
curl -sw '\n' -X PATCH http://%[2]s/v0/accounts/account_01kzdemo0000000000000000a1 -H "x-api-key: $ATRIUM_KEY" \
  -H 'Content-Type: application/json' -d '{"name":"Northwind Labs"}'

# list pages, then read one
curl -sw '\n' "http://%[2]s/v0/pages?status=published&limit=2" -H "x-api-key: $ATRIUM_KEY"
curl -sw '\n' http://%[2]s/v0/pages/page_01kzdemo0000000000000000p1 -H "x-api-key: $ATRIUM_KEY"

# list the versions of an audience
curl -sw '\n' "http://%[2]s/v0/pages/page_01kzdemo0000000000000000p1/audiences/audience_01kzdemo0000000000000000s1/versions?include=archived" \
  -H "x-api-key: $ATRIUM_KEY"

# as a site: read what is published of a public page, without a key
curl -sw '\n' http://%[2]s/content/v0/%[4]s/pages/page_01kzdemo0000000000000000p1

# as an operator: find an account by name, then list its activity
curl -sw '\n' "http://%[2]s/manage/v0/accounts?q=north" -H "x-api-key: $ATRIUM_MANAGE_KEY"
curl -sw '\n' http://%[2]s/manage/v0/accounts/account_01kzdemo0000000000000000a1/activity -H "x-api-key: $ATRIUM_MANAGE_KEY"

# on the command line, in this directory: commands work on the database, without a key
# the tenant is %[4]s
export ATRIUM_SECRETS_KEY_FILE=%[8]s
%[5]s accounts list --database %[6]s --tenant %[4]s --search north
%[5]s accounts activity northwind.example --database %[6]s --tenant %[4]s
%[5]s pages list --database %[6]s --tenant %[4]s --status published

All APIs: http://%[2]s/docs, http://%[2]s/docs/manage and http://%[2]s/docs/content; webhooks: http://%[2]s/docs/events and http://%[2]s/docs/receive    Stop with Ctrl-C.

`
