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
)

// A param is a flag that sets a member of the body or a query parameter.
type param struct {
	flag         string
	name         string // name in the API; defaults to flag in camelCase
	kind         kind
	usage        string
	required     bool
	nullable     bool                     // an empty text means null
	trailing     bool                     // can also be the last argument
	inQuery      bool                     // in the query even if the method is not GET
	check        func(text string) string // returns what is wrong with a text, or ""; nil if only the API checks it
	minimum      int64                    // for integer and seconds
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
	seconds       // duration, sent as a number of seconds
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
	flags, usage := cmd.Flags(), p.usage
	if p.nullable {
		usage += "; '' for none"
	}
	switch p.kind {
	case text:
		flags.String(p.flag, p.defaultValue, usage)
	case integer:
		flags.Int64(p.flag, 0, usage)
	case boolean:
		flags.Bool(p.flag, false, usage)
	case list:
		flags.StringSlice(p.flag, nil, usage)
	case seconds:
		defaultValue, _ := time.ParseDuration(p.defaultValue) // 0 if empty
		flags.Duration(p.flag, defaultValue, usage)
	case document:
		flags.String(p.flag, "", usage)
		flags.String(p.fileFlag(), "", "`file` that contains the value of --"+p.flag+"; - for stdin")
		cmd.MarkFlagsMutuallyExclusive(p.flag, p.fileFlag())
		if p.required {
			cmd.MarkFlagsOneRequired(p.flag, p.fileFlag())
		}
		return
	}
	if p.required {
		_ = cmd.MarkFlagRequired(p.flag)
	}
	if p.values != nil {
		_ = cmd.RegisterFlagCompletionFunc(p.flag, cobra.FixedCompletions(p.values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// setTrailing sets the flag of the trailing param from the last argument, if there is one.
func (o *operation) setTrailing(cmd *cobra.Command, args []string) error {
	if len(args) == len(o.pathArgs()) {
		return nil
	}
	last := args[len(args)-1]
	for i := range o.params {
		p := &o.params[i]
		switch {
		case !p.trailing:
		case cmd.Flags().Changed(p.flag):
			return usageError{fmt.Errorf("argument %s conflicts with --%s: pass only one of them", last, p.flag)}
		case cmd.Flags().Set(p.flag, last) != nil:
			return usageError{fmt.Errorf("--%s: invalid value %q", p.flag, last)}
		}
	}
	return nil
}

// value returns the value on the command line as JSON, or nil if there is none.
func (p *param) value(cmd *cobra.Command) (jsontext.Value, error) {
	flags := cmd.Flags()
	if p.kind == document {
		return p.document(cmd)
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
		return nil, nil
	case file == "-":
		where = "stdin"
		v, err = io.ReadAll(cmd.InOrStdin())
	default:
		where = file
		v, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	if !v.IsValid(lenientJSON) {
		return nil, usageError{errors.New(where + " must be one JSON value")}
	}
	return v, nil
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
