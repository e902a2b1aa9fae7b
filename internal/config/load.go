package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// A Source is where a value came from.
type Source string

// The sources, in order of precedence.
const (
	FromFlag        Source = "flag"
	FromEnvironment Source = "environment"
	FromSecret      Source = "file of the environment" // which a variable with _FILE names
	FromFile        Source = "file"
	FromDefault     Source = "default"
)

// A Loader reads a Config. It is used once, by one goroutine.
type Loader struct {
	config *Config
	flags  *pflag.FlagSet
	names  []string // of the settings, in the order of the struct
	file   string   // the path, from --config or ATRIUM_CONFIG
	// Warnings are about unsafe sources of secrets. Load adds them.
	Warnings []string
}

// Bind adds flags for the named settings, or for all if none is named, and for the file.
// It returns a Loader that sets the fields of c, which holds the defaults.
func Bind(flags *pflag.FlagSet, c *Config, only ...string) *Loader {
	l := &Loader{config: c, flags: flags}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i).Name
		name := Name(field)
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		l.names = append(l.names, name)
		text := fmt.Sprintf("%s (environment: %s)", usage[field], Variable(name))
		switch p := v.Field(i).Addr().Interface().(type) {
		case *string:
			flags.StringVar(p, name, *p, text)
		case *bool:
			flags.BoolVar(p, name, *p, text)
		case *int:
			flags.IntVar(p, name, *p, text)
		case *time.Duration:
			flags.Var((*Duration)(p), name, text)
		case *Size:
			flags.Var(p, name, text)
		case *Rate:
			flags.Var(p, name, text)
		}
	}
	flags.StringVar(&l.file, "config", "", "YAML `file` with settings (environment: "+Variable("config")+")")
	return l
}

