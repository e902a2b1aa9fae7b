package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
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
	if _, err := r.get(&p.Delivery, r.deliveryPath(), nil); err != nil {
		return err
	}
	if err := r.readEvent(&p); err != nil {
		return err
	}
	return r.show("delivery", "webhooks", string(p.Delivery.Type), p)
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
