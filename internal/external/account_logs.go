package external

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type receipt struct {
	AccountID    atrium.AccountID `json:"accountId"`
	AccountLogID atrium.EntryID   `json:"accountLogId"`
	CreatedAt    atrium.Time      `json:"createdAt"`
	Source       string           `json:"source"`
	Type         string           `json:"type"`
}

func (a *API) createAccountLog(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var draft *atrium.Draft
	err := r.DecodeBody(ctx, func() error {
		submission, err := decodeAccountLog(r.Body, r.Header("Idempotency-Key"), r.IgnoreUnknown)
		if err == nil {
			draft, err = canonical.Draft(who.TenantID, submission)
		}
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	draft.SubmittedBy, draft.RequestID = who.Actor(), r.ID()
	made, err := a.Logs.Submit(ctx, draft)
	if err != nil {
		return rest.Response{}, err
	}
	r.LogEntry(made.EntryID, made.AccountID)
	body := receipt{made.AccountID, made.EntryID, made.CreatedAt, made.Source, made.Type}
	response := rest.Created(body, made.Replayed)
	response.Tagged = false // an entry never changes
	return response, nil
}

// decodeAccountLog decodes a body and the values of the Idempotency-Key header. It calls ignore with
// the decoded body. Its error names every fault of both.
func decodeAccountLog(body []byte, header []string, ignore func(*strictjson.Object)) (s atrium.Submission, err error) {
	o, err := strictjson.Parse(body)
	if err != nil {
		return s, err
	}
	s = resource.DecodeSubmission(o)
	ignore(o)
	key, faults := rest.IdempotencyKey(header, s.IdempotencyKey)
	s.IdempotencyKey = key
	if faults = append(o.Faults(), faults...); len(faults) > 0 {
		return s, atrium.Invalid(faults...)
	}
	return s, nil
}
