// Package transfer exports and imports all data of a tenant as NDJSON: one object per line, whose
// member kind names its type.
//
// Export and import are inverse: data that was exported, imported into an empty store and exported
// again is identical, byte for byte. Both stream: they hold one chunk in memory, whatever the
// amount of data.
package transfer

import (
	"context"
	"io"

	"atrium"
	"atrium/internal/store"
)

// Limits of a chunk, which is decoded before it is stored, of a part of it, which is stored in one
// transaction, and of a line.
const (
	chunkLines = 500
	chunkBytes = 4 << 20
	partRows   = 500 // of tables and indexes: other writers wait for the transaction
	maxLine    = 32 << 20
)

// Limits let a server share resources between imports and other requests. Nil fields do not
// limit.
type Limits struct {
	// Acquire waits until the import may use the CPU. The import calls release before it waits
	// for its client or for a commit.
	Acquire func(ctx context.Context) (release func(), err error)

	// AcquireCommit waits until the import may store a part of a chunk.
	AcquireCommit func(ctx context.Context) (release func(), err error)

	// Reserve reserves bytes of memory.
	Reserve func(bytes int64) (release func(), err error)

	// Recheck returns an error if the caller is no longer authorized. It is called before each
	// part of a chunk is stored.
	Recheck func(ctx context.Context) error
}

// acquire calls f, which may be nil.
func acquire(ctx context.Context, f func(context.Context) (func(), error)) (release func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	return f(ctx)
}

// exportBuffer is the number of encoded bytes that an export writes at once.
const exportBuffer = 256 << 10

// Export writes all data of a tenant to w and returns the number of lines. If there is no such
// tenant, the error's code is atrium.CodeNotFound.
func Export(ctx context.Context, s *store.Store, tenant atrium.TenantID, w io.Writer) (lines int, err error) {
	out := lineWriter{to: w}
	if err = s.Export(ctx, tenant, out.write); err == nil && len(out.buffer) > 0 {
		err = out.flush()
	}
	return out.lines, err
}

// ExportPerson writes what an erasure by the request would delete to w. While it searches, it calls
// w.Write often, also with no bytes, so that w can pause or end the export.
func ExportPerson(ctx context.Context, s *store.Store, tenant atrium.TenantID, request atrium.ErasureRequest, w io.Writer) (atrium.PersonExport, error) {
	out := lineWriter{to: w}
	done, err := s.ExportPerson(ctx, tenant, request, out.write, out.flush)
	if err == nil {
		err = out.flush()
	}
	return done, err
}

// A lineWriter writes records as lines.
type lineWriter struct {
	to     io.Writer
	buffer []byte
	lines  int
}

func (w *lineWriter) write(record store.Record) error {
	line, err := encode(record)
	if err != nil {
		return err
	}
	w.lines++
	w.buffer = append(append(w.buffer, line...), '\n')
	if len(w.buffer) < exportBuffer {
		return nil
	}
	return w.flush()
}

func (w *lineWriter) flush() error {
	_, err := w.to.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}
