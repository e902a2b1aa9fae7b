// Package backup copies an embedded database to one file while it is in use, verifies such backups,
// and restores them.
//
// A backup appears under its name only when it is complete, synced and verified, and never
// overwrites a file. Its manifest is next to it, with the suffix .sha256.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store"
)

// syncEvery is the number of bytes between syncs: more dirty pages would delay other syncs of the
// same disk, such as those of commits.
const syncEvery = 8 << 20

// Options are all optional.
type Options struct {
	Rate     int64                   // maximum bytes per second; 0 for no limit
	Progress func(done, total int64) // called with the progress in bytes; may be nil
	Version  string                  // version of this binary, for the manifest
}

// Make copies the database of s to a new file at path, with everything that was acknowledged before
// the call. It does not block writers. It reads the copy back and verifies it before it gets its
// name. If a file exists at path, Make returns an error and leaves nothing behind. If the schema is
// not the one that the migrations create, it leaves the backup and returns an error.
func Make(ctx context.Context, s *store.Store, path string, o Options) (m Manifest, err error) {
	m = Manifest{File: filepath.Base(path), Atrium: o.Version}
	if err := checkNotExist(path); err != nil {
		return m, err
	}
	err = place(path, func(file *os.File) (err error) {
		m.TakenAt = atrium.At(time.Now())
		m.SHA256, m.Bytes, err = o.write(ctx, file, func(w io.Writer, begin func(int64)) error {
			return s.WriteBackup(ctx, w, begin)
		})
		return err
	}, func(partial string) error {
		fault, err := readBack(ctx, partial, m.SHA256)
		if err == nil && fault == "" {
			m.Contents, fault, err = inspect(ctx, partial)
		}
		if err == nil && fault != "" {
			err = fmt.Errorf("the copy is damaged and was deleted: %s", fault)
		}
		return err
	}, linkOrRename)
	if err != nil {
		return m, err
	}
	if err := m.write(path + manifestSuffix); err != nil {
		return m, fmt.Errorf("%s is complete, but its manifest could not be written: %w", path, err)
	}
	if m.Schema == 0 {
		return m, nil
	}
	made, err := store.OpenBackup(path)
	if err != nil {
		return m, err
	}
	defer func() { _ = made.Close() }()
	if err := checkSchema(context.WithoutCancel(ctx), made); err != nil { // the backup exists: too late to cancel
		return m, fmt.Errorf("%s is complete, but cannot be restored: %w", path, err)
	}
	return m, nil
}

// checkSchema returns an error that lists the differences between the schema of a copy and that of
// its migrations.
func checkSchema(ctx context.Context, s *store.Store) error {
	faults, err := s.SchemaFaults(ctx)
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("the schema was altered: %s: undo these changes with sqlite3",
			strings.Join(faults, "; "))
	}
	return err
}

// write lets fill write to a file at the configured rate. It returns the checksum and the number of
// bytes.
func (o Options) write(
	ctx context.Context, file *os.File, fill func(w io.Writer, begin func(int64)) error,
) (sum string, bytes int64, err error) {
	w := &rateLimitedWriter{
		ctx: ctx, file: file, sum: sha256.New(), rate: o.Rate, start: time.Now(), progress: o.Progress,
	}
	if err := fill(w, func(size int64) { w.total = size }); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.done, nil
}

// A rateLimitedWriter limits the rate of writes, syncs regularly, and computes the checksum.
type rateLimitedWriter struct {
	ctx         context.Context
	file        *os.File
	sum         hash.Hash
	rate        int64
	start       time.Time
	done, total int64
	progress    func(done, total int64)
}

// Write writes all of b, unless the context ends.
func (w *rateLimitedWriter) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.sum.Write(b[:n])
	before := w.done
	w.done += int64(n)
	if err != nil {
		return n, err
	}
	if w.done/syncEvery != before/syncEvery {
		if err := w.file.Sync(); err != nil {
			return n, err
		}
	}
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
	return n, w.pause()
}

