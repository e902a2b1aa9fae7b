package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"atrium"
)

// A meaning finds out what an argument stands for before somebody agrees to it, and
// makes the call one for that alone. It returns that for people, and what identifies it.
// nil stands for what the argument says.
type meaning func(context.Context, *client, *call) (shown, id string, err error)

// asks reports whether somebody at a terminal must agree to what cannot be undone. It
// is an error if nobody can.
func (o *operation) asks(cmd *cobra.Command) (bool, error) {
	if yes, _ := cmd.Flags().GetBool("yes"); o.confirm == "" || yes {
		return false, nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return false, usageError{errors.New("stdin is not a terminal: pass --yes to confirm")}
	}
	return true, nil
}

// agree asks, or has --yes speak for what the first argument names and nothing else.
func (o *operation) agree(cmd *cobra.Command, c *client, call *call, args []string, asks bool) error {
	if o.confirm == "" {
		return nil
	}
	shown, id := args[0], args[0]
	if o.means != nil {
		var err error
		if shown, id, err = o.means(cmd.Context(), c, call); err != nil {
			return err
		}
	}
	switch {
	case !asks && id != args[0]:
		return fmt.Errorf("%s is part of %s: nothing was changed: to confirm the whole, pass %s with --yes", args[0], shown, id)
	case !asks:
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %s? [y/N] ", o.confirm, shown)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if said := strings.ToLower(strings.TrimSpace(line)); said != "y" && said != "yes" {
		return errors.New("canceled: nothing was changed")
	}
	return nil
}

// wholeAccount is the meaning of an account: the one that it was merged into, with all
// that were. The call is for the state that was shown, unless it names one itself.
func wholeAccount(ctx context.Context, c *client, of *call) (shown, id string, err error) {
	a, err := c.ask(ctx, call{method: http.MethodGet, path: of.path})
	if err != nil {
		return "", "", err
	}
	var account struct {
		AccountID string           `json:"accountId"`
		Domain    string           `json:"domain"`
		Merged    []jsontext.Value `json:"merged"`
	}
	if err := json.Unmarshal(a.body, &account, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return "", "", fmt.Errorf("read account: %w", err)
	}
	of.path = "/accounts/" + url.PathEscape(account.AccountID)
	if tag := a.header.Get("ETag"); tag != "" && of.header.Get("If-Match") == "" {
		of.header.Set("If-Match", tag)
	}
	shown = fmt.Sprintf("%s (%s)", atrium.Printable(account.AccountID), atrium.Printable(account.Domain))
	switch n := len(account.Merged); n {
	case 0:
	case 1:
		shown += ", with 1 account merged into it"
	default:
		shown += fmt.Sprintf(", with %d accounts merged into it", n)
	}
	return shown, account.AccountID, nil
}
