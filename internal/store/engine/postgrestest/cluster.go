package postgrestest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	oldest    = 15 // oldest supported major version of PostgreSQL
	superuser = "postgres"
)

// start creates the files of a server and starts it. With a primary, it copies the primary's files;
// with a name, the server is a standby. It removes the files if the server cannot be started.
func start(primary *Server, name string, settings ...string) (s *Server, err error) {
	s = &Server{settings: settings}
	if s.bin, err = findBin(); err != nil {
		return nil, err
	}
	owner, login, err := Unprivileged()
	if err != nil {
		return nil, err
	}
	s.owner = owner
	var dir string
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start PostgreSQL: %w", err), os.RemoveAll(dir))
		}
	}()
	if dir, err = s.newDir(""); err != nil {
		return nil, err
	}
	s.dir = dir
	files := s.create
	if primary != nil {
		files = func() error { return s.copyOf(primary, name) }
	}
	if err := files(); owner != nil && errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("root cannot run PostgreSQL, and the user %s cannot reach %s (TMPDIR) or %s: "+
			"make each parent directory accessible, as with mode 0711: %w", login, dir, s.bin, err)
	} else if err != nil {
		return nil, err
	}
	// Another process may take the port before the server does. An error that repeats three times
	// has another cause.
	for range 3 {
		if s.port, err = FreePort(); err != nil {
			return nil, err
		}
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// remove stops the server and removes its files. A killed server leaves shared memory segments
// behind, which its next start removes.
func (s *Server) remove() error {
	if !s.running() {
		_ = s.run() // a test may have damaged the files
	}
	return errors.Join(s.stop(), os.RemoveAll(s.dir))
}

// newDir creates a directory of the server's owner in a directory, "" for the default one.
func (s *Server) newDir(parent string) (dir string, err error) {
	if dir, err = os.MkdirTemp(parent, "atrium-postgres-"); err == nil && s.owner != nil {
		err = os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid))
	}
	return dir, err
}

// cluster has the files of a new cluster: servers of this process copy them, because initdb takes
// longer.
var cluster struct {
	sync.Mutex
	parent string // the parent of dir; "" if nothing would remove it
	dir    string // "" until the first server is started
}

// create creates the files of a new cluster.
func (s *Server) create() error {
	cluster.Lock()
	defer cluster.Unlock()
	if cluster.parent == "" {
		return s.initdb()
	}
	if cluster.dir == "" {
		first := &Server{bin: s.bin, owner: s.owner}
		var err error
		if first.dir, err = first.newDir(cluster.parent); err == nil {
			err = first.initdb()
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(first.dir))
		}
		cluster.dir = first.dir
	}
	if out, err := s.owned("cp", "-R", filepath.Join(cluster.dir, "data"), "data").CombinedOutput(); err != nil {
		return fmt.Errorf("copy the files of a cluster: %w\n%s", err, out)
	}
	return nil
}

// initdb initializes the cluster with the first linguistic collation that the server and the system
// have.
func (s *Server) initdb() error {
	languages := [][]string{
		{"--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"},
		{"--locale-provider=icu", "--icu-locale=en-US", "--locale=C"}, // for a system without C.UTF-8
	}
	all, _ := exec.Command("locale", "-a").Output() // ICU is tried without it
	for locale := range strings.FieldsSeq(string(all)) {
		language, charset, _ := strings.Cut(strings.ToLower(locale), ".")
		if language != "c" && (charset == "utf8" || charset == "utf-8") {
			languages = append(languages, []string{"--locale-provider=libc", "--locale=" + locale})
			break
		}
	}
	var failed error
	for _, language := range languages {
		cmd := s.command("initdb", append([]string{"--pgdata=data", "--username=" + superuser, "--auth=trust",
			"--encoding=UTF8", "--lc-messages=C", "--no-sync", "--no-instructions"}, language...)...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("initdb %s: %w\n%s", strings.Join(language, " "), err, out)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return fmt.Errorf("initdb fails with ICU and with the UTF-8 locale of `locale -a`: "+
		"the tests need a collation that differs from byte order: %w", failed)
}

// copyOf creates the files with a base backup of a primary. With a name, the server becomes its
// standby.
func (s *Server) copyOf(primary *Server, name string) error {
	args := []string{"--pgdata=data", "--wal-method=stream", "--checkpoint=fast", "--no-sync"}
	if name != "" {
		args = append(args, "--write-recovery-conf")
	}
	dsn := fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=%s", primary.port, superuser, name)
	out, err := s.command("pg_basebackup", append(args, "--dbname="+dsn)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return nil
}

// command returns a command that runs a PostgreSQL program in the cluster's directory with a clean
// environment, since PostgreSQL reads variables such as PGOPTIONS.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	return s.owned(filepath.Join(s.bin, program), args...)
}

// owned is command for any program.
func (s *Server) owned(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

// findBin returns the directory of the server in PATH, or else of the newest server in the
// directories that distributions use.
func findBin() (bin string, err error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && version(filepath.Dir(path)) >= oldest {
			return filepath.Dir(path), nil
		}
	}
	newest := oldest - 1
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails only for an invalid pattern
		for _, dir := range found {
			if v := version(dir); v > newest {
				bin, newest = dir, v
			}
		}
	}
	if bin == "" {
		return "", fmt.Errorf("PostgreSQL %d or later not found in PATH or the directories of distributions: "+
			"run `make prepare`", oldest)
	}
	return bin, nil
}

var versionText = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// version returns the major version of the server in a directory, 0 if there is none.
func version(bin string) int {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0
	}
	out, _ := exec.Command(filepath.Join(bin, "postgres"), "--version").Output() // empty on failure
	if match := versionText.FindSubmatch(out); match != nil {
		major, _ := strconv.Atoi(string(match[1])) // digits
		return major
	}
	return 0
}

// Unprivileged returns the user that runs the server, because PostgreSQL refuses to run as root. It
// returns nil if this process is not root.
func Unprivileged() (owner *syscall.Credential, name string, err error) {
	if os.Geteuid() != 0 {
		return nil, "", nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, "", fmt.Errorf("PostgreSQL cannot run as root, and the users postgres and nobody do not exist: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, "", err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, "", err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, u.Username, nil
}

// FreePort returns an unused port outside the system's ephemeral range: a client could use an
// ephemeral port by the time a killed server restarts.
func FreePort() (port int, err error) {
	for range 100 {
		port = 16384 + rand.IntN(16384)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}
