package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

func (a *API) getAccountLog(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.EntryID](r, "account_log_id")
	if err != nil {
		return rest.Response{}, err
	}
	e, err := a.Store.TimelineEntry(ctx, who.TenantID, id)
	if err != nil {
		return rest.Response{}, err
	}
	body, err := appendAccountLog(nil, e)
	return rest.Response{Body: rest.Encoded(body)}, err
}

func (a *API) getPayload(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.EntryID](r, "account_log_id")
	if err != nil {
		return rest.Response{}, err
	}
	e, err := a.Store.TimelineEntry(ctx, who.TenantID, id)
	return rest.Response{Body: rest.Encoded(e.Payload)}, err
}

// maxEntries is the maximum number of entries in a batch, and maxConcurrentSubmits the maximum
// number of them that wait for the writer at a time.
const (
	maxEntries           = 1000
	maxConcurrentSubmits = 256
)

// An outcome reports a recorded entry.
type outcome struct {
	Status       int              `json:"status"`
	AccountLogID atrium.EntryID   `json:"accountLogId"`
	AccountID    atrium.AccountID `json:"accountId"`
	CreatedAt    atrium.Time      `json:"createdAt"`
	Source       string           `json:"source"`
	Type         string           `json:"type"`
	Replayed     bool             `json:"replayed,omitzero"`
}

type outcomes struct {
	Outcomes []any `json:"outcomes"` // outcome or rest.Refusal, in the order of the entries
}

// A submission is an entry of a batch: a draft, or the reason why it is invalid.
type submission struct {
	draft   *atrium.Draft
	err     error
	refusal rest.Refusal  // of an entry that is invalid
	after   chan struct{} // closed when the previous entry with the same key is done; nil for none
	done    chan struct{}
}

