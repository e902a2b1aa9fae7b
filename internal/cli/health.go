package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"atrium/internal/config"
)

// healthTimeout is how long health waits for a response.
const healthTimeout = 5 * time.Second

func newHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the server on this machine whether it is ready",
		Long: `Send GET /readyz to the server on this machine that has the same settings, and exit with 0
if it is ready, or with 1 and the reason if it is not, or does not respond within 5 seconds.
It is meant for the health check of a container, which has no other HTTP client.

Other machines should check /readyz themselves.`,
		Example: `  atrium health
  atrium health --addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
	}
	load, _ := settingsFlags(cmd, config.Default())
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		settings, _, err := load()
		if err != nil {
			return err
		}
		if err := askReady(cmd.Context(), settings); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "ready")
		return nil
	})
	return cmd
}

// askReady asks the server with these settings on this machine whether it is ready.
func askReady(ctx context.Context, settings config.Config) error {
	addr, err := localAddr(settings.Addr)
	if err != nil {
		return usageError{err}
	}
	base := "http://" + addr
	if settings.TLSCert != "" {
		base = "https://" + addr
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		// The certificate is for another name. The server is on this machine, and nothing secret is sent.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	response, err := newClient(transport, base, "", "").http.Do(r)
	switch dial, ok := errors.AsType[*net.OpError](err); {
	case ok && dial.Op == "dial":
		return fmt.Errorf("connect to server %s: %w", base, dialError(dial.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("server %s: no response within %v", base, healthTimeout)
	case err != nil:
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("server %s is not ready: %w", base, responseError(response))
	}
	return nil
}

// localAddr returns an address at which this machine reaches a server that listens on addr.
func localAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "" || err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
