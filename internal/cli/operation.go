package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// An operation is a command that is one operation of the management API.
type operation struct {
	use     string // the name, and the arguments: parameters of the path in capitals
	short   string
	long    string // besides; "" for nothing
	example string

	method string
	path   string  // a parameter that is no argument has a flag: {page_id} has --page
	params []param // of the query if the method is GET, else of the body

	once    bool    // takes an idempotency key
	state   state   // whether it takes If-Match
	confirm string  // what somebody must agree to, with the first argument; "" for nothing
	means   meaning // of that argument
	first   bool    // what a database may begin with: it is made if there is none
	owner   owner   // whose data it works on
	shows   shape
	columns []column
	items   map[string]inWords // of the items of a member, each on a line of its own if it shows upright
	partsIn string             // the member that the rows are in if it shows parts
	checked inWords            // with --check
	remark  string             // on a line of its own, below the first one that is upright
}

// An inWords puts a JSON value into words for people.
type inWords func(jsontext.Value) (string, error)

// An owner says whose data an operation works on.
type owner int

// The owners. A server knows the tenant of a key, so that it is needed on the database
// alone.
const (
	oneTenant     owner = iota // that of --tenant
	nobody                     // no tenant's
	orOperators                // that of --tenant, or with --operator what is no tenant's
	operatorsHere              // the same, but --operator is for the database alone
	ofTheKey                   // that of --tenant, or else of the key that the argument names
)

// A state says what an operation must know of the thing that it changes.
type state int

// The states.
const (
	anyState   state = iota
	givenState       // the one that --if-match names
	seenState        // the one that --if-match names, or else the current one, which is read before
)

// A shape is what is printed of an answer.
type shape int

// The shapes.
const (
	oneRow   shape = iota // a table with a row
	upright               // a line for each column
	rows                  // a table with a row for each item of a list, all of whose pages are read
	bare                  // a line, without headings
	parts                 // a table with a row for each item of a member
	verbatim              // the body as it comes
	nothing
)

var pathParam = regexp.MustCompile(`\{([a-z_]+)\}`)

// arguments are the words of the use line that are parameters of the path.
func (o *operation) arguments() []string {
	return slices.DeleteFunc(strings.Fields(strings.ToLower(o.use)), func(word string) bool {
		return !strings.Contains(o.path, "{"+word+"}")
	})
}

// pathFlags are the other parameters of the path.
func (o *operation) pathFlags() (names []string) {
	for _, m := range pathParam.FindAllStringSubmatch(o.path, -1) {
		if !slices.Contains(o.arguments(), m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// command returns the command that is the operation.
func (o *operation) command(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: o.use, Short: o.short, Long: o.short + ".", Example: o.example, Args: cobra.ExactArgs(len(o.arguments()))}
	if slices.ContainsFunc(o.params, func(p param) bool { return p.trailing }) {
		cmd.Args = cobra.RangeArgs(len(o.arguments()), len(o.arguments())+1)
	}
	if o.long != "" {
		cmd.Long += "\n\n" + o.long
	}
	for _, name := range o.pathFlags() {
		kind := identifiers[name]
		cmd.Flags().String(kind.flag(), "", "`ID` of "+kind.noun)
		_ = cmd.MarkFlagRequired(kind.flag())
	}
	for i := range o.params {
		o.params[i].addTo(cmd)
	}
	if o.shows == rows {
		cmd.Flags().Int("limit", 0, "maximum number of items to print; 0 for all")
	}
	if o.once {
		cmd.Flags().String("idempotency-key", "", "`key` that makes the command safe to repeat: it takes effect once")
	}
	if o.state != anyState {
		usage := "`etag` that the resource must have for the change to apply"
		if o.state == seenState {
			usage += " (default: the current one, read just before the change)"
		}
		cmd.Flags().String("if-match", "", usage)
	}
	if o.confirm != "" {
		cmd.Flags().Bool("yes", false, "skip the confirmation prompt")
	}
	var out *output
	if o.shows != verbatim && o.shows != nothing {
		out = outputFlag(cmd)
	}
	if o.owner == orOperators || o.owner == operatorsHere {
		operatorFlag(cmd, t)
	}
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := o.takeTrailing(cmd, args); err != nil {
			return err
		}
		return t.resolve(cmd, o.owner)
	}
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		call, err := o.call(cmd, args)
		if err != nil {
			return err
		}
		asks, err := o.asks(cmd)
		if err != nil {
			return err
		}
		var key string
		if o.owner == ofTheKey {
			key = args[0]
		}
		t.mayMake = o.first && (o.owner == nobody || t.operators)
		return t.with(cmd, key, func(c *client) error {
			if err := o.agree(cmd, c, &call, args, asks); err != nil {
				return o.reword(cmd, args, t, err)
			}
			return o.reword(cmd, args, t, o.do(cmd, c, call, out))
		})
	})
	return cmd
}