// pause waits until the rate allows the bytes written so far.
func (w *rateLimitedWriter) pause() error {
	var ahead time.Duration
	if w.rate > 0 {
		ahead = time.Duration(float64(w.done)/float64(w.rate)*float64(time.Second)) - time.Since(w.start)
	}
	if ahead < 10*time.Millisecond { // shorter than the accuracy of timers
		return context.Cause(w.ctx)
	}
	select {
	case <-time.After(ahead):
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// A Fault is a broken audit log.
type Fault struct {
	Tenant atrium.TenantID `json:"tenantId"` // atrium.OperatorChain for the operators' log
	What   string          `json:"what"`
}

// A Report is the result of verifying a backup.
type Report struct {
	Manifest
	Audits []Fault `json:"audits"` // audit logs that were broken when the backup was made

	// IDs of the keys that the secrets in the database may need. A backup does not contain keys.
	SecretKeys []string `json:"secretKeys,omitempty"`
}

// Verify verifies a backup in place: its checksum and structure, whether this binary supports its
// schema, whether its migrations create that schema, whether its contents match the manifest, and
// its audit logs. Without a manifest, it skips the comparisons with it. The error says what is wrong;
// a broken audit log is only in the report.
func Verify(ctx context.Context, path string, withManifest bool, o Options) (Report, error) {
	report, err := begin(path, withManifest)
	if err != nil {
		return report, err
	}
	file, err := openRegular(path)
	if err != nil {
		return report, err
	}
	defer func() { _ = file.Close() }()
	sum, bytes, err := digest(ctx, file, o)
	if err == nil {
		err = report.compare(path, sum, bytes)
	}
	if err == nil {
		err = report.checkDatabase(ctx, path, path)
	}
	return report, err
}

// Restore verifies a backup as Verify does and copies it to a new database at path, which appears
// only after the verification. The only difference from the backup is that its feeds continue with
// new positions (atrium.RestoredPosition). A broken audit log is reported but does not prevent the restore. If
// a database, or one of its files, exists at path, Restore returns an error and changes nothing. Before it writes, it removes
// the partial files that killed restores of path have left, on Linux and macOS.
func Restore(ctx context.Context, from, path string, withManifest bool, o Options) (Report, error) {
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := checkNotExist(path + end); err != nil {
			return Report{}, fmt.Errorf("%w: stop the server, and move the database with its -wal and -shm", err)
		}
	}
	report, err := begin(from, withManifest)
	if err != nil {
		return report, err
	}
	source, err := openRegular(from)
	if err != nil {
		return report, err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return report, err
	}
	removeAbandoned(path, info)
	err = place(path, func(file *os.File) error {
		sum, bytes, err := o.write(ctx, file, func(w io.Writer, begin func(int64)) error {
			begin(info.Size())
			_, err := io.Copy(w, source)
			return err
		})
		if err != nil {
			return err
		}
		return report.compare(from, sum, bytes)
	}, func(partial string) error {
		fault, err := readBack(ctx, partial, report.SHA256)
		if err == nil && fault != "" {
			err = fmt.Errorf("the copy is damaged and was deleted: %s", fault)
		}
		if err == nil {
			err = report.checkDatabase(ctx, partial, from)
		}
		if _, ok := report.Rows[feeds]; err == nil && ok {
			err = continueFeeds(ctx, partial)
		}
		return err
	}, linkOrRename)
	return report, err
}

// feeds is the table of feeds, which backups of earlier versions do not have.
const feeds = "event_feeds"

// continueFeeds gives the next events of a restored database new positions.
func continueFeeds(ctx context.Context, path string) (err error) {
	s, err := store.Open(ctx, "sqlite:"+path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ContinueAfterRestore(ctx)
}

// begin returns a report with the manifest of a backup, or an empty one.
func begin(path string, withManifest bool) (Report, error) {
	report := Report{Audits: []Fault{}}
	if err := checkRegular(path); err != nil || !withManifest {
		return report, err
	}
	m, err := readManifest(path + manifestSuffix)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: copy the manifest from where the backup was made, or pass --no-manifest "+
			"to skip its comparison, which does not detect all damage", err)
	}
	report.Manifest = m
	return report, err
}

// checkRegular returns an error unless path is a regular file. Opening a named pipe would block until
// a process writes to it.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: write its content to a file, and pass that", path)
	}
	return err
}

