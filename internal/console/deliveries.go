package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/rest"
)

// A delivery is a delivery as the API shows it.
type delivery struct {
	EventID      atrium.EventID       `json:"eventId"`
	Position     int64                `json:"position"`
	Type         atrium.EventType     `json:"type"`
	Subject      string               `json:"subject"`
	AccountLogID atrium.EntryID       `json:"accountLogId"`
	State        atrium.DeliveryState `json:"state"`
	Attempts     int64                `json:"attempts"`
	NextAt       string               `json:"nextAt"`
	CreatedAt    string               `json:"createdAt"`
	FinishedAt   string               `json:"finishedAt"`
	Status       int                  `json:"status"`
	Error        string               `json:"error"`
	LatencyMs    int64                `json:"latencyMs"`
	Requests     []attempt            `json:"requests"` // only of one delivery
}

// Shown returns the state in the words of the console: a delivery that is tried again after a failure is failing.
func (d delivery) Shown() string {
	if d.State == atrium.DeliveryPending && d.Error != "" {
		return "failing"
	}
	return string(d.State)
}

// soon is how long a page waits for an attempt.
const soon = 30 * time.Second

// Awaited reports whether there will be an attempt soon.
func (d delivery) Awaited() bool {
	next, err := time.Parse(time.RFC3339Nano, d.NextAt)
	return d.FinishedAt == "" && (err != nil || time.Until(next) < soon)
}

// An attempt is a request of a delivery as the API shows it.
type attempt struct {
	Number     int64  `json:"number"`
	At         string `json:"at"`
	DurationMs int64  `json:"durationMs"`
	Status     int    `json:"status"`
	Error      string `json:"error"`
	Response   string `json:"response"`
}

type deliveryPage struct {
	Webhook  webhook
	Delivery delivery
	Position string         // of the event in the address; "" for none
	Stored   bool           // the event is
	Event    jsontext.Value // as Atrium sends it; nil if it was erased
	Tree     node
}

// Account returns the account that the event is about; "" if it is about something else.
func (p deliveryPage) Account() atrium.AccountID {
	id, _ := atrium.ParseID[atrium.AccountID](p.Delivery.Subject)
	return id
}

// Headers returns the names of the headers of requests that have the signature and the identifier of the event.
func (p deliveryPage) Headers() []string {
	if p.Webhook.Format == atrium.FormatLegacy {
		return []string{"X-Webhook-Timestamp", "X-Webhook-Signature-256"}
	}
	return []string{"webhook-id", "webhook-timestamp", "webhook-signature"}
}

func (c *Console) showDelivery(r *request) error {
	if err := r.require(atrium.ScopeManageEvents); err != nil {
		return err
	}
	var p deliveryPage
	if _, err := r.get(&p.Webhook, r.webhookPath(), nil); err != nil {
		return err
	}
	_, err := r.get(&p.Delivery, r.deliveryPath(), nil)
	if p.Position = r.query("position"); p.Position != "" && atrium.CodeOf(err) == atrium.CodeNotFound {
		return r.showTest(p, err)
	}
	if err != nil {
		return err
	}
	if err := r.readEvent(&p); err != nil {
		return err
	}
	return r.show("delivery", "webhooks", string(p.Delivery.Type), p)
}

// showTest shows the delivery of a test event that is not stored yet: it is when there was an attempt. It returns another
// error if the event at the position of the address is another one.
func (r *request) showTest(p deliveryPage, missing error) error {
	position, err := strconv.ParseInt(p.Position, 10, 64)
	if err != nil || position < 1 {
		return missing
	}
	p.Delivery = delivery{Position: position, Type: atrium.EventWebhookTest, State: atrium.DeliveryPending}
	if err := r.readEvent(&p); err != nil {
		return err
	}
	var event testEvent
	if err := json.Unmarshal(p.Event, &event); err != nil || !event.tests(r.http.PathValue("webhook_id")) || string(event.ID) != r.http.PathValue("event_id") {
		return missing
	}
	p.Delivery.EventID = event.ID
	return r.show("delivery", "webhooks", string(p.Delivery.Type), p)
}

