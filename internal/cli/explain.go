package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"atrium"
)

// separate returns the errors that errors.Join has joined, or the error itself.
func separate(err error) (all []error) {
	switch e := err.(type) { //nolint:errorlint // a joined error inside of another one is part of one message
	case failure:
		return separate(e.error)
	case usageError:
		return separate(e.error)
	case permanent:
		return separate(e.error)
	case interface{ Unwrap() []error }:
		texts := make([]string, len(e.Unwrap()))
		for i, part := range e.Unwrap() {
			texts[i] = part.Error()
			all = append(all, separate(part)...)
		}
		if strings.Join(texts, "\n") == err.Error() {
			return all
		}
	}
	return []error{err}
}

// explain returns the text of an error for the terminal.
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

// printableLines replaces characters that could control a terminal, except line breaks and tabs.
// Errors can quote texts of servers, certificates and files.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return atrium.PrintableRune(r)
	}, text)
}

// translate rewrites an error of the API for the command line: flags instead of fields, and IDs
// instead of paths.
func (o *operation) translate(cmd *cobra.Command, args []string, t *target, err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err
	}
	translated := *e
	translated.Faults = make([]atrium.Fault, len(e.Faults))
	for i, f := range e.Faults {
		translated.Faults[i] = o.translateFault(cmd, f)
	}
	if p := o.promptedParam(); p != nil {
		given := "what you typed"
		if cmd.Flags().Changed(p.flag) {
			given = "--" + p.flag
		}
		translated.Detail = strings.Replace(e.Detail, p.member(), given, 1)
	}
	switch e.Code {
	case atrium.CodeForbidden:
		translated.Detail += o.forbiddenHint(t)
	case atrium.CodeNotFound:
		translated.Detail, translated.Faults = o.notFoundDetail(cmd, args, t, e.Faults), nil
	case atrium.CodePreconditionFailed:
		translated.Detail = "It was changed in the meantime; nothing was changed by this command. Read it again " +
			"and repeat the change if it still applies."
		if cmd.Flags().Changed("if-match") {
			translated.Detail = "Its current ETag does not match --if-match; nothing was changed by this command. " +
				"Read it again and repeat the change with the current ETag if it still applies."
		}
	case atrium.CodeInvalidRequest:
		inFlags := !slices.ContainsFunc(translated.Faults,
			func(f atrium.Fault) bool { return !strings.HasPrefix(f.Where, "--") })
		switch {
		case !inFlags || len(translated.Faults) == 0:
		case len(translated.Faults) == 1:
			translated.Detail, translated.Faults = translated.Faults[0].Where+" "+translated.Faults[0].Detail, nil
		default:
			translated.Detail = "invalid values:"
		}
	}
	return &translated
}

// translateFault returns a fault that names a flag instead of a field or a parameter, if there is
// one for it.
func (o *operation) translateFault(cmd *cobra.Command, f atrium.Fault) atrium.Fault {
	f.Detail = identifierFault(f.Detail)
	name, below, _ := strings.Cut(strings.TrimPrefix(f.Where, "/"), "/")
	if f.In != atrium.InBody {
		name = f.Where
	}
	for i := range o.params {
		p := &o.params[i]
		inBody := o.method != http.MethodGet && !p.inQuery
		if p.member() == name && inBody == (f.In == atrium.InBody) {
			f.Where = "--" + p.flagOf(cmd, below)
			if p.kind == instant {
				f.Detail += p.understood(cmd)
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

// flagOf returns the flag that has set a member of the value, and the path of the member in it, "" for the value itself.
func (p *param) flagOf(cmd *cobra.Command, below string) string {
	for i := range p.parts {
		if part := &p.parts[i]; part.member() == below && (cmd.Flags().Changed(part.flag) || p.given(cmd) == "") {
			return part.flag
		}
	}
	flag := p.flag
	if p.kind == private {
		flag = p.fileFlag()
	}
	if below != "" {
		flag += " /" + below
	}
	return flag
}

// given returns the flag that has the whole value, "" if none is given.
func (p *param) given(cmd *cobra.Command) string {
	for _, flag := range []string{p.flag, p.fileFlag()} {
		if cmd.Flags().Changed(flag) {
			return flag
		}
	}
	return ""
}

// forbiddenHint returns what to do about a response that the key has not enough permissions.
func (o *operation) forbiddenHint(t *target) string {
	switch {
	case o.tenancy == noTenant && o.method == http.MethodGet:
		return " To show the tenant of this key, run atrium tenants own."
	case o.tenancy == noTenant:
		return " This requires an operator key: run atrium keys create --operator on the database."
	case t.keyVariable == "":
		return ""
	}
	return " The key is the one in " + t.keyVariable + ": set it to a key for the management API, such as one that " +
		"atrium keys create --scope manage prints."
}

// locate finds out which resource does not exist if a call fails with CodeNotFound and a param names
// another resource than the path. The faults of the error then have the members that name missing ones,
// which are none if the path does. They stay nil if that is unknown.
func (o *operation) locate(ctx context.Context, c *client, failed call, err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	end := strings.LastIndexByte(o.path, '}') + 1
	others := slices.ContainsFunc(o.params, func(p param) bool { return p.names != "" })
	if !ok || e.Code != atrium.CodeNotFound || !others || end == 0 || end == len(o.path) {
		return err
	}
	located := *e
	segments := strings.Split(failed.path, "/")[:strings.Count(o.path[:end], "/")+1]
	_, err = c.fetch(ctx, call{method: http.MethodGet, path: strings.Join(segments, "/")})
	switch {
	case atrium.CodeOf(err) == atrium.CodeNotFound:
		located.Faults = []atrium.Fault{}
	case err == nil:
		for i := range o.params {
			if o.params[i].names != "" {
				located.Faults = append(located.Faults, atrium.Fault{Where: o.params[i].member()})
			}
		}
	}
	return &located
}

// notFoundDetail names the resource that was not found, with its parents, or all that can be missing.
// faults are those of locate.
func (o *operation) notFoundDetail(cmd *cobra.Command, args []string, t *target, faults []atrium.Fault) string {
	var chain []string
	names := pathParam.FindAllStringSubmatch(o.path, -1)
	for _, m := range slices.Backward(names) {
		value, _ := cmd.Flags().GetString(identifiers[m[1]].flag())
		if i := slices.Index(o.pathArgs(), m[1]); i >= 0 {
			value = args[i]
		}
		chain = append(chain, identifiers[m[1]].name+" "+value)
	}
	for i := range o.params {
		p := &o.params[i]
		if p.names == "" || !cmd.Flags().Changed(p.flag) {
			continue
		}
		resource := identifiers[p.names].name + " " + cmd.Flags().Lookup(p.flag).Value.String()
		switch {
		case len(chain) == 0:
			chain = []string{resource}
		case slices.ContainsFunc(faults, func(f atrium.Fault) bool { return f.Where == p.member() }):
			chain[0] = resource
		case faults == nil:
			chain[0] += " or " + resource
		}
	}
	if t.tenant != "" {
		chain = append(chain, "tenant "+t.tenant)
	}
	if len(chain) == 0 {
		return "the server does not support this operation: check its URL and version"
	}
	text := strings.Join(chain, " of ") + " not found"
	if !t.remote() && t.databaseName != "" { // it may be in another database
		text += " in database " + t.databaseName
	}
	return text
}
