package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A webhook is a webhook as the API shows it.
type webhook struct {
	WebhookID      atrium.WebhookID      `json:"webhookId"`
	Description    string                `json:"description"`
	URL            string                `json:"url"`
	EventTypes     []string              `json:"eventTypes"`
	Sources        []string              `json:"sources"`
	EntryTypes     []string              `json:"entryTypes"`
	AccountID      atrium.AccountID      `json:"accountId"`
	Filter         string                `json:"filter"`
	Format         atrium.WebhookFormat  `json:"format"`
	Ordered        bool                  `json:"ordered"`
	RateLimit      int64                 `json:"rateLimit"`
	Enabled        bool                  `json:"enabled"`
	DisabledReason atrium.DisabledReason `json:"disabledReason"`
	DisabledAt     string                `json:"disabledAt"`
	CreatedAt      string                `json:"createdAt"`
	Secret         string                `json:"secret"`   // only of a new one
	Progress       webhookProgress       `json:"progress"` // only in lists
}

// A webhookProgress says how far a webhook is.
type webhookProgress struct {
	Behind       int64  `json:"behind"`
	FailingSince string `json:"failingSince"`
	Lost         int64  `json:"lost"`
	FilterFaults int64  `json:"filterFaults"`
}

// Title returns what a webhook is called.
func (w webhook) Title() string {
	if w.Description != "" {
		return w.Description
	}
	return w.URL
}

// The states of a webhook that pages show.
const (
	healthy  = "healthy"
	failing  = "failing"
	disabled = "disabled"
)

// stateOf returns the state of a webhook.
func stateOf(w webhook, p webhookProgress) string {
	switch {
	case !w.Enabled:
		return disabled
	case p.FailingSince != "":
		return failing
	}
	return healthy
}

// State returns the state of a webhook in a list.
func (w webhook) State() string { return stateOf(w, w.Progress) }

// reasons say why webhooks are disabled.
var reasons = map[atrium.DisabledReason]string{
	atrium.DisabledByOperator: "somebody disabled it",
	atrium.DisabledByFailures: "every attempt has failed for five days",
	atrium.DisabledByGone:     "the endpoint has responded with 410 Gone",
	atrium.DisabledByCopy:     "this database is a copy of another one, which delivers",
}

// Reason says why a webhook is disabled.
func (w webhook) Reason() string { return reasons[w.DisabledReason] }

// formats are the formats of requests, the default first.
var formats = []struct {
	Name  atrium.WebhookFormat
	Title string
}{
	{atrium.FormatStandard, "Standard Webhooks"}, {atrium.FormatCloudEvents, "CloudEvents 1.0, signed as Standard Webhooks"},
	{atrium.FormatLegacy, "legacy, signed in X-Webhook-Signature-256"},
}

// A webhookForm is the form for a new webhook, or for one that exists.
type webhookForm struct {
	Path    string // of the form
	Webhook webhook
	Types   []atrium.EventType
	Formats any
	Tag     string // of the webhook that the user has seen; "" for a new one
}

func newWebhookForm(path string, w webhook, tag string) webhookForm {
	return webhookForm{path, w, atrium.EventTypes(), formats, tag}
}

// Selects reports whether the webhook names a type of events.
func (f webhookForm) Selects(t atrium.EventType) bool {
	return slices.Contains(f.Webhook.EventTypes, string(t))
}

// Lines returns texts as the lines of a field.
func (f webhookForm) Lines(texts []string) string { return strings.Join(texts, "\n") }

// A formFrame is a frame with the form for a webhook.
type formFrame struct {
	frame
	Fields webhookForm
}

// Form returns the frame with a form.
func (f frame) Form(fields webhookForm) formFrame { return formFrame{f, fields} }

type webhooksPage struct {
	Webhooks list[webhook]
	Settings eventSettings
	New      webhook // just created; zero for none
	Form     webhookForm
}

// eventSettings say whether the tenant has events.
type eventSettings struct {
	Enabled   bool   `json:"enabled"`
	EnabledAt string `json:"enabledAt"`
}

func (c *Console) listWebhooks(r *request) error { return r.showWebhooks(webhook{}) }

func (r *request) showWebhooks(made webhook) error {
	if err := r.require(atrium.ScopeManageEvents); err != nil {
		return err
	}
	p := webhooksPage{New: made, Form: newWebhookForm(r.path("webhooks"), webhook{}, "")}
	var err error
	if p.Webhooks, err = readList[webhook](r, "/webhooks"); err != nil {
		return err
	}
	if _, err = r.get(&p.Settings, "/event_settings", nil); err != nil {
		return err
	}
	return r.show("webhooks", "webhooks", "Webhooks", p)
}

// createWebhook shows the secret of the new webhook in its response, because it can be shown only once.
func (c *Console) createWebhook(r *request) error {
	body, err := r.webhookFields()
	if err != nil {
		return err
	}
	for _, name := range []string{"accountId", "filter"} {
		if body[name] == nil {
			delete(body, name)
		}
	}
	a, err := r.once(call{method: http.MethodPost, path: "/webhooks", body: body})
	if err != nil {
		return err
	}
	var made webhook
	if err := json.Unmarshal(a.body, &made); err != nil {
		return fmt.Errorf("decode a webhook: %w", err)
	}
	return r.showWebhooks(made)
}

