package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/webhook"
)

// followWait is how long one request waits for an event.
const followWait = 20 * time.Second

// An eventReader reads the feed of a tenant.
type eventReader struct {
	client *client
	types  string // "" for all
	after  int64

	stderr io.Writer
	warned bool
}

// A feedPage is a response of the feed.
type feedPage struct {
	Items         []jsontext.Value `json:"items"`
	HasMore       bool             `json:"hasMore"`
	ContinueAfter int64            `json:"continueAfter"`
	Disabled      bool             `json:"disabled"`
}

// read returns the next events. With wait, it waits for one.
func (r *eventReader) read(ctx context.Context, query url.Values, wait bool) (page feedPage, err error) {
	query.Set("limit", "100")
	if r.types != "" {
		query.Set("types", r.types)
	}
	if wait {
		query.Set("waitSeconds", strconv.Itoa(int(followWait/time.Second)))
	}
	response, err := r.client.fetch(ctx, call{method: http.MethodGet, path: "/events", query: query})
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(response.body, &page, lenientJSON); err != nil {
		return page, fmt.Errorf("read response: %w", err)
	}
	if page.Disabled && !r.warned {
		r.warned = true
		warn(r.stderr, "the tenant has events disabled: enable them with atrium events set --enabled")
	}
	r.after = page.ContinueAfter
	return page, nil
}

// toEnd moves the reader to some events before the end, as far as they are stored.
func (r *eventReader) toEnd(ctx context.Context, back int64) error {
	types := r.types
	r.types = ""
	defer func() { r.types = types }()
	if _, err := r.read(ctx, url.Values{"since": {"9999-01-01T00:00:00Z"}}, false); err != nil || back == 0 {
		return err
	}
	start := max(r.after-back, atrium.EpochStart(r.after+1)-1) // of what came after the last restore
	_, err := r.read(ctx, url.Values{"after": {strconv.FormatInt(start, 10)}}, false)
	if r.after = start; atrium.CodeOf(err) != atrium.CodeGone {
		return err
	}
	page, err := r.read(ctx, url.Values{}, false) // the oldest ones
	var first struct {
		Position int64 `json:"position"`
	}
	if err == nil && len(page.Items) > 0 {
		err = json.Unmarshal(page.Items[0], &first, lenientJSON)
		r.after = first.Position - 1
	}
	return err
}

// each calls f with events after the current position, in order. With follow, it waits for more until ctx ends.
func (r *eventReader) each(ctx context.Context, follow bool, f func(jsontext.Value) error) error {
	for {
		page, err := r.read(ctx, url.Values{"after": {strconv.FormatInt(r.after, 10)}}, follow)
		select {
		case <-ctx.Done():
			return nil // interrupted: that is how it ends
		default:
		}
		if err != nil {
			return err
		}
		for _, event := range page.Items {
			if err := f(event); err != nil {
				return err
			}
		}
		if !page.HasMore && !follow {
			return nil
		}
	}
}

func newEventsTail(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tail", Short: "Print the newest events, one JSON object per line", Args: cobra.NoArgs,
		Long: `Print the newest events, one JSON object per line. With --follow, also print new ones as they happen, until the
command is interrupted.`,
		Example: "  atrium events tail --tenant tenant_… --follow --types account_log.created",
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "wait for new events")
	lines := cmd.Flags().Int64P("lines", "n", 10, "`number` of the newest events to begin with, of any type")
	types := cmd.Flags().String("types", "", "only events of these `types`, separated by commas")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, oneTenant) }
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if *lines < 0 {
			return usageError{errors.New("--lines must not be negative")}
		}
		return t.withClient(cmd, "", func(c *client) error {
			r := &eventReader{client: c, stderr: cmd.ErrOrStderr(), types: *types}
			if err := r.toEnd(cmd.Context(), *lines); err != nil {
				return err
			}
			return r.each(cmd.Context(), *follow, func(event jsontext.Value) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), string(event))
				return err
			})
		})
	})
	return cmd
}

// forwardNetworks are those to which events can be forwarded: this machine and private networks.
var forwardNetworks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
}

func newEventsForward(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "forward", Short: "Send new events to an endpoint that you develop", Args: cobra.NoArgs,
		Long: `Send each new event to a URL, as a webhook would, once and in order, until the command is interrupted. Print the secret
that the requests are signed with, and the result of each. Nothing is stored: use it to develop an endpoint.`,
		Example: "  atrium events forward --tenant tenant_… --to http://localhost:3000/hook",
	}
	to := cmd.Flags().String("to", "", "`URL` of the endpoint, also with http and on this machine")
	given := cmd.Flags().String("secret", "", "`secret` that signs requests, whsec_… (default: a new one)")
	types := cmd.Flags().String("types", "", "only events of these `types`, separated by commas")
	_ = cmd.MarkFlagRequired("to")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, oneTenant) }
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		secret := webhook.NewSecret()
		if *given != "" {
			var ok bool
			if secret, ok = webhook.ParseSecret(*given); !ok {
				return usageError{errors.New("--secret must be whsec_ and base64 of 24 to 64 bytes")}
			}
		}
		for _, f := range webhook.CheckURL(*to, forwardNetworks) {
			return usageError{fmt.Errorf("--to %s", f.Detail)}
		}
		sender := webhook.NewSender(webhook.Config{Allow: forwardNetworks})
		defer sender.Close()
		endpoint := webhook.Endpoint{URL: *to, Format: webhook.Standard, Secrets: [][]byte{secret}}
		return t.withClient(cmd, "", func(c *client) error {
			r := &eventReader{client: c, stderr: cmd.ErrOrStderr(), types: *types}
			if err := r.toEnd(cmd.Context(), 0); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Forwarding new events. The secret is %s\n", webhook.FormatSecret(secret))
			return r.each(cmd.Context(), true, func(event jsontext.Value) error {
				return forward(cmd.Context(), cmd.OutOrStdout(), sender, endpoint, event)
			})
		})
	})
	return cmd
}

// forward sends an event and prints the result.
func forward(ctx context.Context, w io.Writer, sender *webhook.Sender, endpoint webhook.Endpoint, event jsontext.Value) error {
	var e struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(event, &e, lenientJSON); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	a := sender.Send(ctx, endpoint, webhook.Message{ID: e.ID, Body: event}, time.Now())
	result := strconv.Itoa(a.Status)
	if a.Status == 0 {
		result = a.Detail
	}
	_, err := fmt.Fprintf(w, "%s %s: %s\n", atrium.Printable(e.Type), atrium.Printable(e.ID), atrium.Printable(result))
	return err
}
