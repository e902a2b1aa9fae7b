package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
)

// An operation is a command that calls one operation of the management API.
type operation struct {
	use     string // name, and path parameters as arguments in capitals
	short   string
	long    string // appended to short; may be empty
	example string

	method string
	path   string  // path parameters without an argument have a flag: {page_id} has --page
	params []param // query parameters of GET, otherwise members of the body

	idempotent   bool         // accepts --idempotency-key
	ifMatch      ifMatch      // accepts --if-match
	resource     string       // path of the resource that keeps what the parts of a document do not set; "" for none
	confirm      string       // verb of the prompt, followed by the first argument; "" for no prompt. A param can be prompted for instead of y
	affected     affectedFunc // resource that the call affects; nil for the first argument
	harmless     harmlessFunc // whether the call needs no prompt in spite of confirm; nil for never
	tenancy      tenancy      // whose data it works on
	serverOnly   bool         // needs a running server
	layout       layout
	mediaType    string // that the response must have, for layoutRaw; "" for any
	columns      []column
	included     []column              // columns that --include adds, for layoutList
	items        string                // plural noun of the rows; defaults to the name of the group
	itemFormats  map[string]formatFunc // formats of list items by member, one line per item, for layoutDetails
	rowsMember   string                // member that contains the rows, for layoutMember
	checkFormat  formatFunc            // format of the response with --check
	checkRows    []column              // columns of its items as CSV; nil if it has the same columns as without
	note         string                // printed below the first line, for layoutDetails
	optional     string                // member whose line is omitted if it is empty, for layoutDetails
	address      addressFunc           // text with a URL that is printed after a table, for layoutDetails; may be nil
	csvColumns   []column              // columns that only CSV has, for layoutList
	none         noneFunc              // explains an empty list; may be nil
	promptDetail promptFunc            // adds to the prompt what the call affects; may be nil
	done         string                // printed to stderr if the response is empty
	before       func(call) call       // what to read before the call, for advise; may be nil
	advise       adviseFunc            // may be nil
}

// A formatFunc formats a JSON value for people.
type formatFunc func(jsontext.Value) (string, error)

// A tenancy is whose data an operation works on.
type tenancy int

// Tenancies. With a server, the tenant is that of the key, or with an operator key the one that the
// target names. On the database, it is the one that the target names, or the only one.
const (
	oneTenant              tenancy = iota // a tenant
	noTenant                              // data outside of tenants
	tenantOrOperators                     // a tenant, or --operator
	tenantOrLocalOperators                // a tenant, or --operator on the database only
	tenantOfKey                           // a tenant; on the database, that of the key that the argument names
)

// An ifMatch is how an operation uses the If-Match header.
type ifMatch int

// Uses of If-Match.
const (
	noIfMatch       ifMatch = iota
	optionalIfMatch         // sent if --if-match is given
	requiredIfMatch         // always sent; the default is the current ETag, which is read first
)

// A layout is how a response is printed.
type layout int

// Layouts.
const (
	layoutRow     layout = iota // table with one row
	layoutDetails               // one line per column
	layoutList                  // table of all pages of a list, one row per item
	layoutValue                 // one line without headings
	layoutMember                // table of the items of one member
	layoutRaw                   // unmodified body
	layoutNone
)

var pathParam = regexp.MustCompile(`\{([a-z_]+)\}`)

// pathArgs returns the path parameters that are arguments.
func (o *operation) pathArgs() []string {
	return slices.DeleteFunc(strings.Fields(strings.ToLower(o.use)), func(word string) bool {
		return !strings.Contains(o.path, "{"+word+"}")
	})
}

