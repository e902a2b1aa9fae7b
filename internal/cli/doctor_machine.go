package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"atrium/internal/app"
	"atrium/internal/store"
)

// What a server needs beside its database.
const (
	logRoom    = 256 << 20 // bytes of disk: the write-ahead log takes half of it under load
	logWarn    = 160 << 20 // bytes of a log that does not start over
	ownFiles   = 256       // files that are open beside the clients' connections: those of reads, above all
	othersRead = 0o044
	othersUse  = 0o033
)

// addresses looks at who can reach what a server listens on.
func (d *doctor) addresses() {
	secure := d.setting("tls-cert") != ""
	switch {
	case d.settings.Addr == "":
	case loopback(d.settings.Addr):
		d.ok("address", "%s is reached from this machine alone", d.settings.Addr)
	case secure:
		d.ok("address", "%s is served with TLS", d.settings.Addr)
	default:
		d.warn("address", "listen on 127.0.0.1 behind a proxy that has TLS, or see that only such a proxy reaches it",
			"%s is reached from other machines, and keys cross the network in the clear", d.settings.Addr)
	}
	if addr := d.settings.MetricsAddr; addr != "" && !loopback(addr) {
		d.warn("metrics address", "listen on an address that only your monitoring reaches", "%s needs no key and is reached from other machines", addr)
	}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// secrets looks at who may read the files that have them, beside those that the loading
// of the settings warns of. others is what a mode may not have.
func (d *doctor) secrets() {
	private := func(check, path string, others fs.FileMode) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			d.fail(check, "name a file that this user can read", "%v", err)
		case info.Mode().Perm()&others != 0:
			d.fail(check, "chmod 600 "+path, "%s has a secret, and others may use it: its mode is %04o", path, info.Mode().Perm())
		default:
			d.ok(check, "nobody else may use %s", path)
		}
	}
	if d.setting("tls-cert") != "" && d.setting("tls-key") != "" {
		d.certificate()
	}
	if key := d.setting("tls-key"); key != "" {
		private("TLS key", key, 0o007) // a group may be that of all who serve with it
	}
	if profile := os.Getenv(envProfile); profile != "" {
		private("profile", profile, 0o177)
	}
}

// certificate loads the pair as a server does.
func (d *doctor) certificate() {
	pair, err := tls.LoadX509KeyPair(d.settings.TLSCert, d.settings.TLSKey)
	if err != nil {
		d.fail("certificate", "see docs/tls.md", "tls-cert and tls-key: %v", err)
		return
	}
	const do = "get a new one: docs/tls.md"
	end := pair.Leaf.NotAfter
	switch left := end.Sub(d.now()); {
	case left <= 0:
		d.fail("certificate", do, "it has expired: it ended on %s", end.UTC().Format(time.RFC3339))
	case d.now().Before(pair.Leaf.NotBefore):
		d.fail("certificate", "look at the clock, or "+do, "it begins on %s only", pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	case left < app.ExpiryNotice:
		d.warn("certificate", do, "it ends soon: on %s", end.UTC().Format(time.RFC3339))
	default:
		d.ok("certificate", "it and its key belong together, until %s", end.UTC().Format(time.RFC3339))
	}
}

func (d *doctor) openFiles() {
	n, err := d.files()
	const do = "raise it: LimitNOFILE= of the systemd unit, or ulimit -n"
	switch need := int64(d.settings.MaxConnections) + ownFiles; {
	case err != nil:
		d.warn("open files", do, "the limit could not be read: %v", err)
	case n < ownFiles:
		d.fail("open files", do, "this process may have %d files and connections open", n)
	case n < need:
		d.warn("open files", do+", or lower max-connections", "this process may have %d files and connections open: max-connections needs %d", n, need)
	default:
		d.ok("open files", "%d may be open", n)
	}
}

// databaseFiles looks at the files of a database, and reports whether there is one.
func (d *doctor) databaseFiles(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.fail("database", noDatabase, "there is no file %s", path)
		return false
	}
	if err != nil {
		d.fail("database", "name a file that this user can read", "%v", err)
		return false
	}
	d.modes(path)
	log := int64(0)
	if info, err := os.Stat(path + "-wal"); err == nil {
		log = info.Size()
	}
	if log > logWarn {
		d.warn("write-ahead log", "see docs/operations.md, The -wal file does not stop growing", "it has %s: somebody keeps a read open", mebibytes(log))
	} else {
		d.ok("write-ahead log", "it has %s", mebibytes(log))
	}
	free, err := d.free(filepath.Dir(path))
	switch needed := info.Size() + log; {
	case err != nil:
		d.warn("disk space", "look at it yourself", "it could not be read: %v", err)
	case free < logRoom:
		d.fail("disk space", "free some: writes fail when there is none", "%s are free, and the log alone may need %s", mebibytes(free), mebibytes(logRoom))
	case free < needed+logRoom:
		d.warn("disk space", "free some, and keep backups on another disk", "%s are free: too little for a copy of the database, which has %s", mebibytes(free), mebibytes(needed))
	default:
		d.ok("disk space", "%s are free, the database has %s", mebibytes(free), mebibytes(needed))
	}
	return true
}

