// Package receive handles incoming webhooks at /in/{receiver_id} (api/receive.yaml). It verifies each request, then stores it as
// entries, or unchanged in quarantine if it cannot be mapped. It responds after the commit. All unverified requests get the same
// response, so senders learn nothing from it.
package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/mapping"
	"atrium/internal/provider"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

// Path is the pattern of the addresses.
const Path = "/in/{receiver_id}"

// Limits of one request.
const (
	requestTimeout = 20 * time.Second // for everything after the body has arrived; providers time out after 3 to 30 seconds
	heavyBodyBytes = 4 << 10          // bytes above which a body is verified as heavy work; a mapping can cost much for any
	largeBodyBytes = 16 << 10         // bytes above which storing a body in quarantine is a large change
)

// A Quarantine stores verified deliveries that cannot be mapped: a *store.Store.
type Quarantine interface {
	Quarantine(ctx context.Context, d atrium.QuarantinedDelivery) error
}

// A Disposition is what became of a request: a label of metrics.
type Disposition string

// The dispositions.
const (
	Stored      Disposition = "stored"      // as entries, at least one of which is new
	Replayed    Disposition = "replayed"    // all entries were stored before
	Filtered    Disposition = "filtered"    // it has no elements, or the filter left out all
	Quarantined Disposition = "quarantined" // it could not be mapped
	Challenged  Disposition = "challenge"   // the provider made sure that the receiver is reachable
	Unverified  Disposition = "unverified"
	Failed      Disposition = "failed" // a limit refused it, or the database was unavailable
)

// Dispositions returns all dispositions.
func Dispositions() []Disposition {
	return []Disposition{Stored, Replayed, Filtered, Quarantined, Challenged, Unverified, Failed}
}

// A Handler serves requests to receivers.
type Handler struct {
	API        *rest.API // for its limits, its log and its problem documents
	Receivers  *Receivers
	Mappings   *mapping.Cache // compiled mappings; may be nil
	Logs       resource.Logs
	Quarantine Quarantine
	PublicURL  string // of the server, without a path; "" if it is not known
	Now        func() time.Time
	Observe    func(provider, outcome string) // may be nil
}

// Handlers returns the handlers by method and pattern, as rest.API takes them.
func (h *Handler) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		http.MethodPost + " " + Path: http.HandlerFunc(h.post),
		http.MethodGet + " " + Path:  http.HandlerFunc(h.get),
	}
}

// A request is a request to a receiver that is enabled.
type request struct {
	*Handler
	receiver *cachedReceiver
	w        http.ResponseWriter
	r        *http.Request
	sent     provider.Request
}

// A reply is a successful response.
type reply struct {
	status      int
	text        string // instead of a summary, as plain text
	disposition Disposition
	summary
}

// A summary is the body of a response. It says nothing about accounts: providers show it to their users.
type summary struct {
	Entries     int  `json:"entries"`     // recorded now or before
	Replayed    int  `json:"replayed"`    // of them, recorded before
	Filtered    int  `json:"filtered"`    // left out by the filter of the mapping
	Quarantined bool `json:"quarantined"` // the delivery waits until its mapping is corrected
}

// errUnverified is the error for every request that is not verified.
var errUnverified = atrium.Errorf(atrium.CodeUnverified, "The receiver does not exist, or it did not verify the request.")

func (h *Handler) post(w http.ResponseWriter, r *http.Request) { h.serve(w, r, (*request).deliver) }
func (h *Handler) get(w http.ResponseWriter, r *http.Request)  { h.serve(w, r, (*request).subscribe) }

// serve handles a request, counts it by its disposition, and responds.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, handle func(*request) (reply, error)) {
	name, response, err := h.handle(w, r, handle)
	var reason unverified
	if err != nil {
		response.disposition, reason, err = classify(err)
	}
	if h.Observe != nil {
		h.Observe(cmp.Or(string(name), "unknown"), string(response.disposition))
	}
	if err != nil {
		h.API.WriteProblem(w, r, err)
	} else {
		h.respond(w, r, name, &response)
	}
	if reason != "" { // for operators, not in the response
		exchange := rest.ExchangeOf(w)
		exchange.Detail = fmt.Sprintf("Receiver %s: %s.", exchange.Receiver, reason)
		exchange.UserAgent = "" // a sender can use many different ones
	}
}

