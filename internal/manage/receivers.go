package manage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/provider"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type receiverView struct {
	ReceiverID   atrium.ReceiverID       `json:"receiverId"`
	TenantID     atrium.TenantID         `json:"tenantId"`
	Name         string                  `json:"name"`
	Provider     atrium.ReceiverProvider `json:"provider"`
	Verification *verificationView       `json:"verification,omitzero"`
	Source       string                  `json:"source"`
	Mapping      mappingView             `json:"mapping"`
	Enabled      bool                    `json:"enabled"`
	Path         string                  `json:"path"`
	URL          string                  `json:"url,omitzero"`
	CreatedAt    atrium.Time             `json:"createdAt"`
	UpdatedAt    atrium.Time             `json:"updatedAt"`
	Secret       string                  `json:"secret,omitzero"`      // only in the response that generates it
	VerifyToken  string                  `json:"verifyToken,omitzero"` // only in the response to the request with the secret
}

type verificationView struct {
	Header          string `json:"header,omitzero"`
	Algorithm       string `json:"algorithm,omitzero"`
	Encoding        string `json:"encoding,omitzero"`
	Prefix          string `json:"prefix,omitzero"`
	Content         string `json:"content,omitzero"`
	TimestampHeader string `json:"timestampHeader,omitzero"`
	IDHeader        string `json:"idHeader,omitzero"`
	Tolerance       int64  `json:"tolerance,omitzero"`
	Username        string `json:"username,omitzero"`
}

type mappingView struct {
	Filter     string `json:"filter,omitzero"`
	Type       string `json:"type,omitzero"`
	AccountID  string `json:"accountId,omitzero"`
	Domain     string `json:"domain,omitzero"`
	Email      string `json:"email,omitzero"`
	Name       string `json:"name,omitzero"`
	OccurredAt string `json:"occurredAt,omitzero"`
	EventID    string `json:"eventId,omitzero"`
}

// newReceiver returns what stays the same while a receiver only receives, so that its entity tag does.
func (a *API) newReceiver(r atrium.Receiver) receiverView {
	v := receiverView{
		ReceiverID: r.ID, TenantID: r.TenantID, Name: r.Name, Provider: r.Provider, Source: r.Source, Mapping: mappingView(r.Mapping),
		Enabled: r.Enabled, Path: "/in/" + string(r.ID), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.Verification != (atrium.Verification{}) {
		verification := verificationView(r.Verification)
		v.Verification = &verification
	}
	if a.PublicURL != "" {
		v.URL = a.PublicURL + v.Path
	}
	return v
}

type listedReceiver struct {
	receiverView
	Quarantined int64 `json:"quarantined"`
}

func (a *API) receiverRoutes() []rest.Route {
	const (
		area        = atrium.ScopeManageReceivers
		receivers   = "/receivers"
		one         = receivers + "/{receiver_id}"
		quarantine  = one + "/quarantine"
		quarantined = quarantine + "/{quarantined_id}"
	)
	create, update := write(http.MethodPost, receivers, area, a.createReceiver), write(http.MethodPatch, one, area, a.updateReceiver)
	try := reads(write(http.MethodPost, one+"/try", area, a.tryReceiver), atrium.ReadList, "")
	create.Heavy, update.Heavy, try.Heavy = true, true, true // they compile the mapping
	return []rest.Route{
		read(receivers, area, a.listReceivers),
		create,
		read(one, area, a.getReceiver),
		update,
		write(http.MethodDelete, one, area, a.deleteReceiver),
		write(http.MethodPost, one+"/rotate_secret", area, a.rotateReceiverSecret),
		write(http.MethodPost, one+"/enable", area, a.enableReceiver(true)),
		write(http.MethodPost, one+"/disable", area, a.enableReceiver(false)),
		try,
		write(http.MethodPost, one+"/map_again", area, a.mapQuarantineAgain),
		write(http.MethodPost, one+"/discard_quarantine", area, a.discardQuarantine),
		read(quarantine, area, a.listQuarantine),
		reads(read(quarantined, area, a.getQuarantined), atrium.ReadDelivery, "quarantined_id"),
		write(http.MethodDelete, quarantined, area, a.discardQuarantined),
		write(http.MethodPost, quarantined+"/map_again", area, a.mapQuarantinedAgain),
	}
}

func (a *API) listReceivers(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "receivers"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Receivers(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, func(r atrium.Receiver) listedReceiver { return listedReceiver{a.newReceiver(r), r.Quarantined} },
		func(r atrium.Receiver) *atrium.Position { return atrium.PositionAt(0, r.ID) }, binding), nil
}

// A receiverSecret is the secret of a request, or a generated one.
type receiverSecret struct {
	stored    atrium.ReceiverSecret
	generated bool
}

// secretBytes is the number of random bytes of a generated secret.
const secretBytes = 32

// newReceiverSecret returns the given secret of a receiver, or a generated one if it is "".
func newReceiverSecret(given string) receiverSecret {
	s := receiverSecret{atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte(given)}, given == ""}
	if s.generated {
		random := make([]byte, secretBytes)
		_, _ = rand.Read(random) // never fails: crypto/rand ends the process instead
		s.stored.Value = []byte(base64.RawURLEncoding.EncodeToString(random))
	}
	return s
}

