// Package reference makes the documentation of the settings from the comments of
// config.Config: the text of the flags and the reference page.
package reference

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"github.com/spf13/pflag"

	"atrium/internal/config"
)

// Usage returns the Go source of the map from a field to its comment.
func Usage(source string) ([]byte, error) {
	fields, err := comments(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from the comments of Config by go generate; DO NOT EDIT.\n\npackage config\n\n")
	b.WriteString("// usage is what each field's comment says, in one line.\nvar usage = map[string]string{\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "%q: %q,\n", f.name, f.text)
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

// Page returns the reference page.
func Page(source string) ([]byte, error) {
	fields, err := comments(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(`<!-- Made from the comments of internal/config/config.go by go generate; do not edit. -->

# Configuration

A setting is taken from its flag, else from its environment variable, else from
the file that ` + "`--config`" + ` or ` + "`ATRIUM_CONFIG`" + ` names, else it has its default. An
empty variable counts as none. All faults of the values are reported at once, and
nothing is started with one; a flag that cannot be read at all is reported alone, before them. ` + "`atrium config`" + ` shows what is in force and where it came from.

Instead of any variable, the one with ` + "`_FILE`" + ` behind its name may name a file with the value in one
line: ` + "`ATRIUM_DATABASE_FILE`" + ` for ` + "`ATRIUM_DATABASE`" + `. That is for secrets. Both at once, and a file that
cannot be read or is empty, are faults; a secret that everybody may read is warned of.

The file is YAML, one setting a line:

` + "```yaml" + `
addr: 0.0.0.0:8080
database: sqlite:/var/lib/atrium/atrium.db
log-format: json
` + "```" + `

Sizes are bytes, or whole KiB, MiB or GiB, such as ` + "`64KiB`" + `. Durations are such as
` + "`90s`" + `, ` + "`5m`" + ` or ` + "`1h30m`" + `.
`)
	defaults := config.Default()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags, &defaults)
	for _, f := range fields {
		name := config.Name(f.name)
		value := flags.Lookup(name).DefValue
		if value == "" {
			value = "(empty)"
		} else {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- flag `--%s`, environment `%s`\n- default %s\n", name, f.text, name, config.Variable(name), value)
	}
	return b.Bytes(), nil
}

type field struct{ name, text string }

// comments returns the fields of Config in the source file, with what their
// comments say. Every field must have one.
func comments(source string) (fields []field, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != reflect.TypeFor[config.Config]().Name() {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			text := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if text == "" {
				err = fmt.Errorf("%s has no comment", f.Names[0].Name)
			}
			fields = append(fields, field{f.Names[0].Name, text})
		}
		return false
	})
	return fields, err
}
