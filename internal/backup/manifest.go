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

// manifestSuffix is the suffix of a manifest after the name of its backup.
const manifestSuffix = ".sha256"

// maxManifest is the maximum size of a manifest in bytes.
const maxManifest = 64 << 10

// A Manifest describes a backup. Its file has two lines: one for sha256sum -c, and the manifest as
// JSON after a #, which sha256sum ignores.
type Manifest struct {
	File   string `json:"file"` // base name
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`

	// The backup has everything that was acknowledged before TakenAt.
	TakenAt atrium.Time `json:"takenAt"`
	Atrium  string      `json:"atrium"` // version of the binary that made the backup

	store.Contents
}

// text returns the content of the manifest's file.
func (m *Manifest) text() (string, error) {
	b, err := json.Marshal(m, json.Deterministic(true))
	return fmt.Sprintf("%s  %s\n# %s\n", m.SHA256, m.File, b), err
}

// write writes the manifest to a file. It overwrites the manifest of a deleted backup.
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

// Described returns a summary of the backup's contents for people.
func (m *Manifest) Described() string {
	var words []string
	for _, table := range []struct{ name, one string }{
		{"tenants", "tenant"}, {"accounts", "account"}, {"entries", "entry"}, {"pages", "page"},
	} {
		if n, ok := m.Rows[table.name]; ok {
			words = append(words, atrium.Count(n, table.one, table.name))
		}
	}
	return strings.Join(words, ", ")
}

func readManifest(path string) (Manifest, error) {
	file, err := openRegular(path)
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
		return m, fmt.Errorf("%s is not a manifest: %w", path, err)
	}
	return m, nil
}

// parseManifest parses the content of a manifest's file.
func parseManifest(b []byte) (m Manifest, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	text, hasJSON := bytes.CutPrefix(rest, []byte("# "))
	if !ok || !hasJSON {
		return m, errors.New("want a line with the SHA-256, and a line with # and JSON")
	}
	if err := json.Unmarshal(bytes.TrimSuffix(text, []byte("\n")), &m); err != nil {
		return m, err
	}
	sum, err := hex.DecodeString(m.SHA256)
	switch {
	case err != nil || len(sum) != 32 || m.Bytes <= 0 || m.Schema <= 0:
		return m, errors.New("checksum, size or schema is missing or invalid")
	case !strings.HasPrefix(string(line), m.SHA256+"  "):
		return m, errors.New("the SHA-256 of its two lines differs")
	}
	return m, nil
}
