package postgrestest

import "syscall"

// dieWithParent makes the kernel send SIGQUIT to a process when the thread that started it ends.
// PostgreSQL then stops immediately, with all its children.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
