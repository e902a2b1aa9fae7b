package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const canary = "c4n4ry"

// secretFile writes a file that only its owner may read.
func secretFile(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnySettingCanBeReadFromASecretFile(t *testing.T) {
	for _, end := range []string{"", "\n", "\r\n", "\n\n"} {
		c, settings, err := load(t, nil, map[string]string{"ATRIUM_DATABASE_FILE": secretFile(t, "postgres://me:"+canary+"@db/x"+end)}, "database: sqlite:x.db\n")
		if err != nil || c.Database != "postgres://me:"+canary+"@db/x" {
			t.Errorf("%q: %q, %v", end, c.Database, err)
		}
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == "database" })
		if want := (Setting{"database", "postgres://me:xxxxx@db/x", FromSecret}); settings[i] != want {
			t.Errorf("%+v, want %+v", settings[i], want)
		}
	}
	c, _, err := load(t, []string{"--log-sample", "2"}, map[string]string{"ATRIUM_LOG_SAMPLE_FILE": "nowhere", "ATRIUM_MAX_BODY_FILE": secretFile(t, "2KiB"), "ATRIUM_ADDR_FILE": ""}, "")
	if err != nil || c.LogSample != 2 || c.MaxBody != 2<<10 {
		t.Errorf("a flag must take precedence, and values of every type must work: %d, %d, %v", c.LogSample, c.MaxBody, err)
	}
}

func TestInvalidSecretFileIsReportedWithoutItsContent(t *testing.T) {
	for _, c := range []struct{ content, variable, fault string }{
		{"", "ATRIUM_DATABASE", "is empty"},
		{"\n", "ATRIUM_DATABASE", "is empty"},
		{canary + "\n" + canary, "ATRIUM_DATABASE", "has more than one line"},
		{canary + "\x00", "ATRIUM_DATABASE", "has more than one line"},
		{strings.Repeat(canary, 20000), "ATRIUM_DATABASE", "is too long"},
		{canary, "ATRIUM_LOG_SAMPLE", "ATRIUM_LOG_SAMPLE_FILE: the content of the file is not an integer"},
	} {
		path := secretFile(t, c.content)
		_, _, err := load(t, nil, map[string]string{c.variable + "_FILE": path}, "")
		if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), canary) {
			t.Errorf("%.20q: %v, want %q", c.content, err, c.fault)
		}
	}
	path := filepath.Join(t.TempDir(), "none")
	_, _, err := load(t, nil, map[string]string{"ATRIUM_DATABASE_FILE": path}, "")
	wantFaults(t, err, path+": no such file or directory")
	_, _, err = load(t, nil, map[string]string{"ATRIUM_DATABASE_FILE": path, "ATRIUM_DATABASE": "sqlite:" + canary}, "")
	wantFaults(t, err, "ATRIUM_DATABASE and ATRIUM_DATABASE_FILE are both set")
}

func TestReadableSecretsCauseAWarning(t *testing.T) {
	const secret = "postgres://me:" + canary + "@db/x"
	open := secretFile(t, secret)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args        []string
		environment map[string]string
		warning     string
	}{
		"a flag":                    {args: []string{"--database", secret}, warning: "ps shows the password in --database: set ATRIUM_DATABASE or ATRIUM_DATABASE_FILE instead"},
		"a file for all":            {environment: map[string]string{"ATRIUM_DATABASE_FILE": open}, warning: open + " contains a secret and is readable by all users (mode 0644): run chmod o-r " + open},
		"a configuration for all":   {args: []string{"--config", secretFile(t, "database: "+secret)}, warning: "contains a secret and is readable by all users"},
		"a variable":                {environment: map[string]string{"ATRIUM_DATABASE": secret}},
		"a file":                    {environment: map[string]string{"ATRIUM_DATABASE_FILE": secretFile(t, secret)}},
		"a flag without a password": {args: []string{"--database", "postgres://me@db/x"}},
	} {
		if name == "a configuration for all" {
			if err := os.Chmod(c.args[1], 0o604); err != nil {
				t.Fatal(err)
			}
		}
		loader := warnings(t, c.args, c.environment)
		all := strings.Join(loader, "\n")
		if strings.Contains(all, canary) || (c.warning == "") != (all == "") || !strings.Contains(all, c.warning) {
			t.Errorf("%s: %q, want %q", name, all, c.warning)
		}
	}
}
