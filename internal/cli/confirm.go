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
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"atrium"
)

// An affectedFunc determines the resource that a call affects if that can differ from the argument,
// and changes the call to name it. It returns a description for the prompt and the ID of the
// resource.
type affectedFunc func(context.Context, *client, *call) (description, id string, err error)

// A harmlessFunc reports whether the values on the command line are those of a call that destroys nothing.
type harmlessFunc func(*arguments) bool

// needsPrompt reports whether to ask for confirmation. It returns an error if that is required but
// stdin is not a terminal.
func (o *operation) needsPrompt(cmd *cobra.Command, values *arguments) (bool, error) {
	typed := o.promptedParam()
	if typed != nil && cmd.Flags().Changed(typed.flag) {
		return false, nil
	}
	check, _ := cmd.Flags().GetBool("check")
	if yes, _ := cmd.Flags().GetBool("yes"); o.confirm == "" || yes || check || o.harmless != nil && o.harmless(values) {
		return false, nil
	}
	if typed != nil {
		return true, requireTerminal(cmd, "--"+typed.flag+" with the name")
	}
	return true, requireTerminal(cmd, "--yes")
}

// requireTerminal returns an error if stdin is not a terminal. It says what to pass instead of a reply.
func requireTerminal(cmd *cobra.Command, instead string) error {
	if in, ok := cmd.InOrStdin().(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return usageError{errors.New("stdin is not a terminal: pass " + instead + " to confirm")}
	}
	return nil
}

// confirmChange asks for confirmation. --yes confirms only changes of the resource that the first
// argument names.
func (o *operation) confirmChange(cmd *cobra.Command, c *client, call *call, first string, prompt bool) error {
	typed := o.promptedParam()
	if o.confirm == "" || !prompt && (first == "" || typed != nil) {
		return nil
	}
	description, id := first, first
	if o.affected != nil {
		var err error
		if description, id, err = o.affected(cmd.Context(), c, call); err != nil {
			return err
		}
	}
	switch {
	case !prompt && id != first:
		return fmt.Errorf("%s is part of %s: nothing was changed: to confirm the whole, pass %s with --yes",
			first, description, id)
	case !prompt:
		return nil
	}
	if o.promptDetail != nil {
		description += o.promptDetail(cmd.Context(), c, *call)
	}
	confirmed, err := o.askChange(cmd, call, o.confirm+" "+description+"?")
	if err == nil && !confirmed {
		err = errors.New("canceled: nothing was changed")
	}
	return err
}

// askChange reports whether the user confirms the call: with the value of the prompted param, which
// becomes part of the call, or with yes.
func (o *operation) askChange(cmd *cobra.Command, call *call, question string) (bool, error) {
	typed := o.promptedParam()
	if typed == nil {
		return askYesNo(cmd, question)
	}
	name, err := ask(cmd, question+" To confirm, type its name:")
	call.query.Set(typed.member(), name)
	return name != "", err
}

// askYesNo asks a question and reports whether the reply is yes.
func askYesNo(cmd *cobra.Command, question string) (bool, error) {
	line, err := ask(cmd, question+" [y/N]")
	reply := strings.ToLower(strings.TrimSpace(line))
	return reply == "y" || reply == "yes", err
}

// ask prints a prompt and returns the line that the user types.
func ask(cmd *cobra.Command, prompt string) (string, error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s ", prompt)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// promptedParam returns the param whose value the user types at the prompt, or nil.
func (o *operation) promptedParam() *param {
	for i := range o.params {
		if o.params[i].prompted {
			return &o.params[i]
		}
	}
	return nil
}

// countedEntries returns how many entries an account has, or "" if that is unknown. It counts at most
// pageSize.
func countedEntries(ctx context.Context, c *client, erase call) string {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: erase.path + "/activity",
		query: url.Values{"limit": {strconv.Itoa(pageSize)}}})
	var page struct {
		Items   []jsontext.Value `json:"items"`
		HasMore bool             `json:"hasMore"`
	}
	switch {
	case err != nil || json.Unmarshal(response.body, &page, lenientJSON) != nil:
		return ""
	case page.HasMore:
		return fmt.Sprintf(" and more than %d entries", len(page.Items))
	}
	return " and " + atrium.Count(len(page.Items), "entry", "entries")
}

// namedPage returns the name of a page, and that its deletion can be undone.
func namedPage(ctx context.Context, c *client, remove call) string {
	const undo = "; atrium pages undelete restores it"
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: remove.path})
	var page struct {
		Name string `json:"name"`
	}
	if err != nil || json.Unmarshal(response.body, &page, lenientJSON) != nil {
		return undo
	}
	return " (" + atrium.Printable(page.Name) + ")" + undo
}

// survivingAccount returns the account that an account was merged into, or the account itself.
// Unless the call has If-Match, it gets the ETag of the state that is shown.
func survivingAccount(ctx context.Context, c *client, request *call) (description, id string, err error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: request.path})
	if err != nil {
		return "", "", err
	}
	var account struct {
		AccountID string           `json:"accountId"`
		Domain    string           `json:"domain"`
		Merged    []jsontext.Value `json:"merged"`
	}
	if err := json.Unmarshal(response.body, &account, lenientJSON); err != nil {
		return "", "", fmt.Errorf("read account: %w", err)
	}
	request.path = "/accounts/" + url.PathEscape(account.AccountID)
	if tag := response.header.Get("ETag"); tag != "" && request.header.Get("If-Match") == "" {
		request.header.Set("If-Match", tag)
	}
	description = fmt.Sprintf("%s (%s)", atrium.Printable(account.AccountID), atrium.Printable(account.Domain))
	if n := len(account.Merged); n > 0 {
		description += ", with " + atrium.Count(n, "account", "accounts") + " merged into it"
	}
	return description, account.AccountID, nil
}
