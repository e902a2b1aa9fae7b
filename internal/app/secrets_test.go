package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/store"
)

func TestKeysOfSecretsAreReadAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		content string // of the file; "-" for none
		mode    os.FileMode
		fault   string
		warned  bool
	}{
		"a key":                      {"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n", 0o600, "", false},
		"a key for a group":          {"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n", 0o640, "", false},
		"a key that others can read": {"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n", 0o644, "", true},
		"no file":                    {"-", 0, "no such file", false},
		"an empty file":              {"\n", 0o600, "has no key", false},
		"no key":                     {"s3cret\n", 0o600, "line 1 is not a key", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "new.db"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			keys := filepath.Join(dir, "keys")
			if c.content != "-" {
				if err := os.WriteFile(keys, []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(keys, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			settings := config.Default()
			settings.Addr, settings.SecretsKeyFile = "127.0.0.1:0", keys
			a, err := app.New(t.Context(), app.Config{Settings: settings, Store: s, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err == nil {
				if err := a.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("the start: %v, want %q", err, c.fault)
			}
			if warned := strings.Contains(log.String(), "run chmod 600"); warned != c.warned {
				t.Errorf("warned %v: %s", warned, log.String())
			}
			if strings.Contains(log.String(), "s3cret") || err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the log or the error has the content: %v", err)
			}
		})
	}
}
