// Package backup copies an embedded database into one file while it is in use, checks
// such files, and puts them back.
//
// A file gets its name when it is whole, on disk and was found to be sound, and takes
// nobody else's. Beside it, with .sha256 behind its name, is its manifest.
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
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store"
)

// syncEvery is how much is written before it is synced, in bytes: what waits in memory
// holds up whoever syncs the same disk, as every commit does.
const syncEvery = 8 << 20

// Options may all be left out.
type Options struct {
	Rate     int64                   // bytes a second that are copied at most; 0 for no bound
	Progress func(done, total int64) // is told how far the copy is, in bytes; nil for nobody
	Version  string                  // of this binary, for the manifest
}

// Make copies the database of s to a new file, which has everything that was acknowledged
// before the call. Writers go on. The copy is read back and checked before it is called
// path. It is an error, and nothing stays, if there is a file at path.
func Make(ctx context.Context, s *store.Store, path string, o Options) (m Manifest, err error) {
	m = Manifest{File: filepath.Base(path), Atrium: o.Version}
	if err := mustBeFree(path); err != nil {
		return m, err
	}
	err = place(path, func(file *os.File) (err error) {
		m.TakenAt = atrium.At(time.Now())
		m.SHA256, m.Bytes, err = o.write(ctx, file, func(w io.Writer, begin func(int64)) error { return s.Copy(ctx, w, begin) })
		return err
	}, func(partial string) error {
		fault, err := readBack(ctx, partial, m.SHA256)
		if err == nil && fault == "" {
			m.Contents, fault, err = inspect(ctx, partial)
		}
		if err == nil && fault != "" {
			err = fmt.Errorf("the copy is not sound, and was not kept: %s", fault)
		}
		return err
	}, name)
	if err != nil {
		return m, err
	}
	if err := m.write(path + manifestEnd); err != nil {
		return m, fmt.Errorf("%s is whole, its manifest could not be written: %w", path, err)
	}
	return m, nil
}

// write lets fill write to a file, paced, and returns the checksum and how many bytes it
// were.
func (o Options) write(ctx context.Context, file *os.File, fill func(w io.Writer, begin func(int64)) error) (sum string, bytes int64, err error) {
	w := &pacedWriter{ctx: ctx, file: file, sum: sha256.New(), rate: o.Rate, start: time.Now(), progress: o.Progress}
	if err := fill(w, func(size int64) { w.total = size }); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.done, nil
}

// A pacedWriter writes no faster than it may, and leaves little to be synced.
type pacedWriter struct {
	ctx         context.Context
	file        *os.File
	sum         hash.Hash
	rate        int64
	start       time.Time
	done, total int64
	progress    func(done, total int64)
}

// Write writes all of b unless the context ends.
func (w *pacedWriter) Write(b []byte) (int, error) {
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

// pause waits until so much may have been written.
func (w *pacedWriter) pause() error {
	var ahead time.Duration
	if w.rate > 0 {
		ahead = time.Duration(float64(w.done)/float64(w.rate)*float64(time.Second)) - time.Since(w.start)
	}
	if ahead < 10*time.Millisecond { // which is less than a pause may take by itself
		return context.Cause(w.ctx)
	}
	select {
	case <-time.After(ahead):
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// A Fault is an audit log that was tampered with.
type Fault struct {
	Tenant atrium.TenantID `json:"tenantId"` // atrium.OperatorChain for that of the operators
	What   string          `json:"what"`
}

// A Report is what a check of a backup has found.
type Report struct {
	Manifest
	Audits []Fault `json:"audits"` // those that are broken; they were so when the backup was made
}

// Verify checks a backup where it is: its checksum, its structures, whether this binary
// can work with it, whether it has what its manifest says, and its audit logs. Without
// a manifest there is nothing to compare it with.
func Verify(ctx context.Context, path string, withManifest bool, o Options) (Report, error) {
	report, err := begin(path, withManifest)
	if err != nil {
		return report, err
	}
	file, err := os.Open(path)
	if err != nil {
		return report, err
	}
	defer func() { _ = file.Close() }()
	sum, bytes, err := digest(ctx, file, o)
	if err == nil {
		err = report.compare(path, sum, bytes)
	}
	if err == nil {
		err = report.examine(ctx, path, path)
	}
	return report, err
}

// Restore copies a backup to a new database, which appears at path when it has been
// found to be as Verify would have it. An audit log that is broken is reported, and
// does not keep the backup from being restored. It is an error, and nothing is changed,
// if there is a database at path or something of one.
func Restore(ctx context.Context, from, path string, withManifest bool, o Options) (Report, error) {
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := mustBeFree(path + end); err != nil {
			return Report{}, fmt.Errorf("%w: stop the server, and move the database away with its -wal and -shm", err)
		}
	}
	report, err := begin(from, withManifest)
	if err != nil {
		return report, err
	}
	source, err := os.Open(from)
	if err != nil {
		return report, err
	}
	defer func() { _ = source.Close() }()
	err = place(path, func(file *os.File) error {
		info, err := source.Stat()
		if err != nil {
			return err
		}
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
			err = fmt.Errorf("the copy is not sound, and was not kept: %s", fault)
		}
		if err == nil {
			err = report.examine(ctx, partial, from)
		}
		return err
	}, name)
	return report, err
}

// begin returns a report with the manifest of a backup, an empty one without.
func begin(path string, withManifest bool) (Report, error) {
	report := Report{Audits: []Fault{}}
	if _, err := os.Stat(path); err != nil || !withManifest {
		return report, err
	}
	m, err := readManifest(path + manifestEnd)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: copy it from where the backup was made; without it nothing tells whether the backup is as it was, but --no-manifest takes it", err)
	}
	report.Manifest = m
	return report, err
}

