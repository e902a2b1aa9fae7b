package cli

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"atrium"
)

// explain returns the text of an error for a person at a terminal.
func explain(err error) string {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(e.Detail)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s %s", atrium.Printable(f.Where), atrium.Printable(f.Detail))
	}
	if cause := errors.Unwrap(e); cause != nil {
		fmt.Fprintf(&b, " (%v)", cause)
	}
	return b.String()
}

// printableLines makes the text of an error safe for a terminal and keeps its lines. It may
// quote what others wrote: servers, certificates, files.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return atrium.PrintableRune(r)
	}, text)
}

// reword puts an error of the API into the words of the command line.
func (o *operation) reword(cmd *cobra.Command, args []string, t *target, err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err
	}
	said := *e
	said.Faults = make([]atrium.Fault, len(e.Faults))
	for i, f := range e.Faults {
		said.Faults[i] = o.inWords(f)
	}
	switch e.Code {
	case atrium.CodeNotFound:
		said.Detail = o.notThere(cmd, args, t)
	case atrium.CodePreconditionFailed:
		said.Detail = "It was changed in the meantime; nothing was changed by this command. Read it again and repeat the change if it still applies."
		if cmd.Flags().Changed("if-match") {
			said.Detail = "Its current ETag does not match --if-match; nothing was changed by this command. " +
				"Read it again and repeat the change with the current ETag if it still applies."
		}
	case atrium.CodeInvalidRequest:
		inFlags := !slices.ContainsFunc(said.Faults, func(f atrium.Fault) bool { return !strings.HasPrefix(f.Where, "--") })
		switch {
		case !inFlags || len(said.Faults) == 0:
		case len(said.Faults) == 1:
			said.Detail, said.Faults = said.Faults[0].Where+" "+said.Faults[0].Detail, nil
		default:
			said.Detail = "invalid values:"
		}
	}
	return &said
}

// inWords returns a fault with the name that the command line has for its place.
func (o *operation) inWords(f atrium.Fault) atrium.Fault {
	name, below, _ := strings.Cut(strings.TrimPrefix(f.Where, "/"), "/")
	if f.In != atrium.InBody {
		name = f.Where
	}
	for i := range o.params {
		p := &o.params[i]
		inBody := o.method != http.MethodGet && !p.inQuery
		if p.member() == name && inBody == (f.In == atrium.InBody) {
			f.Where = "--" + p.flag
			if below != "" {
				f.Where += " /" + below
			}
			return f
		}
	}
	switch {
	case f.In == atrium.InHeader && f.Where == "Atrium-Tenant":
		f.Where = "--tenant"
	case f.In == atrium.InHeader:
		f.Where = "--" + strings.ToLower(f.Where)
	case f.In == atrium.InBody && f.Where == "":
		f.Where = "request body"
	}
	return f
}

// notThere says what there is not: the thing, with what it would belong to.
func (o *operation) notThere(cmd *cobra.Command, args []string, t *target) string {
	var chain []string
	names := pathParam.FindAllStringSubmatch(o.path, -1)
	for _, m := range slices.Backward(names) {
		value, _ := cmd.Flags().GetString(identifiers[m[1]].flag())
		if i := slices.Index(o.arguments(), m[1]); i >= 0 {
			value = args[i]
		}
		chain = append(chain, identifiers[m[1]].name+" "+value)
	}
	if t.tenant != "" {
		chain = append(chain, "tenant "+t.tenant)
	}
	if len(chain) == 0 {
		return "the server does not support this operation: check its URL and version"
	}
	text := strings.Join(chain, " of ") + " not found"
	if !t.remote() && t.asked != "" { // it may be in another one
		text += " in database " + t.asked
	}
	return text
}