// handle finds the receiver of a request and calls f. It also returns the provider, "" if there is no such receiver.
func (h *Handler) handle(w http.ResponseWriter, r *http.Request, f func(*request) (reply, error)) (name atrium.ReceiverProvider, response reply, err error) {
	found, err := h.find(w, r)
	if err != nil {
		return "", reply{}, err
	}
	exchange := rest.ExchangeOf(w)
	exchange.TenantID, exchange.Receiver = found.TenantID, found.ID
	if err := enabled(found); err != nil {
		return found.Provider, reply{}, err
	}
	response, err = f(&request{Handler: h, receiver: found, w: w, r: r, sent: provider.Request{
		Method: r.Method, URL: h.PublicURL + r.RequestURI, Query: strings.ToValidUTF8(r.URL.RawQuery, "\uFFFD"), Now: h.Now(),
	}})
	return found.Provider, response, err
}

// classify returns the disposition of a request that failed, and the error of its response. reason is why the request was not
// verified, "" if it was, or if there is nothing to say.
func classify(err error) (d Disposition, reason unverified, public error) {
	reason, ok := errors.AsType[unverified](err)
	if ok || errors.Is(err, atrium.ErrNoTenant) { // the receiver of a deleted tenant was cached
		err = errUnverified
	}
	if atrium.CodeOf(err) == atrium.CodeUnverified {
		return Unverified, reason, err
	}
	return Failed, "", err
}

func (h *Handler) respond(w http.ResponseWriter, r *http.Request, name atrium.ReceiverProvider, response *reply) {
	if response.disposition == Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if response.text != "" || provider.Of(name).EmptyResponse {
		rest.Write(w, r, http.StatusOK, plainText, []byte(response.text))
		return
	}
	body, err := json.Marshal(response.summary)
	if err != nil {
		h.API.WriteProblem(w, r, err)
		return
	}
	rest.Write(w, r, response.status, typeJSON, body)
}

var (
	plainText = []string{"text/plain; charset=utf-8"}
	typeJSON  = []string{"application/json"}
)

// unverified is the reason why a request is not verified, for operators.
type unverified provider.Reason

func (u unverified) Error() string { return string(u) }

func enabled(r *cachedReceiver) error {
	if !r.Enabled {
		return unverified("the receiver is disabled")
	}
	return nil
}

// find returns the receiver of a request. A lookup of an uncached receiver counts toward the client's anonymous rate, which limits
// guessing. Cached receivers are not counted, because many senders can share one address, such as a proxy's.
func (h *Handler) find(w http.ResponseWriter, r *http.Request) (found *cachedReceiver, err error) {
	id, ok := atrium.ParseID[atrium.ReceiverID](r.PathValue("receiver_id"))
	found, fresh := h.Receivers.cached(id)
	if fresh {
		return found, nil
	}
	uncount := func() {}
	if found == nil {
		if uncount, err = h.API.CountAnonymous(w); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, errUnverified
	}
	if found, err = h.Receivers.lookUp(r.Context(), id); err != nil {
		if atrium.CodeOf(err) == atrium.CodeNotFound {
			err = errUnverified
		}
		return nil, err
	}
	uncount()
	return found, nil
}

// subscribe responds to a GET request, by which Meta checks that the receiver is reachable.
func (q *request) subscribe() (reply, error) {
	text, reason := provider.Subscribe(q.receiver.Provider, &q.sent, q.secrets())
	if reason != "" {
		return reply{}, unverified(reason)
	}
	return reply{status: http.StatusOK, text: text, disposition: Challenged}, nil
}

