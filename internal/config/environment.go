package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// fileSuffix is appended to a variable's name to read its value from a file.
const fileSuffix = "_FILE"

// maxSecret is the maximum size of such a file in bytes.
const maxSecret = 64 << 10

// A value is the value of a variable, with the name of the variable.
type value struct {
	text, where string
	secret      bool // read from a file: errors must not contain it
	warning     string
}

// ReadVariable returns the value of the variable name, or the single line of the file that
// name_FILE names, or "". An empty variable counts as unset. It returns an error if both
// are set, or if the file cannot be read, is empty or has several lines. Errors never
// contain the content of the file. warning is "" unless all users may read the file.
func ReadVariable(lookup func(string) (string, bool), name string) (text, warning string, err error) {
	v, err := readVariable(lookup, name)
	return v.text, v.warning, err
}

func readVariable(lookup func(string) (string, bool), name string) (value, error) {
	text, _ := lookup(name)
	path, _ := lookup(name + fileSuffix)
	switch {
	case path == "":
		return value{text: text, where: name}, nil
	case text != "":
		return value{}, fmt.Errorf("%s and %s are both set", name, name+fileSuffix)
	}
	v := value{where: name + fileSuffix, secret: true}
	file, err := os.Open(path)
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", v.where, err)
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", v.where, err)
	}
	v.text = strings.TrimRight(string(b), "\r\n")
	switch {
	case len(b) > maxSecret:
		err = errors.New("is too long")
	case v.text == "":
		err = errors.New("is empty")
	case strings.ContainsAny(v.text, "\r\n\x00"):
		err = errors.New("has more than one line")
	}
	if err != nil {
		return value{}, fmt.Errorf("%s: %s %w", v.where, path, err)
	}
	if info, err := file.Stat(); err == nil {
		v.warning = readableByAll(path, info)
	}
	return v, nil
}

// readableByAll returns a warning if all users may read a file with a secret.
func readableByAll(path string, info fs.FileInfo) string {
	if info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	return fmt.Sprintf("%s contains a secret and is readable by all users (mode %04o): run chmod o-r %[1]s", path, info.Mode().Perm())
}
