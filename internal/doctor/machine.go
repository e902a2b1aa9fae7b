package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"atrium"
	"atrium/internal/store"
)

// What a server needs in addition to its database.
const (
	minFreeSpace     = 256 << 20 // bytes of disk: the WAL takes half of it under load
	maxWALSize       = 160 << 20 // bytes of a WAL that is not reset
	reservedFiles    = 256       // open files in addition to client connections, mainly for reads
	readableByOthers = 0o044
	writableByOthers = 0o033
)

// addresses checks who can reach the addresses that the server listens on.
func (d *checkup) addresses() {
	secure := d.setting("tls-cert") != ""
	switch {
	case d.Settings.Addr == "":
	case Loopback(d.Settings.Addr):
		d.ok("address", "%s is reachable only from this machine", d.Settings.Addr)
	case secure:
		d.ok("address", "%s uses TLS", d.Settings.Addr)
	default:
		d.warn("address", "configure TLS, or let only a proxy with TLS reach it",
			"%s is reachable from other machines, and keys are sent unencrypted", d.Settings.Addr)
	}
	if addr := d.Settings.MetricsAddr; addr != "" && !Loopback(addr) {
		d.warn("metrics address", "listen on an address that only your monitoring can reach",
			"%s requires no key and is reachable from other machines", addr)
	}
}

// Loopback reports whether an address of a listener can be reached only from its machine.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// secrets checks who can read files with secrets, except those that config.Loader checks. others is
// a mask of forbidden permission bits.
func (d *checkup) secrets() {
	checkPrivate := func(check, path string, others fs.FileMode) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			d.fail(check, "use a file that this user can read", "%v", err)
		case info.Mode().Perm()&others != 0:
			d.fail(check, "run chmod 600 "+path, "%s contains a secret and is accessible to other users: mode is %04o",
				path, info.Mode().Perm())
		default:
			d.ok(check, "%s is not accessible to other users", path)
		}
	}
	if d.setting("tls-cert") != "" && d.setting("tls-key") != "" {
		d.certificate()
	}
	if key := d.setting("tls-key"); key != "" {
		checkPrivate("TLS key", key, 0o007) // group access is allowed: servers can share a group
	}
	if secret := d.setting("oidc-client-secret-file"); secret != "" {
		checkPrivate("client secret", secret, 0o007)
	}
	if keys := d.setting("secrets-key-file"); keys != "" {
		if _, err := os.Stat(keys); errors.Is(err, fs.ErrNotExist) {
			d.fail("key file", "check the path, or run atrium secrets add-key to create it", "%v", err)
		} else {
			checkPrivate("key file", keys, 0o007)
		}
	}
	if d.Profile != "" {
		checkPrivate("profile", d.Profile, 0o177)
	}
}

// ExpiryNotice is the remaining validity of a certificate below which servers and checks warn.
const ExpiryNotice = 14 * 24 * time.Hour

