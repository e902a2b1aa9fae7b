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
		d.ok("address", "%s is reachable only from this machine", d.settings.Addr)
	case secure:
		d.ok("address", "%s uses TLS", d.settings.Addr)
	default:
		d.warn("address", "configure TLS, or let only a proxy with TLS reach it",
			"%s is reachable from other machines, and keys are sent unencrypted", d.settings.Addr)
	}
	if addr := d.settings.MetricsAddr; addr != "" && !loopback(addr) {
		d.warn("metrics address", "listen on an address that only your monitoring can reach", "%s requires no key and is reachable from other machines", addr)
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
			d.fail(check, "use a file that this user can read", "%v", err)
		case info.Mode().Perm()&others != 0:
			d.fail(check, "run chmod 600 "+path, "%s contains a secret and is accessible to other users: mode is %04o", path, info.Mode().Perm())
		default:
			d.ok(check, "%s is not accessible to other users", path)
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
	const do = "renew it: see docs/tls.md"
	end := pair.Leaf.NotAfter
	switch left := end.Sub(d.now()); {
	case left <= 0:
		d.fail("certificate", do, "certificate expired on %s", end.UTC().Format(time.RFC3339))
	case d.now().Before(pair.Leaf.NotBefore):
		d.fail("certificate", "check the clock, or "+do, "certificate is not valid before %s", pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	case left < app.ExpiryNotice:
		d.warn("certificate", do, "certificate expires soon, on %s", end.UTC().Format(time.RFC3339))
	default:
		d.ok("certificate", "certificate matches its key and is valid until %s", end.UTC().Format(time.RFC3339))
	}
}

func (d *doctor) openFiles() {
	n, err := d.files()
	const do = "raise the limit: LimitNOFILE= in the systemd unit, or ulimit -n"
	switch need := int64(d.settings.MaxConnections) + ownFiles; {
	case err != nil:
		d.warn("open files", do, "cannot read the limit: %v", err)
	case n < ownFiles:
		d.fail("open files", do, "limit is %d files and connections", n)
	case n < need:
		d.warn("open files", do+", or lower max-connections", "limit is %d files and connections, max-connections requires %d", n, need)
	default:
		d.ok("open files", "limit is %d files and connections", n)
	}
}

// databaseFiles looks at the files of a database, and reports whether there is one.
func (d *doctor) databaseFiles(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.fail("database", noDatabase, "%s does not exist", path)
		return false
	}
	if err != nil {
		d.fail("database", "use a file that this user can read", "%v", err)
		return false
	}
	d.modes(path)
	log := int64(0)
	if info, err := os.Stat(path + "-wal"); err == nil {
		log = info.Size()
	}
	if log > logWarn {
		d.warn("write-ahead log", "see docs/operations.md, The -wal file does not stop growing", "size is %s: a long-running read prevents its reset", mebibytes(log))
	} else {
		d.ok("write-ahead log", "size is %s", mebibytes(log))
	}
	free, err := d.free(filepath.Dir(path))
	switch needed := info.Size() + log; {
	case err != nil:
		d.warn("disk space", "check the free space manually", "cannot read the free space: %v", err)
	case free < logRoom:
		d.fail("disk space", "free some space: writes fail when the disk is full", "%s free, the write-ahead log alone can need %s", mebibytes(free), mebibytes(logRoom))
	case free < needed+logRoom:
		d.warn("disk space", "free some space, and store backups on another disk", "%s free: too little for a copy of the database (%s)", mebibytes(free), mebibytes(needed))
	default:
		d.ok("disk space", "%s free, the database uses %s", mebibytes(free), mebibytes(needed))
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
		d.fail("file modes", "run chmod 600 "+strings.Join(loose, " "), "other users can write to %s", strings.Join(loose, ", "))
	case err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		d.fail("file modes", "run chmod 700 "+filepath.Dir(path), "other users can replace the database: mode of %s is %04o", filepath.Dir(path), dir.Mode().Perm())
	case worst != 0:
		d.warn("file modes", "run chmod 600 "+strings.Join(loose, " "), "other users can read %s, including the hashes of keys", strings.Join(loose, ", "))
	default:
		d.ok("file modes", "only the owner can access the database")
	}
}

// server looks at what durability and capacity of a database server hang on.
func (d *doctor) server(ctx context.Context, s *store.Store) {
	server, err := s.Server(ctx)
	if err != nil {
		d.fail("database server", "see docs/scaling.md", "cannot read the settings of the server: %s", explain(err))
		return
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(server.Settings[name])
		return n
	}
	if number("server_version_num") < 150000 {
		d.fail("server version", "use PostgreSQL 15 or later", "PostgreSQL %s", server.Settings["server_version"])
	} else {
		d.ok("server version", "PostgreSQL %s", server.Settings["server_version"])
	}
	var off []string
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if server.Settings[name] == "off" {
			off = append(off, name)
		}
	}
	if len(off) > 0 {
		d.fail("durability", "set to on and reload the server", "off: %s: acknowledged writes can be lost", strings.Join(off, ", "))
	} else {
		d.ok("durability", "commits are synced to disk")
	}
	room := number("max_connections") - number("superuser_reserved_connections")
	switch need := d.settings.DatabaseConnections; {
	case need > room:
		d.fail("connections", "lower database-connections, or raise max_connections", "database-connections is %d, the server allows %d", need, room)
	case 2*need > room:
		d.warn("connections", "lower database-connections, or raise max_connections", "database-connections is %d, the server allows %d: too few for a second process, such as during a restart", need, room)
	default:
		d.ok("connections", "the server allows %d processes with %d connections each", room/need, need)
	}
	if server.Settings["data_checksums"] == "off" {
		d.warn("page checksums", "stop the server and run pg_checksums --enable", "the server does not detect corrupted pages")
	} else {
		d.ok("page checksums", "the server detects corrupted pages")
	}
}
