// Package reference generates the documentation of the settings, which is the help of the
// flags and a reference page, from the comments of config.Config.
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
	b.WriteString("// usage has the comment of each field, in one line.\nvar usage = map[string]string{\n")
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
	b.WriteString(`<!-- Generated from the comments of internal/config/config.go by go generate; do not edit. -->

# Configuration

Settings come from, in this order: a flag, an environment variable, the YAML file that ` + "`--config`" + ` or
` + "`ATRIUM_CONFIG`" + ` names, the default. An empty variable counts as unset. ` + "`atrium config`" + ` prints the
effective settings and their sources. The server reports all invalid values together and does not
start; a flag that cannot be parsed is reported first, alone.

For secrets, append ` + "`_FILE`" + ` to a variable to read its value from a one-line file:
` + "`ATRIUM_DATABASE_FILE`" + ` for ` + "`ATRIUM_DATABASE`" + `. Setting both is an error, and so is a file that is empty
or cannot be read. A secret that every user of the machine can read is reported as a warning.

The file has one setting per line:

` + "```yaml" + `
addr: 0.0.0.0:8080
database: sqlite:/var/lib/atrium/atrium.db
log-format: json
` + "```" + `

Sizes are bytes, or whole KiB, MiB or GiB, such as ` + "`64KiB`" + `. Durations look like
` + "`90s`, `5m`, `1h30m` or `7d`" + `.
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
		for _, rule := range config.Rules(name) {
			if strings.HasPrefix(rule, "and ") {
				rule = name + " " + rule
			}
			fmt.Fprintf(&b, "- %s\n", rule)
		}
	}
	return b.Bytes(), nil
}

type field struct{ name, text string }

// comments returns the fields of Config in the source file with their comments. Every
// field must have one.
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
