package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
)

// A profile is how a server is reached, kept in a file: nothing of it is on a command
// line.
type profile struct {
	Server string `json:"server"`
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitzero"` // for an operator's key
}

// readProfile reads a profile, which nobody but its owner may read or write. That is
// asked of the file that was opened, so that it cannot be another one meanwhile.
func readProfile(path string) (p profile, err error) {
	file, err := os.Open(path)
	if err != nil {
		return p, fmt.Errorf("read profile: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return p, fmt.Errorf("read profile: %w", err)
	}
	if mode := info.Mode().Perm(); mode&^0o600 != 0 {
		return p, fmt.Errorf("profile %s is accessible to other users: mode is %04o: run chmod 600 %[1]s", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxProfile))
	if err != nil {
		return p, fmt.Errorf("read profile: %w", err)
	}
	if err := json.Unmarshal(b, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, fmt.Errorf(`profile %s must be {"server":…,"key":…} with an optional tenant`, path) // without what is in it
	}
	if p.Server == "" || p.Key == "" {
		return p, errors.New("profile " + path + " must contain a server and a key")
	}
	return p, nil
}

// maxProfile is how much of a file is read as a profile, in bytes.
const maxProfile = 64 << 10