// call returns the request that the command line stands for.
func (o *operation) call(cmd *cobra.Command, args []string) (call, error) {
	c := call{method: o.method, query: url.Values{}, header: http.Header{}}
	values := map[string]string{}
	for i, name := range o.arguments() {
		values[name] = args[i]
	}
	for _, name := range o.pathFlags() {
		values[name], _ = cmd.Flags().GetString(identifiers[name].flag())
	}
	for name, value := range values {
		if err := checkID(name, value); err != nil {
			return c, err
		}
	}
	c.path = pathParam.ReplaceAllStringFunc(o.path, func(m string) string { return url.PathEscape(values[m[1:len(m)-1]]) })
	var body object
	for i := range o.params {
		p := &o.params[i]
		v, err := p.value(cmd)
		switch {
		case err != nil:
			return c, err
		case v == nil:
		case p.inQuery || o.method == http.MethodGet:
			text, err := queryText(v)
			if err != nil {
				return c, err
			}
			c.query.Set(p.member(), text)
		default:
			body.add(p.member(), v)
		}
	}
	if b := body.bytes(); b != nil {
		c.body = bytes.NewReader(b)
	} else if len(o.params) > 0 && (o.method == http.MethodPatch || o.method == http.MethodPut) {
		return c, usageError{errors.New("nothing to change: pass at least one of " + o.flagNames())}
	}
	if key, _ := cmd.Flags().GetString("idempotency-key"); o.once && cmd.Flags().Changed("idempotency-key") {
		c.header.Set("Idempotency-Key", key)
	}
	if tag, _ := cmd.Flags().GetString("if-match"); o.state != anyState && cmd.Flags().Changed("if-match") {
		c.header.Set("If-Match", tag)
	}
	return c, nil
}

// flagNames are the flags of the params, for people.
func (o *operation) flagNames() string {
	var names []string
	for i := range o.params {
		names = append(names, "--"+o.params[i].flag)
	}
	return strings.Join(names, ", ")
}

// do sends the call and prints the answer.
func (o *operation) do(cmd *cobra.Command, c *client, call call, out *output) error {
	ctx := cmd.Context()
	if o.state == seenState && call.header.Get("If-Match") == "" {
		tag, err := currentState(ctx, c, call.path)
		if err != nil {
			return err
		}
		call.header.Set("If-Match", tag)
	}
	switch o.shows {
	case rows:
		most, _ := cmd.Flags().GetInt("limit")
		if most < 0 {
			return usageError{errors.New("--limit must not be negative")}
		}
		return printList(ctx, c, call, most, newListing(cmd.OutOrStdout(), out.form, o.columns))
	case verbatim:
		response, err := c.do(ctx, call)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		return pour(ctx, cmd.OutOrStdout(), response.Body)
	}
	a, err := c.ask(ctx, call)
	if err != nil || len(a.body) == 0 {
		return err
	}
	if out.form == formJSON {
		return writeIndented(cmd.OutOrStdout(), a.body)
	}
	if check, _ := cmd.Flags().GetBool("check"); check && o.checked != nil {
		text, err := o.checked(a.body)
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		}
		return err
	}
	return o.table(cmd.OutOrStdout(), a.body)
}

// currentState returns the entity tag of what is at the path.
func currentState(ctx context.Context, c *client, path string) (string, error) {
	a, err := c.ask(ctx, call{method: http.MethodGet, path: path})
	if err != nil {
		return "", err
	}
	tag := a.header.Get("ETag")
	if tag == "" {
		return "", errors.New("read response: no ETag header")
	}
	return tag, nil
}
