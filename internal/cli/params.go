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

// A param is a flag of a command that is a member of the body or a parameter of the
// query.
type param struct {
	flag     string
	name     string // in the API; "" stands for that of the flag in camelCase
	kind     kind
	usage    string
	required bool
	nullable bool                     // an empty text stands for null
	trailing bool                     // may be given as an argument instead, behind those of the path
	inQuery  bool                     // also of what is not GET
	check    func(text string) string // says what is wrong with a text, or ""; nil for what the API alone can judge
	least    int64                    // of a number, or of seconds
	values   []string                 // all that it can be, or can have in it; nil if nobody can list them
	initial  string                   // what it is unless it is given; "" for nothing
}

// A kind is what a flag is and what becomes of it.
type kind int

// The kinds.
const (
	text     kind = iota
	integer       // a whole number
	boolean       // true or false
	list          // texts, with commas or by repeating the flag
	document      // a JSON value, or the file that has it in the flag with -file
	seconds       // a duration, that becomes a number of seconds
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

// fileFlag returns the flag for the file that has a document.
func (p *param) fileFlag() string { return p.flag + "-file" }

// addTo adds the flag to a command.
func (p *param) addTo(cmd *cobra.Command) {
	flags, usage := cmd.Flags(), p.usage
	if p.nullable {
		usage += "; '' for none"
	}
	switch p.kind {
	case text:
		flags.String(p.flag, p.initial, usage)
	case integer:
		flags.Int64(p.flag, 0, usage)
	case boolean:
		flags.Bool(p.flag, false, usage)
	case list:
		flags.StringSlice(p.flag, nil, usage)
	case seconds:
		initial, _ := time.ParseDuration(p.initial) // 0 for ""
		flags.Duration(p.flag, initial, usage)
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

// takeTrailing sets the flag that may be given as the last argument, if it is.
func (o *operation) takeTrailing(cmd *cobra.Command, args []string) error {
	if len(args) == len(o.arguments()) {
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

// value returns what the command line says, as JSON; nil if it says nothing.
func (p *param) value(cmd *cobra.Command) (jsontext.Value, error) {
	flags := cmd.Flags()
	if p.kind == document {
		return p.document(cmd)
	}
	if !flags.Changed(p.flag) && p.initial == "" {
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
			err = p.judge(t)
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

// named returns the flag for the name of a thing.
func named(noun string, required bool) param {
	return param{
		flag: "name", usage: "`name` of " + noun + ", 1 to 255 characters", required: required,
		check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) },
	}
}

// judge says whether a text is what the param can be.
func (p *param) judge(text string) error {
	switch {
	case p.values != nil && !slices.Contains(p.values, text):
		return usageError{fmt.Errorf("--%s: invalid value %q: must be one of %s", p.flag, text, strings.Join(p.values, ", "))}
	case p.check == nil || p.check(text) == "":
		return nil
	}
	return usageError{fmt.Errorf("--%s %s", p.flag, p.check(text))}
}

// list returns the texts of a list, each once.
func (p *param) list(cmd *cobra.Command) (texts []string, err error) {
	given, err := cmd.Flags().GetStringSlice(p.flag)
	for _, t := range given {
		if err := p.judge(t); err != nil {
			return nil, err
		}
		if !slices.Contains(texts, t) {
			texts = append(texts, t)
		}
	}
	return texts, err
}

func (p *param) integer(cmd *cobra.Command) (int64, error) {
	n, err := cmd.Flags().GetInt64(p.flag)
	if err == nil && n < p.least {
		err = usageError{fmt.Errorf("--%s must be at least %d", p.flag, p.least)}
	}
	return n, err
}

// seconds returns a duration as the API has it.
func (p *param) seconds(cmd *cobra.Command) (int64, error) {
	d, err := cmd.Flags().GetDuration(p.flag)
	switch least := time.Duration(p.least) * time.Second; {
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

// document returns a JSON value as it was given. Only that it is one is checked here,
// so that it can be put into a body: the API is stricter.
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
	if !v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil, usageError{errors.New(where + " must be one JSON value")}
	}
	return v, nil
}

// queryText returns a value as it stands in a query.
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

// An object is a JSON object of members in their order, with their values as they are.
type object struct{ b []byte }

func (o *object) add(name string, v jsontext.Value) {
	separator := byte(',')
	if o.b == nil {
		separator = '{'
	}
	o.b = append(append(append(append(o.b, separator), strconv.Quote(name)...), ':'), v...)
}

// bytes returns the whole; nil without members.
func (o *object) bytes() []byte {
	if o.b == nil {
		return nil
	}
	return append(o.b, '}')
}