// createAccountLogs records a batch of entries. An entry that fails does not affect the others.
func (a *API) createAccountLogs(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	sent, err := a.decodeAccountLogs(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	body := outcomes{make([]any, len(sent))}
	next := make(chan int)
	var submitting sync.WaitGroup
	for range min(maxConcurrentSubmits, len(sent)) {
		submitting.Go(func() {
			for i := range next {
				body.Outcomes[i] = a.submit(ctx, r, &sent[i])
			}
		})
	}
	for i := range sent {
		next <- i // in order, so that the entry that another one waits for is in flight
	}
	close(next)
	submitting.Wait()
	if e := refusedEntries(sent); e != nil {
		r.LogProblem(e)
	}
	encode := func() (rest.Encoded, error) { return rest.Encode(body) }
	encoded, err := r.EncodeBody(ctx, outcomeBytes*len(sent), encode)
	if atrium.CodeOf(err) == atrium.CodeUnavailable { // the client must learn what is stored
		encoded, err = encode()
	}
	return rest.Response{Body: encoded}, err
}

// submit records one entry and returns its outcome. It recovers a panic, which would
// otherwise end the process: the panic becomes the outcome of this entry.
func (a *API) submit(ctx context.Context, r *rest.Request, s *submission) (result any) {
	defer close(s.done)
	defer func() {
		if p := recover(); p != nil {
			result = r.Refusal(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if s.after != nil {
		<-s.after
	}
	if s.err != nil {
		return s.refusal
	}
	receipt, err := a.Logs.Submit(ctx, s.draft)
	if err != nil {
		s.err = err
		return r.Refusal(err)
	}
	return outcome{201, receipt.EntryID, receipt.AccountID, receipt.CreatedAt, receipt.Source, receipt.Type, receipt.Replayed}
}

// refusedEntries returns the entries of a batch that were refused as one error with the code of the first of
// them, nil if there are none.
func refusedEntries(sent []submission) *atrium.Error {
	var all atrium.Error
	refused := 0
	for i := range sent {
		if sent[i].err == nil {
			continue
		}
		refused++
		e, ok := errors.AsType[*atrium.Error](sent[i].err)
		if !ok {
			e = atrium.Errorf(atrium.CodeInternal, "An internal error occurred.")
		}
		if all.Code == "" {
			all.Code = e.Code
		}
		entry, faults := fmt.Sprintf("/entries/%d", i), e.Faults
		if len(faults) == 0 {
			faults = []atrium.Fault{{In: atrium.InBody, Detail: e.Detail}}
		}
		for _, f := range faults[:min(len(faults), atrium.MaxFaults-len(all.Faults))] {
			f.Where = entry + f.Where
			all.Faults = append(all.Faults, f)
		}
	}
	if refused == 0 {
		return nil
	}
	all.Detail = fmt.Sprintf("%d of %d entries of a batch were refused.", refused, len(sent))
	return &all
}

const (
	// decodeAtOnce is the number of bytes of entries that are decoded before the request yields to
	// other tenants.
	decodeAtOnce = 1 << 20
	// heavyEntries is the number of entries above which a batch is heavy work whatever its size: an
	// invalid one of two bytes takes as long as a valid one of a kilobyte.
	heavyEntries = 8
	// outcomeBytes is the approximate size of an outcome.
	outcomeBytes = 200
)

// decodeAccountLogs decodes a body. It returns an error only if the whole body is
// unusable.
func (a *API) decodeAccountLogs(ctx context.Context, who auth.Principal, r *rest.Request) (sent []submission, err error) {
	var entries [][]byte
	if err := r.DecodeBody(ctx, func() (err error) {
		entries, err = splitAccountLogs(r)
		return err
	}); err != nil {
		return nil, err
	}
	sent, last := make([]submission, len(entries)), map[string]chan struct{}{}
	decode := r.DecodeBody
	if len(entries) > heavyEntries {
		decode = r.Heavily
	}
	faults := atrium.MaxFaults // of all entries together, except for the first of each
	for next := 0; next < len(sent); {
		if err := decode(ctx, func() error {
			for bytes := 0; next < len(sent) && bytes < decodeAtOnce; next++ {
				s := &sent[next]
				s.done = make(chan struct{})
				if s.draft, s.err = a.decodeAccountLog(who.TenantID, entries[next]); s.err == nil {
					s.draft.SubmittedBy, s.draft.RequestID = who.Actor(), r.ID()
				} else {
					s.err = limitFaults(s.err, &faults)
					s.refusal = r.Refusal(s.err)
				}
				if s.err == nil && s.draft.IdempotencyKey != "" {
					s.after, last[s.draft.IdempotencyKey] = last[s.draft.IdempotencyKey], s.done
				}
				bytes += len(entries[next])
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// limitFaults returns an error with its first fault, and as many of the others as left allows, which it counts.
func limitFaults(err error, left *int) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || len(e.Faults) <= 1 {
		return err
	}
	limited := *e
	limited.Faults = e.Faults[:min(len(e.Faults), 1+*left)]
	*left -= len(limited.Faults) - 1
	return &limited
}

// splitAccountLogs returns the raw bytes of each entry in a body.
func splitAccountLogs(r *rest.Request) (entries [][]byte, err error) {
	o, err := strictjson.ParseBatch(r.Body)
	if err != nil {
		return nil, err
	}
	if array := o.Array("entries", strictjson.Required); array != nil {
		var ok bool
		if entries, ok = strictjson.Elements(array, maxEntries); !ok || len(entries) == 0 {
			o.Fault("entries", fmt.Sprintf("must have 1 to %d elements", maxEntries))
		}
	}
	o.RejectUnknown()
	faults := o.Faults()
	if len(r.Header("Idempotency-Key")) > 0 {
		faults = append(faults, atrium.Fault{
			In: atrium.InHeader, Where: "Idempotency-Key", Detail: "is not supported here: set idempotencyKey in each entry",
		})
	}
	if len(faults) > 0 {
		return nil, atrium.Invalid(faults...)
	}
	return entries, nil
}

// decodeAccountLog decodes an entry of a batch. Its error has every fault of the entry.
func (a *API) decodeAccountLog(tenant atrium.TenantID, entry []byte) (*atrium.Draft, error) {
	if limit := cmp.Or(a.MaxEntry, rest.DefaultMaxBody); int64(len(entry)) > limit {
		return nil, atrium.Errorf(atrium.CodePayloadTooLarge, "An entry has at most %d bytes.", limit)
	}
	o, err := strictjson.Parse(entry)
	if err != nil {
		return nil, err
	}
	s := resource.DecodeSubmission(o)
	s.OccurredAt = optionalTime(o, "occurredAt")
	o.RejectUnknown()
	if faults := o.Faults(); len(faults) > 0 {
		return nil, atrium.Invalid(faults...)
	}
	return canonical.Draft(tenant, s)
}