// deliver verifies a delivery, and stores its entries or quarantines it.
func (q *request) deliver() (response reply, err error) {
	limits, tenant := &q.API.Limits, q.receiver.TenantID
	q.sent.Headers = headersOf(q.r)
	verified, err := q.verifyHeaders()
	if err != nil {
		return response, err
	}
	read, quota := limits.ReadBody, tenant
	if !verified { // anyone can send it
		read, quota = limits.ReadUnverifiedBody, rest.QuotaOfReceivers(tenant)
	}
	body, releaseBody, err := read(q.w, q.r, quota, q.maxBody())
	if err != nil {
		return response, err
	}
	defer releaseBody()
	q.sent.Body = body
	ctx, cancel := context.WithTimeout(q.r.Context(), requestTimeout) // only now: a body may arrive slowly
	defer cancel()
	if !verified && len(body) > heavyBodyBytes {
		err = q.runHeavy(ctx, quota, func() error { return q.verify(ctx) })
	} else {
		err = q.verify(ctx)
	}
	if err != nil {
		return response, err
	}
	if err := limits.TakeRate(q.w, auth.Principal{TenantID: tenant, Receiver: q.receiver.ID}); err != nil {
		return response, err
	}
	end, err := rest.Admit(ctx, q.w, limits.InFlight, tenant)
	if err != nil {
		return response, err
	}
	defer end()
	if text, ok := provider.Challenge(q.receiver.Provider, &q.sent); ok {
		return reply{status: http.StatusOK, text: text, disposition: Challenged}, nil
	}
	hold, release := limits.HoldMemory(q.w, tenant)
	defer release()
	drafts, err := q.draft(ctx, hold)
	if err == nil {
		response.disposition, response.status, response.Filtered = Filtered, http.StatusOK, drafts.Filtered
		if len(drafts.All) > 0 {
			err = q.submit(ctx, drafts, &response)
		}
	}
	if IsPermanent(err) {
		return q.quarantine(ctx, err)
	}
	return response, err
}

func (q *request) maxBody() int64 {
	if q.API.MaxBody > 0 {
		return q.API.MaxBody
	}
	return rest.DefaultMaxBody
}

// runHeavy calls f as heavy work, which counts toward the quota of a key.
func (q *request) runHeavy(ctx context.Context, key atrium.TenantID, f func() error) error {
	release, err := rest.Admit(ctx, q.w, q.API.Limits.Heavy, key)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// verifyHeaders verifies the request before its body has arrived, as provider.VerifyHeaders does.
func (q *request) verifyHeaders() (verified bool, err error) {
	if q.receiver.Provider == atrium.ProviderHubSpot && q.PublicURL == "" {
		return false, unverified("public-url of the server is not set, and HubSpot signs the address")
	}
	verified, reason := provider.VerifyHeaders(q.receiver.Provider, &q.sent, q.secrets(), &q.receiver.Verification)
	if reason != "" {
		return false, unverified(reason)
	}
	return verified, nil
}

func (q *request) secrets() [][]byte { return q.receiver.secretsAt(atrium.At(q.sent.Now)) }

// refresh updates the receiver and the time of the request, whose body may have arrived slowly, or which may have waited.
func (q *request) refresh(ctx context.Context) error {
	q.sent.Now = q.Now()
	if found, fresh := q.Receivers.cached(q.receiver.ID); fresh {
		q.receiver = found
		return enabled(found)
	}
	found, err := q.Receivers.lookUp(ctx, q.receiver.ID)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return unverified("the receiver was deleted")
	}
	if err != nil {
		return err
	}
	q.receiver = found
	return enabled(found)
}

// verify verifies the request after its body has arrived. It uses the current settings and secrets of the receiver.
func (q *request) verify(ctx context.Context) error {
	if err := q.refresh(ctx); err != nil {
		return err
	}
	if reason := provider.Verify(q.receiver.Provider, &q.sent, q.secrets(), &q.receiver.Verification); reason != "" {
		return unverified(reason)
	}
	q.sent.Headers = provider.Of(q.receiver.Provider).WithoutCredentials(q.sent.Headers, &q.receiver.Verification)
	for i := range q.sent.Headers { // only now: the signature is of the bytes that were sent
		h := &q.sent.Headers[i]
		h.Value = strings.ToValidUTF8(h.Value, "\uFFFD")
	}
	return nil
}

