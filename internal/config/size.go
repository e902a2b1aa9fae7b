package config

import (
	"fmt"
	"strconv"
	"strings"
)

// A Size is a number of bytes. Its text form is bytes, or whole KiB, MiB or GiB.
type Size int64

// String returns the shortest text form.
func (s Size) String() string {
	switch {
	case s != 0 && s%(1<<30) == 0:
		return strconv.FormatInt(int64(s>>30), 10) + "GiB"
	case s != 0 && s%(1<<20) == 0:
		return strconv.FormatInt(int64(s>>20), 10) + "MiB"
	case s != 0 && s%(1<<10) == 0:
		return strconv.FormatInt(int64(s>>10), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10)
}

// Set parses a size. It implements pflag.Value.
func (s *Size) Set(text string) error {
	digits, unit := text, Size(1)
	if rest, ok := strings.CutSuffix(text, "GiB"); ok {
		digits, unit = rest, 1<<30
	} else if rest, ok := strings.CutSuffix(text, "MiB"); ok {
		digits, unit = rest, 1<<20
	} else if rest, ok := strings.CutSuffix(text, "KiB"); ok {
		digits, unit = rest, 1<<10
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 65536, 64KiB or 1MiB", text)
	}
	*s = Size(n) * unit
	return nil
}

// Type implements pflag.Value.
func (*Size) Type() string { return "size" }