// pathFlags returns the path parameters that are flags.
func (o *operation) pathFlags() (names []string) {
	for _, m := range pathParam.FindAllStringSubmatch(o.path, -1) {
		if !slices.Contains(o.pathArgs(), m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// command returns the cobra command of the operation.
func (o *operation) command(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: o.use, Short: o.short, Long: o.short + ".", Example: o.example,
		Args: o.checkArgs}
	if o.long != "" {
		cmd.Long += "\n\n" + o.long
	}
	if slices.Contains(o.pathArgs(), "account_id") {
		cmd.Long += "\n\nACCOUNT_ID is the ID of an account or its domain, such as northwind.example."
	}
	for _, name := range o.pathFlags() {
		kind := identifiers[name]
		cmd.Flags().String(kind.flag(), "", "`ID` of "+kind.noun+orDomain(name))
		_ = cmd.MarkFlagRequired(kind.flag())
	}
	for i := range o.params {
		o.params[i].addFlag(cmd)
	}
	if o.layout == layoutList {
		cmd.Flags().Int("limit", 0, "maximum number of items to print; 0 for all")
	}
	if o.idempotent {
		cmd.Flags().String("idempotency-key", "", "`key` that makes the command safe to repeat: it takes effect once")
	}
	if o.ifMatch != noIfMatch {
		usage := "`etag` that the resource must have for the change to apply"
		if o.ifMatch == requiredIfMatch {
			usage += " (default: the current one, read just before the change)"
		}
		cmd.Flags().String("if-match", "", usage)
	}
	if o.confirm != "" && o.promptedParam() == nil {
		cmd.Flags().Bool("yes", false, "skip the confirmation prompt")
	}
	var out *output
	if o.layout != layoutRaw && o.layout != layoutNone {
		out = o.outputFlag(cmd)
	}
	if o.tenancy == tenantOrOperators || o.tenancy == tenantOrLocalOperators {
		operatorFlag(cmd, t)
	}
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := o.setTrailing(cmd, args); err != nil {
			return err
		}
		if err := t.resolve(cmd, o.tenancy); err != nil {
			return err
		}
		if o.serverOnly && !t.remote() {
			return usageError{errors.New("the command shows a running server: pass --server or --profile, or set " + envServer)}
		}
		return nil
	}
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		values, err := o.parse(cmd, args)
		if err != nil {
			return err
		}
		call, err := o.build(cmd, values)
		if err != nil {
			return err
		}
		prompt, err := o.needsPrompt(cmd, values)
		if err != nil {
			return err
		}
		var key string
		if o.tenancy == tenantOfKey {
			key = args[0]
		}
		return t.withClient(cmd, key, func(c *client) error {
			first := ""
			if len(args) > 0 {
				first = args[0]
			}
			first, err := values.resolve(cmd.Context(), c, o, first)
			if err != nil {
				return o.translate(cmd, args, t, err)
			}
			if call, err = o.build(cmd, values); err != nil {
				return err
			}
			if err := o.confirmChange(cmd, c, &call, first, prompt); err != nil {
				return o.translate(cmd, args, t, err)
			}
			err = o.locate(cmd.Context(), c, call, o.do(cmd, c, call, out))
			return o.translate(cmd, args, t, err)
		})
	})
	return cmd
}

// parse returns the values on the command line.
func (o *operation) parse(cmd *cobra.Command, args []string) (*arguments, error) {
	values := &arguments{path: map[string]string{}, params: make([]jsontext.Value, len(o.params))}
	for i, name := range o.pathArgs() {
		values.path[name] = args[i]
	}
	for _, name := range o.pathFlags() {
		values.path[name], _ = cmd.Flags().GetString(identifiers[name].flag())
	}
	for name, value := range values.path {
		if isDomain(name, value) {
			continue
		}
		if err := checkID(name, value); err != nil {
			return nil, err
		}
	}
	for i := range o.params {
		var err error
		if values.params[i], err = o.params[i].value(cmd); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// newCall builds the request from the command line, for operations that name no account.
func (o *operation) newCall(cmd *cobra.Command, args []string) (call, error) {
	values, err := o.parse(cmd, args)
	if err != nil {
		return call{}, err
	}
	return o.build(cmd, values)
}

// build builds the request from the values on the command line.
func (o *operation) build(cmd *cobra.Command, values *arguments) (call, error) {
	c := call{method: o.method, query: url.Values{}, header: http.Header{}}
	c.path = pathParam.ReplaceAllStringFunc(o.path,
		func(m string) string { return url.PathEscape(values.path[m[1:len(m)-1]]) })
	var body object
	for i := range o.params {
		p, v := &o.params[i], values.params[i]
		switch {
		case v == nil:
		case p.inQuery || o.method == http.MethodGet:
			text, err := queryText(v)
			if err != nil {
				return c, err
			}
			c.query.Set(p.member(), text)
		default:
			body.add(p.member(), v)
			if o.resource != "" && p.parts != nil && !p.whole(cmd) {
				c.partial = append(c.partial, p.member())
			}
		}
	}
	if b := body.bytes(); b != nil {
		c.body = bytes.NewReader(b)
	} else if len(o.params) > 0 && (o.method == http.MethodPatch || o.method == http.MethodPut) {
		return c, usageError{errors.New("nothing to change: pass at least one of " + o.flagNames())}
	}
	if key, _ := cmd.Flags().GetString("idempotency-key"); o.idempotent && cmd.Flags().Changed("idempotency-key") {
		c.header.Set("Idempotency-Key", key)
	}
	if tag, _ := cmd.Flags().GetString("if-match"); o.ifMatch != noIfMatch && cmd.Flags().Changed("if-match") {
		c.header.Set("If-Match", tag)
	}
	return c, nil
}

// flagNames returns the names of all flags of the params, for an error.
func (o *operation) flagNames() string {
	var names []string
	for i := range o.params {
		names = append(names, "--"+o.params[i].flag)
	}
	return strings.Join(names, ", ")
}

// do sends the call and prints the response.
func (o *operation) do(cmd *cobra.Command, c *client, call call, out *output) error {
	ctx := cmd.Context()
	if len(call.partial) > 0 {
		if err := o.complete(ctx, c, &call); err != nil {
			return err
		}
	}
	if o.ifMatch == requiredIfMatch && call.header.Get("If-Match") == "" {
		tag, err := currentETag(ctx, c, call.path)
		if err != nil {
			return err
		}
		call.header.Set("If-Match", tag)
	}
	switch o.layout {
	case layoutList:
		limit, _ := cmd.Flags().GetInt("limit")
		if limit < 0 {
			return usageError{errors.New("--limit must not be negative")}
		}
		l := newListing(cmd.OutOrStdout(), out.form, o.printed(cmd, out.form))
		if err := printList(ctx, c, call, limit, l); err != nil {
			return err
		}
		items := o.items
		if o.none != nil {
			items += o.none(cmd)
		}
		return l.end(cmd.ErrOrStderr(), items)
	case layoutRaw:
		response, err := o.stream(ctx, c, call)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		return copyResponse(ctx, cmd.OutOrStdout(), response.Body)
	}
	var before jsontext.Value
	if o.before != nil { // if this fails, there is no advice
		if current, err := c.fetch(ctx, o.before(call)); err == nil {
			before = current.body
		}
	}
	response, err := c.fetch(ctx, call)
	if err != nil {
		return err
	}
	if len(response.body) == 0 {
		if o.done != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), o.done)
		}
		return nil
	}
	if err := o.print(cmd, c, out, response.body); err != nil || o.advise == nil {
		return err
	}
	if text := o.advise(ctx, c, effect{call, before, response.body}); text != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), atrium.Printable(text))
	}
	return nil
}