// Name returns the setting of a field of Config: max-body for MaxBody, tls-key for TLSKey.
func Name(field string) string {
	var b strings.Builder
	letters := []rune(field)
	for i, c := range letters {
		begins := i > 0 && unicode.IsUpper(c) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// Variable returns the name of the environment variable of a setting.
func Variable(name string) string {
	return "ATRIUM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// A Setting is the effective value of a setting, without passwords.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source Source `json:"source"`
}

// Load sets what the parsed flags have not set, from the environment (lookup, like
// os.LookupEnv) and the file. It returns all settings in the order of Config, or an error
// that names every fault.
func (l *Loader) Load(lookup func(string) (string, bool)) ([]Setting, error) {
	var faults []error
	if path, ok := lookup(Variable("config")); ok && l.file == "" {
		l.file = path
	}
	file, err := readFile(l.file)
	if err != nil {
		faults = append(faults, err)
	}
	var settings []Setting
	for _, name := range l.names {
		flag := l.flags.Lookup(name)
		source := FromDefault
		set := func(from Source, where, text string) {
			source = from
			before := flag.Value.String()
			if err := flag.Value.Set(text); err != nil {
				shown := strconv.Quote(text)
				if from == FromSecret {
					shown = "the content of the file"
				}
				faults = append(faults, fmt.Errorf("%s: %s is not %s", where, shown, kinds[flag.Value.Type()]))
				_ = flag.Value.Set(before) // so that faults does not report it again
			}
		}
		if flag.Changed {
			source = FromFlag
			l.warnOfFlag(name, flag.Value.String())
		} else if v, err := readVariable(lookup, Variable(name)); err != nil {
			faults = append(faults, err)
		} else if v.text != "" {
			from := FromEnvironment
			if v.secret {
				from = FromSecret
			}
			set(from, v.where, v.text)
			l.warn(v.warning)
		} else if text, ok := file[name]; ok {
			set(FromFile, l.file+": "+name, text)
			l.warnOfFile(text)
		}
		delete(file, name)
		settings = append(settings, Setting{name, Redact(flag.Value.String()), source})
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if !slices.Contains(settingNames(), name) {
			faults = append(faults, fmt.Errorf("%s: unknown setting %s%s", l.file, name, suggestion(name, settingNames())))
		}
	}
	for _, fault := range l.config.faults() {
		name, _, _ := strings.Cut(fault, " ")
		faults = append(faults, errors.New(fault+l.origin(name, settings)))
	}
	return settings, errors.Join(faults...)
}

// origin returns the end of an error about a setting: its value and where that is from, or "" for a default. The
// URL of a database is not shown: it can contain a password, and a malformed one hides it from Redact.
func (l *Loader) origin(name string, settings []Setting) string {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return ""
	}
	where := ""
	switch settings[i].Source {
	case FromFlag:
		where = "--" + name
	case FromEnvironment:
		where = Variable(name)
	case FromSecret:
		return ": check the file of " + Variable(name) + fileSuffix
	case FromFile:
		where = name + " in " + l.file
	case FromDefault:
		return ""
	}
	if name == "database" {
		return ": check " + where
	}
	return fmt.Sprintf(": %s is %q", where, settings[i].Value)
}

func (l *Loader) warn(warning string) {
	if warning != "" {
		l.Warnings = append(l.Warnings, warning)
	}
}

// warnOfFlag warns of a password on the command line.
func (l *Loader) warnOfFlag(name, text string) {
	if Redact(text) != text {
		l.warn(fmt.Sprintf("ps shows the password in --%s: set %s or %s instead", name, Variable(name), Variable(name)+fileSuffix))
	}
}

// warnOfFile warns of a password in a file that is readable by all users.
func (l *Loader) warnOfFile(text string) {
	if info, err := os.Stat(l.file); err == nil && Redact(text) != text {
		l.warn(readableByAll(l.file, info))
	}
}

// kinds describes the valid values of a flag, by its type.
var kinds = map[string]string{"int": "an integer", "duration": "a duration such as 90s or 7d", "size": "a size such as 64KiB", "rate": "a rate such as 100/s", "string": "a string", "bool": "true or false"}

// readFile returns the settings of a file, as text; none for no path.
func readFile(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	settings, err := parseFile(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return settings, nil
}

// parseFile returns the settings of a YAML document, as text: one mapping of names to scalars.
func parseFile(text []byte) (map[string]string, error) {
	const example = "write one setting on each line, such as addr: 127.0.0.1:8080"
	var document yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	switch err := dec.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %s", strings.TrimPrefix(err.Error(), "yaml: "), example)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: %s", top.Line, example)
	}
	settings := map[string]string{}
	for i := 0; i < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: %q must have one value: %s", name.Line, name.Value, example)
		}
		if _, twice := settings[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is set twice", name.Line, name.Value)
		}
		if settings[name.Value] = value.Value; value.Tag == "!!null" {
			settings[name.Value] = ""
		}
	}
	return settings, nil
}

// Redact hides the password of a URL, even of a malformed one, and of a NAME=VALUE list.
func Redact(value string) string {
	value = passwordMember.ReplaceAllString(value, "${1}"+redacted)
	if u, err := url.Parse(value); err == nil && u.User != nil {
		return u.Redacted()
	}
	scheme, rest, isURL := strings.Cut(value, "://")
	if at := strings.LastIndexByte(rest, '@'); isURL && at >= 0 { // the password has a character that it must escape
		return scheme + "://" + redacted + rest[at:]
	}
	return value
}

// RedactText hides the credentials of every URL, and the passwords of NAME=VALUE lists, in a text such as an error.
func RedactText(text string) string {
	return credentials.ReplaceAllString(passwordMember.ReplaceAllString(text, "${1}"+redacted), "://"+redacted+"@")
}

// credentials matches up to the last @ of a word: a password may contain others.
var credentials = regexp.MustCompile(`://\S*@`)

const redacted = "xxxxx" // as net/url has it

var passwordMember = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)`)
