package rest

import (
	"bytes"
	"cmp"
	"sync"

	"atrium"
)

const (
	maxKeptBody = 256 << 10 // what is larger is not kept
	keptAround  = 256       // what an answer takes besides its texts, about
)

// Kept are answers that are sent again for as long as what they say is stored is the
// same. It may be used by several goroutines, and be nil: then nothing is kept.
//
// Who asks must be allowed to before: what is kept knows tenants, not keys.
type Kept struct {
	// Revision is that of what is stored of a subject, as engine.DB has it.
	Revision func(subject string) ([2]uint64, bool)

	Bytes int64 // how much memory they take at most, about; nothing is kept for 0

	mu         sync.Mutex
	young, old map[question]*keptAnswer // guarded by mu; old ones are taken over when they are asked for
	youngBytes int64                    // guarded by mu
}

// A question is what an answer depends on, apart from what is stored.
type question struct {
	tenant      atrium.TenantID
	path, query string
}

type keptAnswer struct {
	revision [2]uint64
	body     Encoded
	tag      string
}

func (a *keptAnswer) bytes(q question) int64 {
	return int64(len(a.body) + len(a.tag) + len(q.path) + len(q.query) + keptAround)
}

// Answer returns what answer would, from memory if it is the same. That has status
// 200. If keep is true, it depends on nothing but the tenant, the path and the query of
// the request, and what is stored of the subject: see engine.DB's Revision.
func (k *Kept) Answer(r *Request, tenant atrium.TenantID, subject string, answer func() (response Response, keep bool, err error)) (Response, error) {
	var before [2]uint64
	known := false
	if k != nil && k.Bytes > 0 {
		before, known = k.Revision(subject)
	}
	if !known {
		response, _, err := answer()
		return response, err
	}
	q := question{tenant, r.http.URL.EscapedPath(), r.http.URL.RawQuery}
	if a := k.find(q, before); a != nil {
		return Response{Body: a.body, ETag: a.tag}, nil
	}
	response, keep, err := answer()
	if err != nil || !keep {
		return response, err
	}
	body, writer, err := encode(response.Body, r.http)
	if err != nil {
		giveBack(writer)
		return response, err
	}
	if writer != nil {
		body = bytes.Clone(body)
		giveBack(writer)
	}
	a := &keptAnswer{before, body, cmp.Or(response.ETag, hashTag(body))}
	if after, ok := k.Revision(subject); ok && after == before && len(body) <= maxKeptBody {
		k.keep(q, a)
	}
	return Response{Body: a.body, ETag: a.tag}, nil
}

// find returns the answer of the revision, or nil.
func (k *Kept) find(q question, revision [2]uint64) *keptAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.young[q]
	if a == nil {
		if a = k.old[q]; a == nil {
			return nil
		}
		if a.revision == revision {
			k.add(q, a)
		}
	}
	if a.revision != revision {
		return nil
	}
	return a
}

func (k *Kept) keep(q question, a *keptAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(q, a)
}

// add makes an answer a young one. When these take half of the memory they become the old
// ones, and those that nobody has asked for since the last time are forgotten. k.mu is
// held.
func (k *Kept) add(q question, a *keptAnswer) {
	if k.young == nil {
		k.young = map[question]*keptAnswer{}
	}
	if former := k.young[q]; former != nil {
		k.youngBytes -= former.bytes(q)
	}
	k.young[q] = a
	if k.youngBytes += a.bytes(q); k.youngBytes > k.Bytes/2 {
		k.young, k.old, k.youngBytes = nil, k.young, 0
	}
}