// show adds to a response what only the response to the request with the secret has.
func (s *receiverSecret) show(v *receiverView) {
	if s.generated {
		v.Secret = string(s.stored.Value)
	}
	if v.Provider == atrium.ProviderMeta {
		v.VerifyToken = provider.VerifyToken(s.stored.Value)
	}
}

func (a *API) createReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	made := atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID]()}
	given := ""
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) { made.ReceiverSpec, given = decodeNewReceiver(o) })
	if err != nil {
		return rest.Response{}, err
	}
	secret := newReceiverSecret(given)
	made, replayed, err := a.Store.CreateReceiver(ctx, c, made, secret.stored)
	view := a.newReceiver(made)
	if !replayed {
		secret.show(&view)
	}
	return rest.Created(view, replayed), err
}

func (a *API) getReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	found, err := a.findReceiver(ctx, who, r)
	return rest.Response{Body: a.newReceiver(found)}, err
}

// findReceiver returns the receiver of the path, or NotFound.
func (a *API) findReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (atrium.Receiver, error) {
	id, err := rest.PathID[atrium.ReceiverID](r, "receiver_id")
	if err != nil {
		return atrium.Receiver{}, err
	}
	return a.Store.Receiver(ctx, who.TenantID, id)
}

func (a *API) updateReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var change func(*atrium.ReceiverSpec)
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		change = decodeReceiverUpdate(o)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	current, err := a.findReceiver(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	given := current.ReceiverSpec
	change(&given)
	if err := checkVerification(&given); err != nil { // the provider does not change
		return rest.Response{}, err
	}
	updated, err := a.Store.UpdateReceiver(ctx, c, current.ID, func(r atrium.Receiver) atrium.ReceiverSpec {
		change(&r.ReceiverSpec)
		return r.ReceiverSpec
	}, func(found atrium.Receiver) error { return r.RequireState(a.newReceiver(found)) })
	return rest.Response{Body: a.newReceiver(updated), Tagged: true}, err
}

// checkReceiver returns a check that compares a receiver with the If-Match header of a request, if it has one.
func (a *API) checkReceiver(r *rest.Request) func(atrium.Receiver) error {
	return func(found atrium.Receiver) error { return r.CheckState(a.newReceiver(found)) }
}

func (a *API) deleteReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.ReceiverID](r, who, "receiver_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.DeleteReceiver(ctx, c, id, a.checkReceiver(r))
}

