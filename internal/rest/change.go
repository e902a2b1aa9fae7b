package rest

import (
	"cmp"
	"net/http"
	"unicode/utf8"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/strictjson"
)

// NewChange returns the change that the request asks for, without an idempotency key, for
// handlers that decode the request themselves.
func (r *Request) NewChange(who auth.Principal) atrium.Change {
	return atrium.Change{TenantID: who.TenantID, Actor: who.Actor(), RequestID: r.id, Admit: r.admitChange}
}

// DecodeChange decodes a request for a change strictly: members of the body that decode ignores are
// faults, because they may be misspelled. An empty body is an empty object. decode may be nil if
// there are no members. The error names every fault.
func (r *Request) DecodeChange(who auth.Principal, decode func(o *strictjson.Object)) (atrium.Change, error) {
	return r.decodeChange(who, decode, nil)
}

// DecodeChangeOf is DecodeChange for a request that changes what the segment name of the path
// identifies. If both are malformed, the error is that of the body.
func DecodeChangeOf[T atrium.Identifier](r *Request, who auth.Principal, name string, decode func(o *strictjson.Object)) (c atrium.Change, id T, err error) {
	if c, err = r.DecodeChange(who, decode); err == nil {
		id, err = PathID[T](r, name)
	}
	return c, id, err
}

// DecodeCreate is DecodeChange for a request that creates something. With an Idempotency-Key header
// it is created once; requests are the same if their method, path and body are equivalent. The
// error also names the faults of the header.
func (r *Request) DecodeCreate(who auth.Principal, decode func(o *strictjson.Object)) (atrium.Change, error) {
	return r.decodeChange(who, decode, r.Header(headerIdempotency))
}

// decodeChange is DecodeChange with the values of the Idempotency-Key header; nil to ignore it.
//
//nolint:contextcheck,nolintlint // only DecodeBody waits, with its own timeout
func (r *Request) decodeChange(who auth.Principal, decode func(o *strictjson.Object), keys []string) (atrium.Change, error) {
	c := r.NewChange(who)
	if c.TenantID == "" {
		c.TenantID = atrium.OperatorChain
	}
	body := r.Body
	if len(body) == 0 {
		body = []byte("{}")
	}
	var faults []atrium.Fault
	err := r.DecodeBody(r.http.Context(), func() error {
		o, err := strictjson.Parse(body)
		if err != nil {
			return err
		}
		if decode != nil {
			decode(o)
		}
		o.RejectUnknown()
		faults = o.Faults()
		if len(keys) > 0 {
			var keyFaults []atrium.Fault
			c.IdempotencyKey, keyFaults = IdempotencyKey(keys, "")
			faults = append(faults, keyFaults...)
			c.Fingerprint, err = canonical.RequestFingerprint(r.http.Method, r.http.URL.EscapedPath(), body)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	if len(faults) > 0 {
		return c, atrium.Invalid(faults...)
	}
	return c, nil
}

// IdempotencyKey returns the idempotency key of a request, "" for none, and its faults. header
// has the values of the Idempotency-Key header. inBody is the key in the body, "" for none.
func IdempotencyKey(header []string, inBody string) (key string, faults []atrium.Fault) {
	if len(header) == 0 {
		return inBody, nil
	}
	key = header[0]
	detail := atrium.CheckText(key, 1, atrium.MaxIdempotencyKey)
	switch {
	case len(header) > 1:
		detail = "must not be repeated"
	case !utf8.ValidString(key):
		detail = "must be UTF-8"
	case detail == "" && inBody != "" && inBody != key:
		detail = "must not differ from the idempotencyKey of the body"
	}
	if detail != "" {
		faults = []atrium.Fault{{In: atrium.InHeader, Where: headerIdempotency, Detail: detail}}
	}
	return key, faults
}

// StateTag returns the entity tag of a resource whose response has additional members; body lacks
// them.
func StateTag(body any) (string, error) {
	b, err := Encode(body)
	if err != nil {
		return "", err
	}
	return hashTag(b), nil
}

// CheckState is CheckIfMatch for a resource whose entity tag is the hash of its body. body is
// the current one.
func (r *Request) CheckState(body any) error {
	if len(r.Header("If-Match")) == 0 {
		return nil
	}
	tag, err := StateTag(body)
	if err != nil {
		return err
	}
	return r.CheckIfMatch(func(given string) bool { return given == tag })
}

// RequireState is CheckState for a request that must have an If-Match header: the
// error's code is atrium.CodePreconditionRequired without one (RFC 6585 section 3).
func (r *Request) RequireState(body any) error {
	return cmp.Or(r.requireIfMatch(), r.CheckState(body))
}

// RequireIfMatch is CheckIfMatch for a request that must have the header, like RequireState.
func (r *Request) RequireIfMatch(same func(tag string) bool) error {
	return cmp.Or(r.requireIfMatch(), r.CheckIfMatch(same))
}

func (r *Request) requireIfMatch() error {
	if len(r.Header("If-Match")) == 0 {
		return atrium.Errorf(atrium.CodePreconditionRequired,
			"The request must have an If-Match header with the ETag of what it changes.")
	}
	return nil
}

// Created returns the response to a request that creates something. replayed reports that an
// earlier request with the same idempotency key created it.
func Created(body any, replayed bool) Response {
	response := Response{Status: http.StatusCreated, Body: body, Tagged: true}
	if replayed {
		response.Header = http.Header{"Idempotency-Replayed": {"true"}}
	}
	return response
}
