package backup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store"
)

// manifestEnd is what a manifest has behind the name of its backup.
const manifestEnd = ".sha256"

// maxManifest is more than any manifest has, in bytes.
const maxManifest = 64 << 10

// A Manifest says what a backup is. Its file is two lines: the one that sha256sum -c
// takes, and # with all of it as JSON, which that program passes over.
type Manifest struct {
	File   string `json:"file"` // without its folder
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`

	// Everything that was acknowledged before this instant is in the backup.
	TakenAt atrium.Time `json:"takenAt"`
	Atrium  string      `json:"atrium"` // the version of the binary that made it

	store.Contents
}

// text returns what is in the manifest's file.
func (m *Manifest) text() (string, error) {
	b, err := json.Marshal(m, json.Deterministic(true))
	return fmt.Sprintf("%s  %s\n# %s\n", m.SHA256, m.File, b), err
}

// write writes the manifest to a file, instead of the one of a backup that was deleted.
func (m *Manifest) write(path string) error {
	text, err := m.text()
	if err != nil {
		return err
	}
	return place(path, func(file *os.File) error {
		_, err := io.WriteString(file, text)
		return err
	}, func(string) error { return nil }, os.Rename)
}

// Described returns a sentence for people about what a backup holds.
func (m *Manifest) Described() string {
	var words []string
	for _, table := range []string{"tenants", "accounts", "entries", "pages"} {
		if n, ok := m.Rows[table]; ok {
			words = append(words, fmt.Sprintf("%d %s", n, table))
		}
	}
	return strings.Join(words, ", ")
}

func readManifest(path string) (Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return Manifest{}, err
	}
	m, err := parseManifest(b)
	if err != nil {
		return m, fmt.Errorf("%s is no manifest: %w", path, err)
	}
	return m, nil
}

// parseManifest reads the text of a manifest's file.
func parseManifest(b []byte) (m Manifest, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	text, hasJSON := bytes.CutPrefix(rest, []byte("# "))
	if !ok || !hasJSON {
		return m, errors.New("it has to be a line with the SHA-256, and one with # and JSON")
	}
	if err := json.Unmarshal(bytes.TrimSuffix(text, []byte("\n")), &m); err != nil {
		return m, err
	}
	sum, err := hex.DecodeString(m.SHA256)
	switch {
	case err != nil || len(sum) != 32 || m.Bytes <= 0 || m.Schema <= 0:
		return m, errors.New("it does not say what the backup is")
	case !strings.HasPrefix(string(line), m.SHA256+"  "):
		return m, errors.New("its lines contradict each other")
	}
	return m, nil
}