// headersOf returns the headers of a request, in the order of their names.
func headersOf(r *http.Request) (all []atrium.Header) {
	for name, values := range r.Header {
		for _, value := range values {
			all = append(all, atrium.Header{Name: strings.ToLower(name), Value: value})
		}
	}
	slices.SortStableFunc(all, func(a, b atrium.Header) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// draft returns the drafts of the entries of a delivery. It calls hold with the memory that they need, also before it waits for a
// processor.
func (q *request) draft(ctx context.Context, hold func(bytes int64) error) (drafts Drafts, err error) {
	err = q.API.Limits.HeavilyPausing(ctx, q.w, q.receiver.TenantID, func(pause func() error) error {
		compiled, err := q.mapping()
		if err != nil {
			return err
		}
		results, err := compiled.Map(&mapping.Delivery{Headers: q.sent.Headers, Query: q.sent.Query, Body: q.sent.Body}, int(q.maxBody()), func(memory int) (*mapping.Mapping, error) {
			if err := hold(int64(memory) - rest.FreeMemory); err != nil {
				return nil, err
			}
			if err := pause(); err != nil {
				return nil, err
			}
			return q.mapping()
		})
		if err != nil {
			return err
		}
		if err := hold(int64(mapping.Memory(results)) - rest.FreeMemory); err != nil {
			return err
		}
		drafts = NewDrafts(&q.receiver.Receiver, results, rest.ExchangeOf(q.w).RequestID)
		return nil
	})
	return drafts, err
}

// mapping returns the compiled mapping of the receiver. If it has faults, the error is a *mapping.Fault: the delivery waits in
// quarantine.
func (q *request) mapping() (*mapping.Mapping, error) {
	m, err := q.Mappings.Get(&q.receiver.Receiver)
	if err != nil {
		return nil, &mapping.Fault{Element: -1, Detail: err.Error()}
	}
	return m, nil
}

// submit records entries.
func (q *request) submit(ctx context.Context, drafts Drafts, response *reply) error {
	receipts, err := drafts.submit(ctx, q.Logs)
	if err != nil {
		return err
	}
	for _, r := range receipts {
		if response.Entries++; r.Replayed {
			response.Replayed++
		}
	}
	if response.disposition = Stored; response.Replayed == response.Entries {
		response.disposition = Replayed
	}
	if len(receipts) == 1 {
		x := rest.ExchangeOf(q.w)
		x.EntryID, x.AccountID = receipts[0].EntryID, receipts[0].AccountID
	}
	return nil
}

// quarantine stores a delivery that cannot be mapped.
func (q *request) quarantine(ctx context.Context, fault error) (reply, error) {
	// The transactions of a receiver wait for each other, and on PostgreSQL each one that waits has a connection.
	release, err := q.API.Limits.AdmitChange(ctx, q.w, q.receiver.TenantID, len(q.sent.Body) > largeBodyBytes)
	if err != nil {
		return reply{}, err
	}
	defer release()
	err = q.Quarantine.Quarantine(ctx, atrium.QuarantinedDelivery{
		ID: atrium.NewID[atrium.QuarantinedID](), TenantID: q.receiver.TenantID, ReceiverID: q.receiver.ID, ReceivedAt: atrium.At(q.sent.Now),
		Headers: q.sent.Headers, Query: q.sent.Query, Body: q.sent.Body, BodyBytes: int64(len(q.sent.Body)), Fault: fault.Error(),
		RequestID: atrium.RequestID(rest.ExchangeOf(q.w).RequestID),
	})
	if err != nil && atrium.CodeOf(err) == atrium.CodeNotFound { // it was deleted since it was looked up
		err = unverified("the receiver was deleted")
	}
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusAccepted, disposition: Quarantined, summary: summary{Quarantined: true}}, nil
}
