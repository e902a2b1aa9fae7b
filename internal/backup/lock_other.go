//go:build !linux && !darwin

package backup

import (
	"errors"
	"os"
)

// lock returns an error: abandoned files are not removed.
func lock(*os.File, bool) error { return errors.ErrUnsupported }
