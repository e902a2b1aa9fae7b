//go:build !linux

package cli

// disableCoreDumps does nothing on systems other than Linux.
func disableCoreDumps() error { return nil }