// certificate loads the certificate and its key like a server does.
func (d *checkup) certificate() {
	pair, err := tls.LoadX509KeyPair(d.Settings.TLSCert, d.Settings.TLSKey)
	if err != nil {
		d.fail("certificate", "use PEM files that belong together: the certificate with its chain, and its key", "tls-cert and tls-key: %s and %s: %v", d.Settings.TLSCert, d.Settings.TLSKey, err)
		return
	}
	const fix = "renew it: a running server loads the new file within seconds"
	end := pair.Leaf.NotAfter
	switch left := end.Sub(d.Now()); {
	case left <= 0:
		d.fail("certificate", fix, "certificate expired on %s", end.UTC().Format(time.RFC3339))
	case d.Now().Before(pair.Leaf.NotBefore):
		d.fail("certificate", "check the clock, or "+fix, "certificate is not valid before %s",
			pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	case left < ExpiryNotice:
		d.warn("certificate", fix, "certificate expires soon, on %s", end.UTC().Format(time.RFC3339))
	default:
		d.ok("certificate", "certificate matches its key and is valid until %s", end.UTC().Format(time.RFC3339))
	}
}

// identityProvider asks the identity provider for its metadata and its keys.
func (d *checkup) identityProvider(ctx context.Context) {
	if err := d.CheckProvider(ctx); err != nil {
		d.fail("identity provider", "check oidc-issuer, and that this machine can reach it; login links work in the meantime", "%s: %v", d.Settings.OIDCIssuer, err)
		return
	}
	d.ok("identity provider", "%s responds; its redirect URI for this server must be %s, and its post-logout redirect URI %s",
		d.Settings.OIDCIssuer, d.RedirectURI, d.SignedOutURI)
}

func (d *checkup) openFiles() {
	n, err := d.files()
	const fix = "raise the limit: LimitNOFILE= in the systemd unit, or ulimit -n"
	switch need := int64(d.Settings.MaxConnections) + reservedFiles; {
	case err != nil:
		d.warn("open files", fix, "cannot read the limit: %v", err)
	case n < reservedFiles:
		d.fail("open files", fix, "limit is %d files and connections", n)
	case n < need:
		d.warn("open files", fix+", or lower max-connections",
			"limit is %d files and connections, max-connections requires %d", n, need)
	default:
		d.ok("open files", "limit is %d files and connections", n)
	}
}

// databaseFiles checks the files of the database, and reports whether the database exists.
func (d *checkup) databaseFiles(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.fail("database", noDatabaseFix, "%s does not exist", path)
		return false
	}
	if err != nil {
		d.fail("database", "use a file that this user can read", "%v", err)
		return false
	}
	d.modes(path)
	walSize := int64(0)
	if info, err := os.Stat(path + "-wal"); err == nil {
		walSize = info.Size()
	}
	if walSize > maxWALSize {
		d.warn("write-ahead log", "find the process that reads for so long with fuser -v "+path+", often a sqlite3 shell, and end it",
			"size is %s: a long-running read prevents its reset", mebibytes(walSize))
	} else {
		d.ok("write-ahead log", "size is %s", mebibytes(walSize))
	}
	free, err := d.free(filepath.Dir(path))
	switch needed := info.Size() + walSize; {
	case err != nil:
		d.warn("disk space", "check the free space manually", "cannot read the free space: %v", err)
	case free < minFreeSpace:
		d.fail("disk space", "free some space: writes fail when the disk is full",
			"%s free, the write-ahead log alone can need %s", mebibytes(free), mebibytes(minFreeSpace))
	case free < needed+minFreeSpace:
		d.warn("disk space", "free some space, and store backups on another disk",
			"%s free: too little for a copy of the database (%s)", mebibytes(free), mebibytes(needed))
	default:
		d.ok("disk space", "%s free, the database uses %s", mebibytes(free), mebibytes(needed))
	}
	return true
}

// modes checks whether other users can read or write the database.
func (d *checkup) modes(path string) {
	var exposed []string
	var modes fs.FileMode
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&(readableByOthers|writableByOthers) != 0 {
			exposed, modes = append(exposed, name), modes|info.Mode().Perm()
		}
	}
	dir, err := os.Stat(filepath.Dir(path))
	switch {
	case modes&writableByOthers != 0:
		d.fail("file modes", "run chmod 600 "+strings.Join(exposed, " "), "other users can write to %s",
			strings.Join(exposed, ", "))
	case err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		d.fail("file modes", "run chmod 700 "+filepath.Dir(path),
			"other users can replace the database: mode of %s is %04o", filepath.Dir(path), dir.Mode().Perm())
	case modes != 0:
		d.warn("file modes", "run chmod 600 "+strings.Join(exposed, " "),
			"other users can read %s, including the hashes of keys", strings.Join(exposed, ", "))
	default:
		d.ok("file modes", "only the owner can access the database")
	}
}

// server checks the durability and capacity settings of a database server.
func (d *checkup) server(ctx context.Context, s *store.Store) {
	server, err := s.Server(ctx)
	if err != nil {
		d.fail("database server", d.connectFix(), "cannot read the settings of the server: %s", explain(err))
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
		d.fail("durability", "set to on and reload the server", "off: %s: acknowledged writes can be lost",
			strings.Join(off, ", "))
	} else {
		d.ok("durability", "commits are synced to disk")
	}
	available := number("max_connections") - number("superuser_reserved_connections")
	switch need := d.Settings.DatabaseConnections; {
	case need > available:
		d.fail("connections", "lower database-connections, or raise max_connections",
			"database-connections is %d, the server allows %d", need, available)
	case 2*need > available:
		d.warn("connections", "lower database-connections, or raise max_connections",
			"database-connections is %d, the server allows %d: too few for a second process, such as during a restart",
			need, available)
	default:
		d.ok("connections", "the server allows %s with %d connections each",
			atrium.Count(available/need, "process", "processes"), need)
	}
	if server.Settings["data_checksums"] == "off" {
		d.warn("page checksums", "stop the server and run pg_checksums --enable",
			"the server does not detect corrupted pages")
	} else {
		d.ok("page checksums", "the server detects corrupted pages")
	}
}

// mebibytes formats a number of bytes, from 10 GiB on in GiB.
func mebibytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
