//go:build !linux

package backup

import "os"

// forget does nothing: what was just written is read back from memory.
func forget(*os.File) error { return nil }
