// Package requestlog records requests for their tenants, in the database, so that all nodes show the same:
// those that were refused or failed, and those of users that have read personal data. A request never waits
// for it: rows wait in bounded queues, and a job writes them each second. Rows that the queues have no room for are lost and counted.
package requestlog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"atrium"
	"atrium/internal/telemetry"
)

// A Store stores what a Recorder records.
type Store interface {
	// StoreRefusedRequests stores refused requests of any tenants. If it fails, it is called again with the
	// same requests: it must not store them twice.
	StoreRefusedRequests(ctx context.Context, refused []atrium.RefusedRequest) error

	// StoreReads is StoreRefusedRequests for reads of personal data.
	StoreReads(ctx context.Context, reads []atrium.Read) error
}

// A Recorder records requests. It is safe for concurrent use.
type Recorder struct {
	store   Store
	now     func() time.Time
	refused queue[refusedRow]
	reads   queue[readRow]
}

// New returns a Recorder that writes to a store. now is its clock.
func New(store Store, now func() time.Time) *Recorder {
	r := &Recorder{store: store, now: now}
	r.refused.merge = func(into *refusedRow, row refusedRow) { into.Count += row.Count }
	r.reads.merge = func(into *readRow, row readRow) { into.Count += row.Count }
	r.reads.general = generalRead
	return r
}

// Observe records a request, after its response.
func (r *Recorder) Observe(x *telemetry.Exchange) {
	if x.TenantID == "" || x.KeyID == "" && x.UserID == "" && x.Receiver == "" {
		return
	}
	switch {
	case x.Code != "":
		r.observeRefused(x)
	case x.Read != "" && (x.UserID != "" || x.Read == atrium.ReadExport):
		r.observeRead(x)
	}
}

// Write writes what was recorded. After an error, the next call writes it.
func (r *Recorder) Write(ctx context.Context) error {
	return errors.Join(r.reads.write(func(rows []readRow) error {
		reads := make([]atrium.Read, len(rows))
		for i, row := range rows {
			reads[i] = row.Read
		}
		return r.store.StoreReads(ctx, reads)
	}), r.refused.write(func(rows []refusedRow) error {
		refused := make([]atrium.RefusedRequest, len(rows))
		for i, row := range rows {
			refused[i] = row.RefusedRequest
		}
		return r.store.StoreRefusedRequests(ctx, refused)
	}))
}

// DroppedRefusedRequests returns the number of refused requests that were lost.
func (r *Recorder) DroppedRefusedRequests() int64 { return r.refused.dropped.Load() }

// DroppedReads returns the number of reads of personal data that were lost.
func (r *Recorder) DroppedReads() int64 { return r.reads.dropped.Load() }

// A readRow is a read in a queue.
type readRow struct{ atrium.Read }

func (r readRow) tenant() atrium.TenantID { return r.TenantID }
func (r readRow) requests() int64         { return r.Count }

// generalRead returns a row for all further reads of a caller within a second, so that nobody can hide one behind many
// others.
func generalRead(r readRow) (rowKey, readRow) {
	r.Kind, r.Subject = atrium.ReadList, ""
	return hashOf([]string{"general", string(r.KeyID), string(r.UserID)}), r
}

// observeRead records a read of personal data.
func (r *Recorder) observeRead(x *telemetry.Exchange) {
	read := atrium.Read{
		TenantID: x.TenantID, Count: 1, RequestID: x.RequestID, Kind: x.Read, Subject: x.Subject, Route: x.Route, KeyID: x.KeyID, UserID: x.UserID,
	}
	key := hashOf([]string{string(read.Kind), read.Subject, read.Route, string(read.KeyID), string(read.UserID)})
	read.ID, read.At = atrium.NewID[atrium.ReadID](), atrium.At(r.now())
	r.reads.add(key, readRow{read})
}

// Limits of the texts of a refused request in bytes. Longer ones are cut off.
const (
	maxDetail     = 300  // of the request, and of a fault
	maxWhere      = 200  // of a fault
	maxFaultBytes = 4096 // of all faults: further ones are left out
)

// A refusedRow is a refused request in a queue.
type refusedRow struct{ atrium.RefusedRequest }

func (r refusedRow) tenant() atrium.TenantID { return r.TenantID }
func (r refusedRow) requests() int64         { return r.Count }

// observeRefused records a refused request.
func (r *Recorder) observeRefused(x *telemetry.Exchange) {
	f := atrium.RefusedRequest{
		TenantID: x.TenantID, Count: 1, RequestID: x.RequestID, Method: x.Method, Route: x.Route, Status: x.Status, Code: x.Code,
		Detail: cut(x.Detail, maxDetail), KeyID: x.KeyID, UserID: x.UserID, UserAgent: printable(x.UserAgent),
	}
	size := 0
	for _, fault := range x.Faults {
		fault.Where, fault.Detail = strings.TrimSuffix(cut(fault.Where, maxWhere), "~"), cut(fault.Detail, maxDetail) // ~ begins an escape of a pointer
		if size += len(fault.Where) + len(fault.Detail); size > maxFaultBytes {
			break
		}
		f.Faults = append(f.Faults, fault)
	}
	key := keyOf(&f)
	f.ID, f.At = atrium.NewID[atrium.RefusedRequestID](), atrium.At(r.now())
	r.refused.add(key, refusedRow{f})
}

// keyOf returns what equal refused requests have in common.
func keyOf(f *atrium.RefusedRequest) rowKey {
	texts := []string{
		f.Method, f.Route, strconv.Itoa(f.Status), string(f.Code), f.Detail, string(f.KeyID), string(f.UserID), f.UserAgent,
	}
	for _, fault := range f.Faults {
		texts = append(texts, string(fault.In), fault.Where, fault.Detail)
	}
	return hashOf(texts)
}

// hashOf returns the hash of texts, each with its length.
func hashOf(texts []string) (key rowKey) {
	h := sha256.New()
	for _, text := range texts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	h.Sum(key[:0])
	return key
}

// cut returns the first characters of a text, up to a number of bytes. NUL, which PostgreSQL does not store, and
// what is not UTF-8 become question marks. The result shares no memory with the text, which may be that of a whole
// request.
func cut(text string, most int) string {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	return strings.Clone(strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?"))
}

// printable returns the first characters of a User-Agent. Those that are not printable ASCII become question
// marks. The result shares no memory with the text.
func printable(text string) string {
	return strings.Clone(strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text[:min(len(text), atrium.MaxUserAgent)]))
}
