package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// parseParam returns the value of a param on a command line.
func parseParam(t *testing.T, p param, args ...string) (string, error) {
	t.Helper()
	var value string
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		v, err := p.value(cmd)
		value = string(v)
		return err
	}}
	p.addFlag(cmd)
	cmd.SetIn(strings.NewReader("[1.0]\n"))
	cmd.SetArgs(args)
	err := cmd.Execute()
	return value, err
}

func TestParamsAreEncodedForTheAPI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "content.json")
	if err := os.WriteFile(file, []byte(`{"b":1.50,"a":"\u00e9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	content := param{flag: "page-content", kind: document}
	for _, c := range []struct {
		name  string
		param param
		args  []string
		want  string
	}{
		{"not given", param{flag: "name"}, nil, ""},
		{"a text", param{flag: "name"}, []string{"--name", `a "b" é`}, `"a \"b\" é"`},
		{"an empty text", param{flag: "name"}, []string{"--name", ""}, `""`},
		{"null", param{flag: "name", nullable: true}, []string{"--name", ""}, `null`},
		{"allowed value", param{flag: "state", values: []string{"draft"}}, []string{"--state", "draft"}, `"draft"`},
		{"default value", param{flag: "state", defaultValue: "draft"}, nil, `"draft"`},
		{"a number", param{flag: "n", kind: integer}, []string{"--n", "0"}, `0`},
		{"false", param{flag: "yes", kind: boolean}, []string{"--yes=false"}, `false`},
		{"list without duplicates", param{flag: "x", kind: list}, []string{"--x", "b,a", "--x", "b"}, `["b","a"]`},
		{"seconds", param{flag: "grace", kind: seconds}, []string{"--grace", "1h"}, `3600`},
		{"days", param{flag: "grace", kind: seconds}, []string{"--grace", "2d"}, `172800`},
		{"default seconds", param{flag: "grace", kind: seconds, defaultValue: "24h"}, nil, `86400`},
		{"zero seconds", param{flag: "grace", kind: seconds}, []string{"--grace", "0s"}, `0`},
		{"a document", content, []string{"--page-content", `{"a":1,"a":1e2}`}, `{"a":1,"a":1e2}`},
		{"document from a file", content, []string{"--page-content-file", file}, `{"b":1.50,"a":"\u00e9"}`},
		{"document from stdin", content, []string{"--page-content-file", "-"}, "[1.0]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if value, err := parseParam(t, c.param, c.args...); err != nil || value != c.want {
				t.Errorf("%s, %v, want %s", value, err, c.want)
			}
		})
	}
	if name := content.member(); name != "pageContent" {
		t.Error(name)
	}
}

func TestInvalidParamsAreRejected(t *testing.T) {
	content := param{flag: "content", kind: document}
	for _, c := range []struct {
		name  string
		param param
		args  []string
		want  string
	}{
		{"value that is not allowed", param{flag: "state", values: []string{"draft", "archived"}},
			[]string{"--state", "drafd"}, `--state: invalid value "drafd": must be one of draft, archived`},
		{"list with a value that is not allowed", param{flag: "scope", kind: list, values: []string{"a"}},
			[]string{"--scope", "a,b"}, `--scope: invalid value "b": must be one of a`},
		{"negative", param{flag: "grace", kind: seconds}, []string{"--grace", "-1s"}, "--grace must not be negative"},
		{"too short", param{flag: "expires-in", kind: seconds, minimum: 1}, []string{"--expires-in", "999ms"},
			"--expires-in must be at least 1s"},
		{"too small", param{flag: "from-line", kind: integer, minimum: 1}, []string{"--from-line", "0"},
			"--from-line must be at least 1"},
		{"empty name", nameParam("a page", true), []string{"--name", ""}, "--name must be 1 to 255 characters long"},
		{"too long", param{flag: "expires-in", kind: seconds, maximum: 604800}, []string{"--expires-in", "8d"},
			"--expires-in must be at most 168h"},
		{"too many days", param{flag: "grace", kind: seconds}, []string{"--grace", "106752d"}, "a number of days must be an integer"},
		{"fraction of a second", param{flag: "grace", kind: seconds}, []string{"--grace", "1500ms"},
			"--grace must be whole seconds"},
		{"more than one document", content, []string{"--content", `1,"name":"x"`}, "--content must be one JSON value"},
		{"empty document", content, []string{"--content", ""}, "--content must be one JSON value"},
		{"both", content, []string{"--content", "1", "--content-file", "-"}, "none of the others can be"},
		{"none", param{flag: "content", kind: document, required: true}, nil, "at least one of the flags"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if value, err := parseParam(t, c.param, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v, want %s", value, err, c.want)
			}
		})
	}
}
