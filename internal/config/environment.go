package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// fileSuffix makes of a variable the one that names a file with its value.
const fileSuffix = "_FILE"

// maxSecret is how much of such a file is read, in bytes.
const maxSecret = 64 << 10

// A value is that of a variable, with the name of the variable that it comes from.
type value struct {
	text, where string
	secret      bool // from a file of its own: what is in it is not shown
	warning     string
}

// ReadVariable returns the value of a variable, or what is in the file that the
// variable of the same name with _FILE behind it names, without the end of its line; ""
// if there is neither. An empty variable counts as none. It is a fault to have both, and
// a file that cannot be read, is empty, or has more than one line. An error never holds
// what is in the file. warning is "" unless the file is one that everybody may read.
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

// readableByAll returns a warning if everybody may read a file that holds a secret.
func readableByAll(path string, info fs.FileInfo) string {
	if info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	return fmt.Sprintf("%s holds a secret and everybody may read it (its mode is %04o): chmod o-r %[1]s", path, info.Mode().Perm())
}