func (a *API) rotateReceiverSecret(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var grace time.Duration
	var given string
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		given = decodeReceiverSecret(o)
		grace = decodeGrace(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	current, err := a.findReceiver(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	if detail := secretFault(current.Provider, given); detail != "" {
		return rest.Response{}, atrium.Invalid(atrium.Fault{In: atrium.InBody, Where: "/secret", Detail: detail})
	}
	secret := newReceiverSecret(given)
	updated, err := a.Store.RotateReceiverSecret(ctx, c, current.ID, secret.stored, grace, a.checkReceiver(r))
	view := a.newReceiver(updated)
	secret.show(&view)
	return rest.Response{Body: view, Tagged: true}, err
}

func (a *API) enableReceiver(enabled bool) rest.Handler {
	return func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		c, id, err := rest.DecodeChangeOf[atrium.ReceiverID](r, who, "receiver_id", nil)
		if err != nil {
			return rest.Response{}, err
		}
		updated, err := a.Store.EnableReceiver(ctx, c, id, enabled, a.checkReceiver(r))
		return rest.Response{Body: a.newReceiver(updated), Tagged: true}, err
	}
}

type quarantinedView struct {
	QuarantinedID atrium.QuarantinedID `json:"quarantinedId"`
	ReceiverID    atrium.ReceiverID    `json:"receiverId"`
	ReceivedAt    atrium.Time          `json:"receivedAt"`
	Fault         string               `json:"fault"`
	BodyBytes     int64                `json:"bodyBytes"`
	RequestID     atrium.RequestID     `json:"requestId"`
}

func newQuarantined(d atrium.QuarantinedDelivery) quarantinedView {
	return quarantinedView{d.ID, d.ReceiverID, d.ReceivedAt, d.Fault, d.BodyBytes, d.RequestID}
}

type receivedHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type quarantinedDetail struct {
	quarantinedView
	Headers    []receivedHeader `json:"headers"`
	Query      string           `json:"query"`
	Body       *string          `json:"body,omitzero"`
	BodyBase64 []byte           `json:"bodyBase64,omitzero"`
}

// validText returns a text of a request in UTF-8.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func (a *API) listQuarantine(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	f := atrium.QuarantineFilter{Since: q.Time("since"), Until: q.Time("until")}
	binding := []string{string(who.TenantID), "quarantine", r.PathValue("receiver_id"), textOf(f.Since), textOf(f.Until)}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	receiver, err := a.findReceiver(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.QuarantinedDeliveries(ctx, who.TenantID, receiver.ID, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newQuarantined, func(d atrium.QuarantinedDelivery) *atrium.Position {
		return atrium.PositionAt(d.ReceivedAt, d.ID)
	}, binding), nil
}

// quarantinedIDs returns the receiver and the delivery of the path.
func quarantinedIDs(r *rest.Request) (receiver atrium.ReceiverID, id atrium.QuarantinedID, err error) {
	if receiver, err = rest.PathID[atrium.ReceiverID](r, "receiver_id"); err == nil {
		id, err = rest.PathID[atrium.QuarantinedID](r, "quarantined_id")
	}
	return receiver, id, err
}

func (a *API) getQuarantined(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	receiver, id, err := quarantinedIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	d, err := a.Store.QuarantinedDelivery(ctx, who.TenantID, receiver, id)
	return rest.Response{Body: newQuarantinedDetail(d)}, err
}

func newQuarantinedDetail(d atrium.QuarantinedDelivery) quarantinedDetail {
	v := quarantinedDetail{quarantinedView: newQuarantined(d), Headers: make([]receivedHeader, len(d.Headers)), Query: validText(d.Query)}
	for i, h := range d.Headers {
		v.Headers[i] = receivedHeader{validText(h.Name), validText(h.Value)}
	}
	if utf8.Valid(d.Body) {
		v.Body = new(string(d.Body))
	} else {
		v.BodyBase64 = d.Body
	}
	return v
}

func (a *API) discardQuarantined(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	receiver, id, err := quarantinedIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	if len(r.Header("If-Match")) > 0 {
		d, err := a.Store.QuarantinedDelivery(ctx, who.TenantID, receiver, id)
		if err != nil {
			return rest.Response{}, err
		}
		if err := r.CheckState(newQuarantinedDetail(d)); err != nil {
			return rest.Response{}, err
		}
	}
	return rest.NoContent, a.Store.DiscardQuarantined(ctx, c, receiver, id)
}

type discarded struct {
	Discarded int64 `json:"discarded"`
	HasMore   bool  `json:"hasMore"`
}

func (a *API) discardQuarantine(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var f atrium.QuarantineFilter
	c, err := r.DecodeChange(who, func(o *strictjson.Object) { f.Since, f.Until = optionalTime(o, "since"), optionalTime(o, "until") })
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.ReceiverID](r, "receiver_id")
	if err != nil {
		return rest.Response{}, err
	}
	n, more, err := a.Store.DiscardQuarantine(ctx, c, id, f)
	return rest.Response{Body: discarded{n, more}}, err
}