// errDamaged is what to do about a backup that is not as it was.
var errDamaged = errors.New("copy it again from where it was made, or take another backup")

// compare reports what the bytes of a backup tell, and notes them where there is no
// manifest.
func (r *Report) compare(path, sum string, bytes int64) error {
	if r.SHA256 == "" {
		r.File, r.SHA256, r.Bytes = filepath.Base(path), sum, bytes
		return nil
	}
	if bytes != r.Bytes {
		return fmt.Errorf("%s is damaged: it has %d bytes, not the %d that were written: %w", path, bytes, r.Bytes, errDamaged)
	}
	if sum != r.SHA256 {
		return fmt.Errorf("%s is damaged: its SHA-256 is %s, not %s: %w", path, sum, r.SHA256, errDamaged)
	}
	return nil
}

// examine checks the database at path, a copy of the backup whose bytes were compared.
func (r *Report) examine(ctx context.Context, path, from string) error {
	contents, fault, err := inspect(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if fault != "" {
		return fmt.Errorf("%s is damaged: %s: %w", from, fault, errDamaged)
	}
	if contents.Schema == 0 {
		return fmt.Errorf("%s is no database of Atrium", from)
	}
	s, err := store.OpenCopy(path)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	_, newest, err := s.Schema(ctx)
	switch {
	case err != nil:
		return err
	case contents.Schema > newest+1:
		return fmt.Errorf("%s has migration %d and this binary knows %d: use a newer binary, such as the one that made it%s",
			from, contents.Schema, newest, r.by())
	}
	if r.Schema > 0 && r.Schema != contents.Schema { // 0 without a manifest
		return fmt.Errorf("%s is damaged: it has migration %d, its manifest says %d: %w", from, contents.Schema, r.Schema, errDamaged)
	}
	for table, n := range r.Rows {
		if contents.Rows[table] != n {
			return fmt.Errorf("%s is damaged: %s has %d rows, its manifest says %d: %w", from, table, contents.Rows[table], n, errDamaged)
		}
	}
	r.Contents = contents
	if _, ok := contents.Rows["audit"]; !ok {
		return nil
	}
	return s.VerifyAudits(ctx, func(tenant atrium.TenantID, f auditlog.Fault) {
		r.Audits = append(r.Audits, Fault{tenant, f.String()})
	})
}

// by names the binary that made the backup, where that is known.
func (r *Report) by() string {
	if r.Atrium == "" {
		return ""
	}
	return " (" + r.Atrium + ")"
}

// readBack reads what was written from the disk, and returns what is wrong with it, ""
// for nothing. The error says that it could not be read.
func readBack(ctx context.Context, path, sum string) (fault string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	if err := forget(file); err != nil {
		return "", err
	}
	found, _, err := digest(ctx, file, Options{})
	if err != nil || found == sum {
		return "", err
	}
	return fmt.Sprintf("what was read back is not what was written: its SHA-256 is %s, not %s", found, sum), nil
}

// inspect reads all of a database that nobody changes, and returns what it holds, and
// what is wrong with it, "" for nothing. The error says that it could not be read.
func inspect(ctx context.Context, path string) (c store.Contents, fault string, err error) {
	defer func() {
		if store.Damaged(err) {
			fault, err = err.Error(), nil
		}
	}()
	s, err := store.OpenCopy(path)
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

// digest returns the checksum of what there is to read, and how much that is.
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

// partialEnd is how the name of a file ends that is not whole: what was killed leaves it,
// and it may be deleted.
const partialEnd = ".partial"

// place makes the file at path: write fills it, check looks at it under another name when
// it is on disk, and name gives it its own. If one of them fails, nothing stays.
func place(path string, write func(*os.File) error, check func(partial string) error, name func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*"+partialEnd) // for its owner alone
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // a link to the same file stays
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := check(file.Name()); err != nil {
		return err
	}
	if err := name(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// name gives a file a name that nobody has. Where a file cannot have two names, it is
// renamed, and the name was free a moment before.
func name(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	if err := mustBeFree(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func mustBeFree(path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return fmt.Errorf("%s exists, and is not overwritten", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
