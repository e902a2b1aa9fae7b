package external

import (
	"context"
	"net/http"
	"unicode/utf8"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
	"atrium/internal/submission"
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
		submission, err := decodeAccountLog(r.Body, r.Header("Idempotency-Key"))
		if err == nil {
			draft, err = canonical.Draft(who.TenantID, submission)
		}
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	made, err := a.Logs.Submit(ctx, draft)
	if err != nil {
		return rest.Response{}, err
	}
	response := rest.Response{Status: http.StatusCreated, Body: receipt{made.AccountID, made.EntryID, made.CreatedAt, made.Source, made.Type}}
	if made.Replayed {
		response.Header = http.Header{"Idempotency-Replayed": {"true"}}
	}
	return response, nil
}

// decodeAccountLog reads a body and the values of the Idempotency-Key header.
// Its error names every fault of both.
func decodeAccountLog(body []byte, keys []string) (s atrium.Submission, err error) {
	o, err := strictjson.Parse(body)
	if err != nil {
		return s, err
	}
	s = submission.Decode(o)
	faults := o.Faults()
	if len(keys) > 0 {
		key := keys[0]
		switch fault := atrium.CheckText(key, 1, atrium.MaxIdempotencyKey); {
		case len(keys) > 1:
			faults = append(faults, headerFault("must be there once"))
		case !utf8.ValidString(key):
			faults = append(faults, headerFault("must be UTF-8"))
		case fault != "":
			faults = append(faults, headerFault(fault))
		case s.IdempotencyKey != "" && s.IdempotencyKey != key:
			faults = append(faults, headerFault("must not differ from the idempotencyKey of the body"))
		}
		s.IdempotencyKey = key
	}
	if len(faults) > 0 {
		return s, atrium.Invalid(faults...)
	}
	return s, nil
}

func headerFault(detail string) atrium.Fault {
	return atrium.Fault{In: atrium.InHeader, Where: "Idempotency-Key", Detail: detail}
}
