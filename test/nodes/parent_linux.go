package nodes

import "syscall"

// dieWithParent makes a process end when the thread that started it ends, for any reason.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
