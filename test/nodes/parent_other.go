//go:build !linux

package nodes

import "syscall"

// dieWithParent does nothing: only Linux tells a process that its parent has died.
func dieWithParent(*syscall.SysProcAttr) {}
