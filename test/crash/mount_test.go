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

// insideVariable says that this process has a mount namespace of its own, in which it
// may mount.
const insideVariable = "ATRIUM_CRASH_TEST_INSIDE"

// mounting lets a test mount file systems: the whole test is run again by a process with
// a mount namespace of its own, which leaves none behind however it ends, and is over for
// this one: mounting returns false. Where nobody may have one, it returns false as well,
// and says which test looks at the same by other means.
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
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // and nothing is passed on to ours
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	ended, err := nodes.Begin(cmd)
	if err != nil {
		t.Logf("this machine lets nobody mount (%v): %s looks at the same with other means", err, otherwise)
		return false
	}
	<-ended
	t.Logf("in a namespace:\n%s", &out)
	if !cmd.ProcessState.Success() {
		t.Fail()
	}
	return false
}

// A mount is a file system of its own.
type mount struct {
	t    *testing.T
	path string
}

// newMount mounts a file system in memory that has so much space, with options as mount
// takes them. mounting has returned true.
func newMount(t *testing.T, options string) *mount {
	t.Helper()
	path, err := os.MkdirTemp("", "atrium-mount-")
	if err == nil {
		err = os.Chmod(path, 0o755) // other users pass here
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

// fill leaves no space.
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

// free gives the space back.
func (m *mount) free() {
	m.t.Helper()
	if err := os.Remove(m.ballast()); err != nil {
		m.t.Fatal(err)
	}
}

// remount makes the file system one that can be written, rw, or not, ro.
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