// webhookFields returns the fields of the form as the API takes them. accountId and filter are nil if they are empty.
func (r *request) webhookFields() (map[string]any, error) {
	body := map[string]any{
		"url": r.form("url"), "description": r.form("description"), "ordered": r.form("ordered") != "",
		"eventTypes": append([]string{}, r.http.PostForm["eventTypes"]...), // an empty list, not null
		"sources":    linesOf(r.form("sources")), "entryTypes": linesOf(r.form("entryTypes")),
		"accountId": orNil(r.form("accountId")), "filter": orNil(r.form("filter")), "rateLimit": 0,
	}
	if format := r.form("format"); format != "" {
		body["format"] = format
	}
	if text := r.form("rateLimit"); text != "" {
		rate, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, wrong("rateLimit", "must be a number of requests a second")
		}
		body["rateLimit"] = rate
	}
	switch headers, err := parseHeaders(r.form("headers")); {
	case err != nil:
		return nil, err
	case len(headers) > 0 || r.form("removeHeaders") != "":
		body["headers"] = headers
	}
	return body, nil
}

// parseHeaders returns the headers that lines have, each as a name, a colon and a value.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for i, line := range linesOf(text) {
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, wrong("headers", "Line %d of the headers must be a name, a colon and a value.", i+1)
		}
		if _, twice := headers[name]; twice {
			return nil, wrong("headers", "The header %s is there twice.", atrium.Shorten(maxHeading, name))
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// linesOf returns the lines of a text that are not empty.
func linesOf(text string) []string {
	all := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// orNil returns a text, or nil if it is empty.
func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// switchEvents switches the events of the tenant on or off.
func (c *Console) switchEvents(r *request) error {
	tag, err := r.get(&eventSettings{}, "/event_settings", nil)
	if err != nil {
		return err
	}
	on := r.form("enabled") != ""
	if _, err := r.call(call{method: http.MethodPatch, path: "/event_settings", ifMatch: tag, body: map[string]any{"enabled": on}}); err != nil {
		return err
	}
	if on {
		return r.redirect(r.path("webhooks"), "eventson")
	}
	return r.redirect(r.path("webhooks"), "eventsoff")
}

// webhookPath returns the path of a webhook in the API, which the URL names.
func (r *request) webhookPath() string {
	return "/webhooks/" + url.PathEscape(r.http.PathValue("webhook_id"))
}

type webhookPage struct {
	Webhook    webhook
	Tag        string
	Progress   webhookProgress
	Chart      attemptChart
	Deliveries list[delivery]
	State      string // filters of the deliveries
	EventID    string
	Entry      string
	States     []atrium.DeliveryState
	Replays    []replay
	Secret     string // a new one, to be shown once; "" for none
}

// Health returns the state of the webhook.
func (p webhookPage) Health() string { return stateOf(p.Webhook, p.Progress) }

// Filtered reports whether the deliveries are filtered.
func (p webhookPage) Filtered() bool { return p.State+p.EventID+p.Entry != "" }

// deliveryFilters are the parameters of the list of deliveries.
var deliveryFilters = []string{"state", "eventId", "accountLogId", "since", "until"}

func (c *Console) showWebhook(r *request) error { return r.showOneWebhook("") }

func (r *request) showOneWebhook(secret string) error {
	if err := r.require(atrium.ScopeManageEvents); err != nil {
		return err
	}
	p := webhookPage{Secret: secret, State: r.query("state"), EventID: r.query("eventId"), Entry: r.query("accountLogId"), States: atrium.DeliveryStates()}
	var err error
	if p.Tag, err = r.get(&p.Webhook, r.webhookPath(), nil); err != nil {
		return err
	}
	if p.Chart, p.Progress, err = r.readAttempts(attemptRangeOf(r.query("range"))); err != nil {
		return err
	}
	if p.Deliveries, err = readList[delivery](r, r.webhookPath()+"/deliveries", deliveryFilters...); err != nil {
		return err
	}
	var replays list[replay]
	if _, err = r.get(&replays, r.webhookPath()+"/replays", url.Values{"limit": {"10"}}); err != nil {
		return err
	}
	p.Replays = replays.Items
	return r.show("webhook", "webhooks", p.Webhook.Title(), p)
}

func (c *Console) editWebhook(r *request) error {
	if err := r.require(atrium.ScopeManageEvents); err != nil {
		return err
	}
	var w webhook
	tag, err := r.get(&w, r.webhookPath(), nil)
	if err != nil {
		return err
	}
	return r.show("webhookedit", "webhooks", w.Title(), newWebhookForm(r.path("webhooks", string(w.WebhookID), "edit"), w, tag))
}

func (c *Console) saveWebhook(r *request) error {
	body, err := r.webhookFields()
	if err != nil {
		return err
	}
	if _, err := r.call(call{method: http.MethodPatch, path: r.webhookPath(), ifMatch: r.form("tag"), body: body}); err != nil {
		return err
	}
	return r.redirect(r.path("webhooks", r.http.PathValue("webhook_id")), "webhooksaved")
}

// changeWebhook does what a button says.
func (c *Console) changeWebhook(r *request) error {
	own, action := r.path("webhooks", r.http.PathValue("webhook_id")), r.http.PathValue("action")
	operation := call{method: http.MethodPost, path: r.webhookPath() + "/" + action}
	switch action {
	case "test", "enable", "disable":
	case "rotate":
		operation.path, operation.body = r.webhookPath()+"/rotate_secret", map[string]any{}
	case "delete":
		return remove[webhook](r, r.webhookPath(), r.path("webhooks"), "webhookdelete")
	default:
		return atrium.NotFound()
	}
	if action != "test" {
		operation.ifMatch = r.form("tag")
	}
	send := r.call
	if action == "rotate" {
		send = r.once
	}
	a, err := send(operation)
	if err != nil {
		return err
	}
	if action == "rotate" { // the secret can be shown only once
		var made webhook
		if err := json.Unmarshal(a.body, &made); err != nil {
			return fmt.Errorf("decode a webhook: %w", err)
		}
		return r.showOneWebhook(made.Secret)
	}
	if action == "test" {
		return r.showTestOf(own)
	}
	return r.redirect(own, "webhook"+action)
}
