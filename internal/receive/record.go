package receive

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/mapping"
	"atrium/internal/resource"
)

// This file stores the entries that a delivery is mapped to.

// Drafts are the drafts of the entries of a delivery, in order.
type Drafts struct {
	All      []*atrium.Draft
	Filtered int // elements that the filter left out

	elements []int // that All are from, as in mapping.Fault
}

// NewDrafts returns the drafts of the entries of a delivery.
func NewDrafts(r *atrium.Receiver, results []mapping.Result, requestID string) (drafts Drafts) {
	for i := range results {
		if results[i].Filtered {
			drafts.Filtered++
			continue
		}
		d := canonical.KeyDraft(r.TenantID, results[i].Submission)
		d.SubmittedBy, d.RequestID = string(r.ID), requestID
		drafts.All, drafts.elements = append(drafts.All, d), append(drafts.elements, results[i].Element)
	}
	return drafts
}

// maxConcurrentSubmits is the maximum number of entries of a delivery that wait for the writer at a time.
const maxConcurrentSubmits = 256

// submit submits the entries of a delivery. It succeeds only if all are durable. It is safe to call again: entries that were
// stored replay.
func (drafts Drafts) submit(ctx context.Context, logs resource.Logs) ([]atrium.Receipt, error) {
	outcomes := make([]atrium.Outcome, len(drafts.All))
	next := make(chan int)
	var submitting sync.WaitGroup
	for range min(maxConcurrentSubmits, len(drafts.All)) {
		submitting.Go(func() {
			for i := range next {
				outcomes[i].Receipt, outcomes[i].Err = submitOne(ctx, logs, drafts.All[i])
			}
		})
	}
	for i := range drafts.All {
		next <- i
	}
	close(next)
	submitting.Wait()
	return drafts.Receipts(outcomes)
}

// Receipts returns the receipts of the entries, or an error if some were not stored. If the error is permanent, retrying
// does not help. outcomes has one of each draft.
func (drafts Drafts) Receipts(outcomes []atrium.Outcome) ([]atrium.Receipt, error) {
	receipts := make([]atrium.Receipt, len(outcomes))
	for i := range outcomes {
		if err := outcomes[i].Err; err != nil && !IsPermanent(err) { // a retry may succeed
			return nil, err
		}
		receipts[i] = outcomes[i].Receipt
	}
	for i := range outcomes {
		if err := outcomes[i].Err; err != nil {
			return nil, &mapping.Fault{Element: drafts.elements[i], Detail: detailOf(err)}
		}
	}
	return receipts, nil
}

// submitOne submits an entry. It recovers a panic, which would otherwise end the process.
func submitOne(ctx context.Context, logs resource.Logs, d *atrium.Draft) (r atrium.Receipt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return logs.Submit(ctx, d)
}

// IsPermanent reports whether retrying would fail the same way. Such deliveries go to quarantine until an operator fixes the cause.
func IsPermanent(err error) bool {
	if _, ok := errors.AsType[*mapping.Fault](err); ok {
		return true
	}
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || errors.Is(err, atrium.ErrNoTenant) {
		return false
	}
	return e.Code == atrium.CodeNotFound || e.Code == atrium.CodeIdempotencyKeyReused || e.Code == atrium.CodeInvalidRequest || e.Code == atrium.CodeConflict
}

// detailOf says why an entry cannot be stored.
func detailOf(err error) string {
	switch atrium.CodeOf(err) {
	case atrium.CodeNotFound:
		return "accountId: there is no such account"
	case atrium.CodeIdempotencyKeyReused:
		return "the idempotency key was used by another request"
	}
	return err.Error()
}
