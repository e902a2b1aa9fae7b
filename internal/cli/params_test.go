package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// given returns what a param says of a command line, or why it does not.
func given(t *testing.T, p param, args ...string) (string, error) {
	t.Helper()
	var said string
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		v, err := p.value(cmd)
		said = string(v)
		return err
	}}
	p.addTo(cmd)
	cmd.SetIn(strings.NewReader("[1.0]\n"))
	cmd.SetArgs(args)
	err := cmd.Execute()
	return said, err
}

func TestAFlagIsWhatTheAPITakes(t *testing.T) {
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
		{"nothing", param{flag: "name"}, nil, ""},
		{"a text", param{flag: "name"}, []string{"--name", `a "b" é`}, `"a \"b\" é"`},
		{"an empty text", param{flag: "name"}, []string{"--name", ""}, `""`},
		{"none", param{flag: "name", nullable: true}, []string{"--name", ""}, `null`},
		{"one of some", param{flag: "state", values: []string{"draft"}}, []string{"--state", "draft"}, `"draft"`},
		{"what is so without the flag", param{flag: "state", initial: "draft"}, nil, `"draft"`},
		{"a number", param{flag: "n", kind: integer}, []string{"--n", "0"}, `0`},
		{"false", param{flag: "yes", kind: boolean}, []string{"--yes=false"}, `false`},
		{"a list, each once", param{flag: "x", kind: list}, []string{"--x", "b,a", "--x", "b"}, `["b","a"]`},
		{"seconds", param{flag: "grace", kind: seconds}, []string{"--grace", "1h"}, `3600`},
		{"seconds without the flag", param{flag: "grace", kind: seconds, initial: "24h"}, nil, `86400`},
		{"no seconds", param{flag: "grace", kind: seconds}, []string{"--grace", "0s"}, `0`},
		{"a document", content, []string{"--page-content", `{"a":1,"a":1e2}`}, `{"a":1,"a":1e2}`},
		{"that of a file", content, []string{"--page-content-file", file}, `{"b":1.50,"a":"\u00e9"}`},
		{"that of stdin", content, []string{"--page-content-file", "-"}, "[1.0]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said, err := given(t, c.param, c.args...); err != nil || said != c.want {
				t.Errorf("%s, %v, want %s", said, err, c.want)
			}
		})
	}
	if name := content.member(); name != "pageContent" {
		t.Error(name)
	}
}

func TestAFlagThatIsNoneOfWhatItCanBeIsRefused(t *testing.T) {
	content := param{flag: "content", kind: document}
	for _, c := range []struct {
		name  string
		param param
		args  []string
		want  string
	}{
		{"none of some", param{flag: "state", values: []string{"draft", "archived"}}, []string{"--state", "drafd"}, `--state: invalid value "drafd": must be one of draft, archived`},
		{"a list with one", param{flag: "scope", kind: list, values: []string{"a"}}, []string{"--scope", "a,b"}, `--scope: invalid value "b": must be one of a`},
		{"negative", param{flag: "grace", kind: seconds}, []string{"--grace", "-1s"}, "--grace must not be negative"},
		{"too short", param{flag: "expires-in", kind: seconds, least: 1}, []string{"--expires-in", "999ms"}, "--expires-in must be at least 1s"},
		{"too small", param{flag: "from-line", kind: integer, least: 1}, []string{"--from-line", "0"}, "--from-line must be at least 1"},
		{"no name", named("a page", true), []string{"--name", ""}, "--name must be 1 to 255 characters long"},
		{"not whole", param{flag: "grace", kind: seconds}, []string{"--grace", "1500ms"}, "--grace must be whole seconds"},
		{"more than a document", content, []string{"--content", `1,"name":"x"`}, "--content must be one JSON value"},
		{"no document", content, []string{"--content", ""}, "--content must be one JSON value"},
		{"both", content, []string{"--content", "1", "--content-file", "-"}, "none of the others can be"},
		{"none", param{flag: "content", kind: document, required: true}, nil, "at least one of the flags"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said, err := given(t, c.param, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v, want %s", said, err, c.want)
			}
		})
	}
}
