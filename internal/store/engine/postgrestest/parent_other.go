//go:build !linux

package postgrestest

import "syscall"

// dieWithParent does nothing: only Linux signals the death of a parent. Tests that panic leave
// their server running.
func dieWithParent(*syscall.SysProcAttr) {}
