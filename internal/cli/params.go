package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
)

// A param is a flag that sets a member of the body or a query parameter.
type param struct {
	flag         string
	name         string // name in the API; defaults to flag in camelCase
	kind         kind
	usage        string
	required     bool
	prompted     bool                     // typed at the prompt if the flag is not given
	nullable     bool                     // an empty text means null
	trailing     bool                     // can also be the last argument
	inQuery      bool                     // in the query even if the method is not GET
	check        func(text string) string // returns what is wrong with a text, or ""; nil if only the API checks it
	names        string                   // path parameter whose kind of resource the value names; "" for none
	parts        []param                  // flags that set members of a document instead; a slash separates levels
	subject      bool                     // an ID of any kind, or the domain of an account
	merged       bool                     // the account that the value names was merged into that of the path
	minimum      int64                    // for integer and seconds
	maximum      int64                    // for seconds; 0 for none
	values       []string                 // allowed values; nil for any
	defaultValue string                   // used if the flag is not given; "" for none
}

// A kind is the type of a flag and its encoding in JSON.
type kind int

// Kinds.
const (
	text     kind = iota
	integer       // integer
	boolean       // true or false
	list          // array of texts, separated by commas or by repeating the flag
	document      // JSON value, or the file named by the flag with -file
	scalar        // JSON string, number, true or false; any other text is a string
	instant       // time: a date or an RFC 3339 date-time
	seconds       // duration, sent as a number of seconds
	private       // text in the file named by the flag with -file, so that it is not in the list of processes
)

// member returns the name of the param in the API.
func (p *param) member() string {
	if p.name != "" {
		return p.name
	}
	words := strings.Split(p.flag, "-")
	for i := range words[1:] {
		words[i+1] = string(unicode.ToUpper(rune(words[i+1][0]))) + words[i+1][1:]
	}
	return strings.Join(words, "")
}

// fileFlag returns the name of the flag for a file with the document.
func (p *param) fileFlag() string { return p.flag + "-file" }

