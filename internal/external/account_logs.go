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
)

type accountLog struct {
	AccountID    atrium.AccountID `json:"accountId"`
	AccountLogID atrium.EntryID   `json:"accountLogId"`
	CreatedAt    atrium.Time      `json:"createdAt"`
	Source       string           `json:"source"`
	Type         string           `json:"type"`
}

func (a *API) createAccountLog(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var draft *atrium.Draft
	err := a.Decode.Do(ctx, func() error {
		submission, err := decodeAccountLog(r.Body, r.Header("Idempotency-Key"))
		if err == nil {
			draft, err = canonical.Draft(who.TenantID, submission)
		}
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	receipt, err := a.Logs.Submit(ctx, draft)
	if err != nil {
		return rest.Response{}, err
	}
	response := rest.Response{Status: http.StatusCreated, Body: accountLog{
		receipt.AccountID, receipt.EntryID, receipt.CreatedAt, receipt.Source, receipt.Type,
	}}
	if receipt.Replayed {
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
	s.Source, _ = o.Text("source", strictjson.Required, upTo(atrium.MaxSource))
	if o.Has("type") {
		s.Type, _ = o.Text("type", strictjson.Required, upTo(atrium.MaxType))
	} else {
		s.Type = atrium.DefaultType
	}
	s.Payload = o.Object("payload", strictjson.Required)
	id, _ := o.Text("accountId", strictjson.Optional, func(text string) string {
		if _, ok := atrium.ParseID[atrium.AccountID](text); !ok {
			return "must match ^account_[a-z0-9]{26}$"
		}
		return ""
	})
	s.Claim.AccountID = atrium.AccountID(id)
	s.Claim.Domain, _ = o.Text("domain", strictjson.Optional, atrium.CheckDomain)
	s.Claim.Name, _ = o.Text("name", strictjson.Optional, upTo(atrium.MaxName))
	s.IdempotencyKey, _ = o.Text("idempotencyKey", strictjson.Optional, upTo(atrium.MaxIdempotencyKey))

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

// upTo returns the check for a text of 1 to most code points.
func upTo(most int) func(string) string {
	return func(text string) string { return atrium.CheckText(text, 1, most) }
}
