package postgrestest

import "syscall"

// dieWithParent makes a process end with the thread that started it, however that
// ends. SIGQUIT makes PostgreSQL end its children and then itself, at once.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
