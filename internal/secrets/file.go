package secrets

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a file with keys.
const (
	maxFile = 64 << 10
	maxKeys = 100
)

// ErrEmpty is returned for a file without a key.
var ErrEmpty = errors.New("has no key: run atrium secrets add-key")

// Load returns the keys of a file: one per line, 32 bytes in base64. Empty lines and lines that begin with #
// are ignored. Without a path, it returns nil. Errors name the path and the lines with faults, and never have
// the content.
func Load(path string) (*Keyring, error) {
	if path == "" {
		return nil, nil
	}
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	k, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return k, nil
}

// read returns the content of a file.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is too long", path)
	}
	return content, nil
}

// parse returns the keys of the content of a file. The error names every line with a fault.
func parse(content []byte) (*Keyring, error) {
	k := &Keyring{}
	var faults []string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		secret, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(secret) != KeyLen {
			faults = append(faults, fmt.Sprintf("line %d is not a key of %d bytes in base64", n, KeyLen))
			continue
		}
		key, err := newKey(secret)
		switch {
		case err != nil:
			return nil, err
		case k.Has(key.id):
			faults = append(faults, fmt.Sprintf("line %d repeats a key", n))
		default:
			k.keys = append(k.keys, key)
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(faults) > 0:
		return nil, errors.New("is not valid: " + strings.Join(faults[:min(len(faults), maxKeys)], "; "))
	case len(k.keys) == 0:
		return nil, ErrEmpty
	case len(k.keys) > maxKeys:
		return nil, fmt.Errorf("has more than %d keys", maxKeys)
	}
	return k, nil
}

// AddKey adds a new random key to a file, and returns its ID and whether it created the file. The key
// comes first, so that it encrypts from then on, or last, so that it only decrypts. Other lines stay as they
// are. The file appears complete and synced to disk, or is not changed. Only its owner can read a new file;
// an existing one keeps its owner, group and mode. Two calls at the same time can lose a key.
func AddKey(path string, last bool) (id KeyID, created bool, err error) {
	content, err := read(path)
	created = errors.Is(err, fs.ErrNotExist)
	if err != nil && !created {
		return id, false, err
	}
	if _, err := parse(content); err != nil && !errors.Is(err, ErrEmpty) {
		return id, false, fmt.Errorf("%s %w", path, err)
	}
	secret := make([]byte, KeyLen)
	_, _ = rand.Read(secret) // never fails
	line := []byte(base64.StdEncoding.EncodeToString(secret) + "\n")
	if last {
		if len(content) > 0 && content[len(content)-1] != '\n' {
			content = append(content, '\n')
		}
		content = append(content, line...)
	} else {
		content = slices.Concat(line, content)
	}
	if _, err := parse(content); err != nil { // too many keys
		return id, false, fmt.Errorf("%s %w", path, err)
	}
	return idOf(secret), created, replace(path, content, created)
}

// replace writes a file, which must not exist if create is set. A symbolic link stays, and its target is
// replaced.
func replace(path string, content []byte, create bool) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".secrets-*.partial") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err == nil && !create {
		err = keepAccess(file, path)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if create { // fails if another process has created it in the meantime
		if err = os.Link(file.Name(), path); err == nil {
			err = os.Remove(file.Name())
		}
	} else {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