// A testEvent is a test event as the API shows it.
type testEvent struct {
	ID       atrium.EventID   `json:"id"`
	Type     atrium.EventType `json:"type"`
	Position int64            `json:"position"`
	Data     struct {
		AuditNumber int64  `json:"auditNumber"`
		WebhookID   string `json:"webhookId"`
	} `json:"data"`
}

// tests reports whether an event is a test of a webhook.
func (e testEvent) tests(webhook string) bool {
	return e.Type == atrium.EventWebhookTest && e.Data.WebhookID == webhook
}

// testWait is how long the page of a test waits for its event, in seconds.
const testWait = "2"

// findTest returns the path of the page about the test event that this request has made, or "" if it does not appear in time.
func (r *request) findTest() (string, error) {
	id := r.http.PathValue("webhook_id")
	var records list[record]
	if _, err := r.get(&records, "/audit", url.Values{"subject": {id}, "action": {atrium.ActionWebhookTest}, "limit": {"10"}}); err != nil {
		return "", err
	}
	made := slices.IndexFunc(records.Items, func(rec record) bool { return rec.RequestID == rest.ExchangeOf(r.w).RequestID })
	if made < 0 {
		return "", nil
	}
	query := url.Values{"since": {records.Items[made].At}, "types": {string(atrium.EventWebhookTest)}, "limit": {"100"}, "waitSeconds": {testWait}}
	for range maxCalls { // earlier tests come first
		var events struct {
			Items         []testEvent `json:"items"`
			ContinueAfter int64       `json:"continueAfter"`
		}
		if _, err := r.get(&events, "/events", query); err != nil || len(events.Items) == 0 {
			return "", err
		}
		for _, e := range events.Items {
			if e.tests(id) && e.Data.AuditNumber == records.Items[made].Number {
				return r.path("webhooks", id, "deliveries", string(e.ID)) + "?position=" + strconv.FormatInt(e.Position, 10), nil
			}
		}
		query.Del("since")
		query.Set("after", strconv.FormatInt(events.ContinueAfter, 10))
	}
	return "", nil
}

// showTestOf leads to the page about the test event that this request has made, or to that of the webhook. The test is made:
// an error of a search for it is no error of the request.
func (r *request) showTestOf(webhook string) error {
	if at, err := r.findTest(); err == nil && at != "" {
		http.Redirect(r.w, r.http, at, http.StatusSeeOther)
		return nil
	}
	return r.redirect(webhook, "webhooktest")
}

// deliveryPath returns the path of a delivery in the API, which the URL names.
func (r *request) deliveryPath() string {
	return r.webhookPath() + "/deliveries/" + url.PathEscape(r.http.PathValue("event_id"))
}

// readEvent reads the event of a delivery, if it is still stored.
func (r *request) readEvent(p *deliveryPage) error {
	var events struct {
		Items []jsontext.Value `json:"items"`
	}
	_, err := r.get(&events, "/events", url.Values{"after": {strconv.FormatInt(p.Delivery.Position-1, 10)}, "limit": {"1"}})
	switch {
	case atrium.CodeOf(err) == atrium.CodeGone:
		return nil
	case err != nil:
		return err
	case len(events.Items) == 0:
		return nil
	}
	p.Stored, p.Event = true, events.Items[0]
	if err := p.Event.Indent(); err != nil {
		return err
	}
	return r.heavily(func() (err error) {
		p.Tree, err = parseNode(p.Event)
		return err
	})
}

func (c *Console) redeliver(r *request) error {
	if _, err := r.call(call{method: http.MethodPost, path: r.deliveryPath() + "/redeliver"}); err != nil {
		return err
	}
	return r.redirect(r.path("webhooks", r.http.PathValue("webhook_id"), "deliveries", r.http.PathValue("event_id")), "redelivered")
}
