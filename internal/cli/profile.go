package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
)

// A profile contains the settings for a server, in a file, so that no secret is on the command
// line.
type profile struct {
	Server string `json:"server"`
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitzero"` // for operator keys
}

// readProfile reads a profile. It rejects a file that others can read or write; it checks the
// opened file, which cannot be replaced in between.
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
		// do not quote the content, which has the key
		return p, fmt.Errorf(`profile %s must be {"server":…,"key":…} with an optional tenant`, path)
	}
	if p.Server == "" || p.Key == "" {
		return p, errors.New("profile " + path + " must contain a server and a key")
	}
	return p, nil
}

// maxProfile is the maximum number of bytes read from a profile.
const maxProfile = 64 << 10
