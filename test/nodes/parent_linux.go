package nodes

import "syscall"

// dieWithParent makes a process end with the thread that started it, however that
// ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