// addFlag adds the flag to a command.
func (p *param) addFlag(cmd *cobra.Command) {
	flags, usage := cmd.Flags(), p.usage+orDomain(p.names)
	if p.nullable {
		usage += "; '' for none"
	}
	switch p.kind {
	case text, scalar:
		flags.String(p.flag, p.defaultValue, usage)
	case instant:
		flags.String(p.flag, "", usage+", such as 2026-06-01 (00:00 UTC) or 2026-06-01T09:00:00+02:00")
	case integer:
		flags.Int64(p.flag, 0, usage)
	case boolean:
		flags.Bool(p.flag, false, usage)
	case list:
		flags.StringSlice(p.flag, nil, usage)
	case seconds:
		defaultValue, _ := config.ParseDuration(p.defaultValue) // 0 if empty
		addDuration(flags, p.flag, defaultValue, usage)
	case private:
		flags.String(p.fileFlag(), "", usage)
		return
	case document:
		flags.String(p.flag, "", usage)
		flags.String(p.fileFlag(), "", "`file` that contains the value of --"+p.flag+"; - for stdin")
		cmd.MarkFlagsMutuallyExclusive(p.flag, p.fileFlag())
		alternatives := append([]string{p.flag, p.fileFlag()}, p.addParts(cmd)...)
		if p.required {
			cmd.MarkFlagsOneRequired(alternatives...)
		}
		return
	}
	if p.required && !p.prompted {
		_ = cmd.MarkFlagRequired(p.flag)
	}
	if p.merged {
		_ = flags.SetAnnotation(p.flag, hintAnnotation, []string{"run atrium accounts get ACCOUNT_ID to list the accounts that were merged into it"})
	}
	if p.values != nil {
		_ = cmd.RegisterFlagCompletionFunc(p.flag, cobra.FixedCompletions(p.values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// addParts adds the flags of the parts and returns their names.
func (p *param) addParts(cmd *cobra.Command) (flags []string) {
	var nested []string
	for i := range p.parts {
		part := &p.parts[i]
		part.addFlag(cmd)
		cmd.MarkFlagsMutuallyExclusive(p.flag, part.flag)
		cmd.MarkFlagsMutuallyExclusive(p.fileFlag(), part.flag)
		flags = append(flags, part.flag)
		if strings.Contains(part.name, "/") {
			nested = append(nested, part.flag)
		}
	}
	if len(nested) > 1 {
		cmd.MarkFlagsRequiredTogether(nested...)
	}
	return flags
}

// trailingFlag returns the flag that the optional last argument sets, or "": of a trailing param, or of
// a path parameter that is in brackets.
func (o *operation) trailingFlag() string {
	for i := range o.params {
		if o.params[i].trailing {
			return o.params[i].flag
		}
	}
	for _, name := range o.pathFlags() {
		if strings.Contains(o.use, "["+strings.ToUpper(name)+"]") {
			return identifiers[name].flag()
		}
	}
	return ""
}

// setTrailing sets the trailing flag from the last argument, if there is one.
func (o *operation) setTrailing(cmd *cobra.Command, args []string) error {
	if len(args) == len(o.pathArgs()) {
		return nil
	}
	flag, last := o.trailingFlag(), args[len(args)-1]
	switch {
	case cmd.Flags().Changed(flag):
		return usageError{fmt.Errorf("argument %s conflicts with --%s: pass only one of them", last, flag)}
	case cmd.Flags().Set(flag, last) != nil:
		return usageError{fmt.Errorf("--%s: invalid value %q", flag, last)}
	}
	return nil
}

// value returns the value on the command line as JSON, or nil if there is none.
func (p *param) value(cmd *cobra.Command) (jsontext.Value, error) {
	flags := cmd.Flags()
	switch p.kind {
	case document:
		return p.document(cmd)
	case private:
		return p.private(cmd)
	}
	if !flags.Changed(p.flag) && p.defaultValue == "" {
		return nil, nil
	}
	var v any
	var err error
	switch p.kind {
	case text:
		var t string
		t, err = flags.GetString(p.flag)
		if v = t; t == "" && p.nullable {
			v = nil
		} else if err == nil {
			err = p.validate(t)
		}
	case instant:
		v, err = p.instant(cmd)
	case scalar:
		v, err = p.scalar(cmd)
	case integer:
		v, err = p.integer(cmd)
	case boolean:
		v, err = flags.GetBool(p.flag)
	case list:
		v, err = p.list(cmd)
	case seconds:
		v, err = p.seconds(cmd)
	}
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", p.flag, err)}
	}
	return b, nil
}

// nameParam returns the param for the name of a resource.
func nameParam(noun string, required bool) param {
	return param{
		flag: "name", usage: "`name` of " + noun + ", 1 to 255 characters", required: required,
		check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) },
	}
}

// validate checks a text against the allowed values and check.
func (p *param) validate(text string) error {
	switch {
	case p.values != nil && !slices.Contains(p.values, text):
		return usageError{fmt.Errorf("--%s: invalid value %q: must be one of %s", p.flag, text,
			strings.Join(p.values, ", "))}
	case p.check == nil || p.check(text) == "":
		return nil
	}
	return usageError{fmt.Errorf("--%s %s", p.flag, p.check(text))}
}

// list returns the values of a list without duplicates.
func (p *param) list(cmd *cobra.Command) (unique []string, err error) {
	values, err := cmd.Flags().GetStringSlice(p.flag)
	for _, t := range values {
		if err := p.validate(t); err != nil {
			return nil, err
		}
		if !slices.Contains(unique, t) {
			unique = append(unique, t)
		}
	}
	return unique, err
}

// instant returns a time in RFC 3339. A date is its first instant in UTC: times are printed in UTC too.
func (p *param) instant(cmd *cobra.Command) (string, error) {
	t, err := cmd.Flags().GetString(p.flag)
	if err != nil {
		return "", err
	}
	if _, err := time.Parse(time.DateOnly, t); err == nil {
		return t + "T00:00:00Z", nil
	}
	if _, err := atrium.ParseTime(t); err != nil {
		return "", usageError{fmt.Errorf("--%s: %q is not a date such as 2026-06-01 or a time with its zone such as "+
			"2026-06-01T09:00:00+02:00", p.flag, t)}
	}
	return t, nil
}

// understood returns the time on the command line in UTC, to add to a fault of it.
func (p *param) understood(cmd *cobra.Command) string {
	text, err := p.instant(cmd)
	if err != nil {
		return ""
	}
	at, err := atrium.ParseTime(text)
	if err != nil {
		return ""
	}
	return ": it is " + at.Std().Format(time.RFC3339)
}

func (p *param) scalar(cmd *cobra.Command) (any, error) {
	t, err := cmd.Flags().GetString(p.flag)
	if v := jsontext.Value(t); v.IsValid(lenientJSON) && v.Kind() != '{' && v.Kind() != '[' && v.Kind() != 'n' {
		return v, err
	}
	return t, err
}

func (p *param) integer(cmd *cobra.Command) (int64, error) {
	n, err := cmd.Flags().GetInt64(p.flag)
	if err == nil && n < p.minimum {
		err = usageError{fmt.Errorf("--%s must be at least %d", p.flag, p.minimum)}
	}
	return n, err
}

// seconds returns a duration as a number of seconds.
func (p *param) seconds(cmd *cobra.Command) (int64, error) {
	d, err := cmd.Flags().GetDuration(p.flag)
	switch least := time.Duration(p.minimum) * time.Second; {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, usageError{fmt.Errorf("--%s must not be negative", p.flag)}
	case d < least:
		return 0, usageError{fmt.Errorf("--%s must be at least %s", p.flag, least)}
	case p.maximum > 0 && d > time.Duration(p.maximum)*time.Second:
		return 0, usageError{fmt.Errorf("--%s must be at most %s", p.flag,
			formatDuration(time.Duration(p.maximum)*time.Second))}
	case d%time.Second != 0:
		return 0, usageError{fmt.Errorf("--%s must be whole seconds", p.flag)}
	}
	return int64(d / time.Second), nil
}

// document returns a JSON value unmodified. It checks only the syntax, so that the value can be put
// into a body: the API is stricter.
func (p *param) document(cmd *cobra.Command) (jsontext.Value, error) {
	var v jsontext.Value
	var err error
	where := "--" + p.flag
	switch file, _ := cmd.Flags().GetString(p.fileFlag()); {
	case cmd.Flags().Changed(p.flag):
		inline, _ := cmd.Flags().GetString(p.flag)
		v = jsontext.Value(inline)
	case !cmd.Flags().Changed(p.fileFlag()):
		return p.assemble(cmd)
	default:
		if where = file; file == "-" {
			where = "stdin"
		}
		v, err = readInput(cmd, file)
	}
	if err != nil {
		return nil, err
	}
	if !v.IsValid(lenientJSON) {
		return nil, usageError{errors.New(where + " must be one JSON value")}
	}
	return v, nil
}

// private returns the text in a file, without the end of its last line, or nil if there is none.
func (p *param) private(cmd *cobra.Command) (jsontext.Value, error) {
	file, _ := cmd.Flags().GetString(p.fileFlag())
	if file == "" {
		return nil, nil
	}
	b, err := readInput(cmd, file)
	if err != nil {
		return nil, err
	}
	return json.Marshal(strings.TrimRight(string(b), "\r\n"))
}

// readInput returns the contents of a file, or of stdin for "-".
func readInput(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

// whole reports whether the command line has the whole document.
func (p *param) whole(cmd *cobra.Command) bool {
	return cmd.Flags().Changed(p.flag) || cmd.Flags().Changed(p.fileFlag())
}

// assemble returns a document of the parts on the command line, or nil if there are none.
func (p *param) assemble(cmd *cobra.Command) (jsontext.Value, error) {
	var whole, inner object
	var innerName string
	for i := range p.parts {
		v, err := p.parts[i].value(cmd)
		if err != nil {
			return nil, err
		}
		name, below, nested := strings.Cut(p.parts[i].member(), "/")
		switch {
		case v == nil:
		case nested:
			innerName = name
			inner.add(below, v)
		default:
			whole.add(name, v)
		}
	}
	if b := inner.bytes(); b != nil {
		whole.add(innerName, b)
	}
	return whole.bytes(), nil
}

// queryText returns a value as text for a query.
func queryText(v jsontext.Value) (string, error) {
	switch v.Kind() {
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		return string(b), err
	case '[':
		var texts []string
		err := json.Unmarshal(v, &texts)
		return strings.Join(texts, ","), err
	}
	return string(v), nil
}

// An object builds a JSON object. It keeps the order of the members and does not modify their
// values.
type object struct{ b []byte }

func (o *object) add(name string, v jsontext.Value) {
	separator := byte(',')
	if o.b == nil {
		separator = '{'
	}
	o.b = append(append(append(append(o.b, separator), strconv.Quote(name)...), ':'), v...)
}

// bytes returns the object, or nil if it has no members.
func (o *object) bytes() []byte {
	if o.b == nil {
		return nil
	}
	return append(o.b, '}')
}