// modes looks at who else may read or write the database, and whether this user may.
func (d *doctor) modes(path string) {
	var loose []string
	var worst fs.FileMode
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&(othersRead|othersUse) != 0 {
			loose, worst = append(loose, name), worst|info.Mode().Perm()
		}
	}
	dir, err := os.Stat(filepath.Dir(path))
	switch {
	case worst&othersUse != 0:
		d.fail("file modes", "chmod 600 "+strings.Join(loose, " "), "others may write to %s", strings.Join(loose, ", "))
	case err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		d.fail("file modes", "chmod 700 "+filepath.Dir(path), "others may put files of theirs in the place of the database: the mode of %s is %04o", filepath.Dir(path), dir.Mode().Perm())
	case worst != 0:
		d.warn("file modes", "chmod 600 "+strings.Join(loose, " "), "others may read %s, with the hashes of keys", strings.Join(loose, ", "))
	default:
		d.ok("file modes", "the database is its owner's alone")
	}
}

// server looks at what durability and capacity of a database server hang on.
func (d *doctor) server(ctx context.Context, s *store.Store) {
	server, err := s.Server(ctx)
	if err != nil {
		d.fail("database server", "see docs/scaling.md", "its settings could not be read: %s", explain(err))
		return
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(server.Settings[name])
		return n
	}
	if number("server_version_num") < 150000 {
		d.fail("server version", "use PostgreSQL 15 or later", "it is PostgreSQL %s", server.Settings["server_version"])
	} else {
		d.ok("server version", "it is PostgreSQL %s", server.Settings["server_version"])
	}
	var off []string
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if server.Settings[name] == "off" {
			off = append(off, name)
		}
	}
	if len(off) > 0 {
		d.fail("durability", "set it to on, and reload the server", "%s is off: what was acknowledged can be lost", strings.Join(off, ", "))
	} else {
		d.ok("durability", "what is committed is on disk")
	}
	room := number("max_connections") - number("superuser_reserved_connections")
	switch need := d.settings.DatabaseConnections; {
	case need > room:
		d.fail("connections", "lower database-connections, or raise max_connections", "database-connections is %d, the server has room for %d", need, room)
	case 2*need > room:
		d.warn("connections", "lower database-connections, or raise max_connections", "database-connections is %d and the server has room for %d: there is none for another process, also while one takes the place of another", need, room)
	default:
		d.ok("connections", "the server has room for %d processes with %d connections each", room/need, need)
	}
	if server.Settings["data_checksums"] == "off" {
		d.warn("page checksums", "switch them on while the server is stopped: pg_checksums --enable", "the server does not notice when the disk alters a page")
	} else {
		d.ok("page checksums", "the server notices when the disk alters a page")
	}
}
