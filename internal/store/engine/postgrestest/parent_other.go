//go:build !linux

package postgrestest

import "syscall"

// dieWithParent does nothing: only Linux tells a process that its parent has died.
// Tests that panic leave their server behind.
func dieWithParent(*syscall.SysProcAttr) {}