// openRegular opens a regular file for reading.
func openRegular(path string) (*os.File, error) {
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// errDamaged says how to replace a damaged backup.
var errDamaged = errors.New("copy it again from where it was made, or take another backup")

// compare compares the size and checksum of a backup with its manifest, or adds them to the report
// if there is none.
func (r *Report) compare(path, sum string, bytes int64) error {
	if r.SHA256 == "" {
		r.File, r.SHA256, r.Bytes = filepath.Base(path), sum, bytes
		return nil
	}
	if bytes != r.Bytes {
		return fmt.Errorf("%s is damaged: it has %d bytes, want %d: %w", path, bytes, r.Bytes, errDamaged)
	}
	if sum != r.SHA256 {
		return fmt.Errorf("%s is damaged: its SHA-256 is %s, want %s: %w", path, sum, r.SHA256, errDamaged)
	}
	return nil
}

// checkDatabase verifies the database at path, which is the backup or a copy of it. Errors name the
// backup from.
func (r *Report) checkDatabase(ctx context.Context, path, from string) error {
	contents, fault, err := inspect(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if fault != "" {
		return fmt.Errorf("%s is damaged: %s: %w", from, fault, errDamaged)
	}
	if contents.Schema == 0 {
		return fmt.Errorf("%s is not an Atrium database", from)
	}
	s, err := store.OpenBackup(path)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.CheckUpgrade(ctx); errors.Is(err, store.ErrNewer) {
		return fmt.Errorf("%s: %w, such as the one that made it%s", from, err, r.by())
	} else if err != nil {
		return err
	}
	if err := checkSchema(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if r.Schema > 0 && r.Schema != contents.Schema { // 0 without a manifest
		return fmt.Errorf("%s is damaged: it has migration %d, but its manifest says %d: %w",
			from, contents.Schema, r.Schema, errDamaged)
	}
	for table, n := range r.Rows {
		if contents.Rows[table] != n {
			return fmt.Errorf("%s is damaged: %s has %d rows, but its manifest says %d: %w",
				from, table, contents.Rows[table], n, errDamaged)
		}
	}
	r.Contents = contents
	keys, err := s.SecretKeys(ctx)
	if err != nil {
		return err
	}
	for _, id := range keys {
		r.SecretKeys = append(r.SecretKeys, id.String())
	}
	if _, ok := contents.Rows["audit"]; !ok {
		return nil
	}
	return s.VerifyAudits(ctx, func(tenant atrium.TenantID, f auditlog.Fault) {
		r.Audits = append(r.Audits, Fault{tenant, f.String()})
	})
}

// by names the binary that made the backup, if known.
func (r *Report) by() string {
	if r.Atrium == "" {
		return ""
	}
	return " (" + r.Atrium + ")"
}

// readBack reads a file from disk and compares its checksum. fault describes a mismatch, "" for
// none. The error says that the file could not be read.
func readBack(ctx context.Context, path, sum string) (fault string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	if err := dropPageCache(file); err != nil {
		return "", err
	}
	found, _, err := digest(ctx, file, Options{})
	if err != nil || found == sum {
		return "", err
	}
	return fmt.Sprintf("read back with the SHA-256 %s, want %s", found, sum), nil
}

// inspect checks a whole database that is not in use, and returns its contents. fault describes
// damage, "" for none. The error says that the database could not be read.
func inspect(ctx context.Context, path string) (c store.Contents, fault string, err error) {
	defer func() {
		if store.Damaged(err) {
			fault, err = err.Error(), nil
		}
	}()
	s, err := store.OpenBackup(path)
	if err != nil {
		return c, "", err
	}
	defer func() { _ = s.Close() }()
	problems, err := s.Check(ctx, true)
	if err != nil {
		return c, "", err
	}
	if len(problems) > 0 {
		return c, problems[0].Detail, nil
	}
	c, err = s.Contents(ctx)
	return c, "", err
}

// digest returns the SHA-256, in hexadecimal, and the size of the rest of a file.
func digest(ctx context.Context, file *os.File, o Options) (sum string, bytes int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return "", 0, err
	}
	h, buffer := sha256.New(), make([]byte, 1<<20)
	for {
		n, err := file.Read(buffer)
		h.Write(buffer[:n])
		bytes += int64(n)
		if o.Progress != nil {
			o.Progress(bytes, info.Size())
		}
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), bytes, nil
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return "", bytes, err
		}
	}
}
