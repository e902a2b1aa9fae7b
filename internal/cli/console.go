package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
)

// loginAddress returns the address of the console that uses a login link.
func loginAddress(base, token string) string {
	return base + "/console/login?token=" + url.QueryEscape(token)
}

// loginText returns the address of a login link for people. It is relative without a server.
func loginText(base string, response jsontext.Value) (string, error) {
	var link struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(response, &link, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	return "\nThe address that signs the user in:\n" + loginAddress(base, link.Token), nil
}

// servedURL returns the URL of the console of a server with the settings: the public one, or one for a browser on its machine.
func servedURL(settings config.Config) string {
	if settings.PublicURL != "" {
		return settings.PublicURL
	}
	scheme := "http://"
	if settings.TLSCert != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(cmp.Or(settings.ConsoleAddr, settings.Addr))
	if err != nil || port == "0" { // an operator must say which port the server got
		return scheme + config.Default().Addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// minutes returns a duration of whole minutes for a sentence, such as "10 minutes".
func minutes(d time.Duration) string { return atrium.Count(int(d.Minutes()), "minute", "minutes") }

// consoleCommands are the commands of the console that are not those of its users.
func consoleCommands() group {
	return group{name: "console", short: "Sign in to the console", extraCommands: []func(*target) *cobra.Command{newConsoleLogin}}
}

func newConsoleLogin(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "login [USER_ID]", Short: "Print an address that signs you in to the console", Args: cobra.MaximumNArgs(1),
		Long: `Print an address of the console that signs a user in once, within ` + minutes(atrium.LoginLinkLife) + `.

Without USER_ID, the command works on the database and signs in the only operator, or creates
one. With several, name yours, with --operator. An operator manages all tenants.`,
		Example: "  atrium console login\n  atrium console login user_… --operator\n  atrium console login user_… --tenant tenant_… --url https://atrium.example.com",
	}
	operatorFlag(cmd, t)
	base := cmd.Flags().String("url", "", "`URL` of the console's server (default: that of --server, or of the settings public-url, console-addr and addr)")
	out := outputFlag(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if err := requireLocal(cmd); err != nil {
				return err
			}
			t.operator = true
		}
		return t.resolve(cmd, tenantOrLocalOperators)
	}
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		if *base != "" {
			checked, err := parseServer(*base)
			if err != nil {
				return err
			}
			*base = checked
		}
		return t.withClient(cmd, "", func(c *client) error {
			var user string
			var err error
			if len(args) == 1 {
				user = args[0]
				err = checkID("user_id", user)
			} else {
				user, err = onlyOperator(cmd.Context(), c)
			}
			if err != nil {
				return err
			}
			return printLogin(cmd, out, c, user, cmp.Or(*base, c.serverURL(), c.served))
		})
	})
	return cmd
}

// onlyOperator returns the operator, and creates one if there is none.
func onlyOperator(ctx context.Context, c *client) (id string, err error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: "/users", query: url.Values{"limit": {"2"}}})
	if err != nil {
		return "", err
	}
	var found struct {
		Items []struct {
			UserID string `json:"userId"`
		} `json:"items"`
	}
	if err := json.Unmarshal(response.body, &found, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	switch len(found.Items) {
	case 1:
		return found.Items[0].UserID, nil
	case 2:
		return "", usageError{errors.New("there are several operators: pass USER_ID with --operator; run atrium users list --operator to list them")}
	}
	body, err := json.Marshal(map[string]any{"name": cmp.Or(os.Getenv("USER"), "operator"), "role": atrium.RoleOperator})
	if err != nil {
		return "", err
	}
	response, err = c.fetch(ctx, call{method: http.MethodPost, path: "/users", body: strings.NewReader(string(body))})
	if err != nil {
		return "", err
	}
	var made struct {
		UserID string `json:"userId"`
	}
	err = json.Unmarshal(response.body, &made, lenientJSON)
	return made.UserID, err
}

// printLogin creates a login link of a user and prints its address.
func printLogin(cmd *cobra.Command, out *output, c *client, user, base string) error {
	response, err := c.fetch(cmd.Context(), call{method: http.MethodPost, path: "/users/" + url.PathEscape(user) + "/login_link"})
	if err != nil {
		return err
	}
	var link struct {
		UserID    string `json:"userId"`
		ExpiresAt string `json:"expiresAt"`
		Token     string `json:"token"`
	}
	if err := json.Unmarshal(response.body, &link, lenientJSON); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	view := struct {
		UserID    string `json:"userId"`
		ExpiresAt string `json:"expiresAt"`
		URL       string `json:"url"`
	}{link.UserID, link.ExpiresAt, loginAddress(base, link.Token)}
	return out.print(cmd, view, func(w io.Writer) {
		fmt.Fprintf(w, "%s\n\nIt works once, until %s.\n", view.URL, view.ExpiresAt)
	})
}
