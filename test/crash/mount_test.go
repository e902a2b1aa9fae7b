package crash

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"atrium/test/nodes"
)

// insideVariable marks a process in its own mount namespace, which may mount.
const insideVariable = "ATRIUM_CRASH_TEST_INSIDE"

// mounting lets a test mount file systems. It runs the whole test in another process with
// its own mount namespace, which disappears with it, and returns false in this one.
// Without permission for a namespace, it skips the test and names another that covers the
// same.
func mounting(t *testing.T, otherwise string) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	var out bytes.Buffer
	cmd := exec.Command(executable(t), "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // mounts do not propagate to the parent
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	ended, err := nodes.Begin(cmd)
	if err != nil {
		t.Logf("mounting is not permitted here (%v): %s covers the same", err, otherwise)
		return false
	}
	<-ended
	t.Logf("in a namespace:\n%s", &out)
	if !cmd.ProcessState.Success() {
		t.Fail()
	}
	return false
}

// A mount is a mounted file system.
type mount struct {
	t    *testing.T
	path string
}

// newMount mounts a tmpfs with mount options, such as its size. It needs mounting to
// return true.
func newMount(t *testing.T, options string) *mount {
	t.Helper()
	path, err := os.MkdirTemp("", "atrium-mount-")
	if err == nil {
		err = os.Chmod(path, 0o755) // other users need access
	}
	if err == nil {
		err = syscall.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &mount{t, path}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(path, syscall.MNT_DETACH), os.Remove(path)); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *mount) ballast() string { return filepath.Join(m.path, "ballast") }

// fill uses all free space.
func (m *mount) fill() {
	m.t.Helper()
	f, err := os.OpenFile(m.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			m.t.Fatal(err)
		}
	}
}

// free releases that space.
func (m *mount) free() {
	m.t.Helper()
	if err := os.Remove(m.ballast()); err != nil {
		m.t.Fatal(err)
	}
}

// remount remounts the file system as "rw" or "ro".
func (m *mount) remount(how string) {
	m.t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if how == "ro" {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", m.path, "tmpfs", flags, ""); err != nil {
		m.t.Fatal(err)
	}
}