// complete adds to the partial members of a body what the resource has there, without members that are empty. A change then
// requires that the resource stays as it was read.
func (o *operation) complete(ctx context.Context, c *client, call *call) error {
	depth := strings.Count(o.resource, "/")
	path := "/" + strings.Join(strings.Split(call.path, "/")[1:depth+1], "/")
	response, err := c.fetch(ctx, getCall(path))
	if err != nil {
		return err
	}
	var current, body map[string]jsontext.Value
	if err := json.Unmarshal(response.body, &current, lenientJSON); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	if err := json.UnmarshalRead(call.body, &body, lenientJSON); err != nil {
		return err
	}
	for _, member := range call.partial {
		whole := map[string]jsontext.Value{}
		if v, ok := current[member]; ok {
			if err := json.Unmarshal(v, &whole, lenientJSON); err != nil {
				return fmt.Errorf("read %s of the response: %w", member, err)
			}
		}
		if err := json.Unmarshal(body[member], &whole, lenientJSON); err != nil {
			return err
		}
		maps.DeleteFunc(whole, func(_ string, v jsontext.Value) bool { return string(v) == `""` })
		if body[member], err = json.Marshal(whole); err != nil {
			return err
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	call.body = bytes.NewReader(b)
	if o.ifMatch == requiredIfMatch && call.header.Get("If-Match") == "" {
		call.header.Set("If-Match", response.header.Get("ETag"))
	}
	return nil
}

// print prints the response of a change or a single resource.
func (o *operation) print(cmd *cobra.Command, c *client, out *output, body jsontext.Value) error {
	if out.form == formJSON {
		return writeIndented(cmd.OutOrStdout(), body)
	}
	switch check, _ := cmd.Flags().GetBool("check"); {
	case check && o.checkFormat != nil && out.form == formTable:
		text, err := o.checkFormat(body)
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		}
		return err
	case check && o.checkRows != nil && out.form == formCSV:
		return writePage(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.checkRows, body)
	}
	if err := o.writeRows(cmd.OutOrStdout(), cmd.ErrOrStderr(), out.form, body); err != nil || o.address == nil || out.form != formTable {
		return err
	}
	text, err := o.address(c.serverURL(), body)
	if err == nil && text != "" {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), printableLines(text))
	}
	return err
}

// outputFlag adds the flag for the format of the response. A single value is not CSV.
func (o *operation) outputFlag(cmd *cobra.Command) *output {
	if o.layout == layoutValue {
		return outputFlag(cmd)
	}
	return outputFlag(cmd, formCSV)
}

// printed returns the columns of a list, with those that the format and --include add.
func (o *operation) printed(cmd *cobra.Command, form string) []column {
	columns := slices.Clone(o.columns)
	if form == formCSV {
		columns = append(columns, o.csvColumns...)
	}
	included, _ := cmd.Flags().GetString("include")
	for _, c := range o.included {
		if c.member == included {
			columns = append(columns, c)
		}
	}
	return columns
}

// currentETag returns the ETag of the resource at the path.
func currentETag(ctx context.Context, c *client, path string) (string, error) {
	response, err := c.fetch(ctx, getCall(path))
	if err != nil {
		return "", err
	}
	tag := response.header.Get("ETag")
	if tag == "" {
		return "", errors.New("read response: no ETag header")
	}
	return tag, nil
}
