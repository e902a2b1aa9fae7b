package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A replay is a replay as the API shows it.
type replay struct {
	ReplayID   atrium.ReplayID `json:"replayId"`
	From       int64           `json:"from"`
	To         int64           `json:"to"`
	FailedOnly bool            `json:"failedOnly"`
	Rate       int64           `json:"rate"`
	Scheduled  int64           `json:"scheduled"`
	CreatedAt  string          `json:"createdAt"`
	FinishedAt string          `json:"finishedAt"`
}

type replayPage struct {
	Webhook webhook
	Fields  fields
	Checked bool  // the events were counted, and nothing is sent yet
	Events  int64 // that would be sent
	More    bool  // or more
}

// replayFields are the fields of the form for replays.
var replayFields = []string{"since", "until", "failedOnly", "rate"}

// newReplay asks for a range, and then shows how many events it has.
func (c *Console) newReplay(r *request) error {
	if err := r.require(atrium.ScopeManageEvents); err != nil {
		return err
	}
	p := replayPage{Fields: readFields(r.query, replayFields...)}
	if _, err := r.get(&p.Webhook, r.webhookPath(), nil); err != nil {
		return err
	}
	if r.http.URL.Query().Has("check") {
		if err := r.refuse(r.checkReplay(&p)); err != nil {
			return err
		}
	}
	return r.show("replay", "webhooks", "Replay events", p)
}

// checkReplay counts the events of a replay.
func (r *request) checkReplay(p *replayPage) error {
	body, err := p.body()
	if err != nil {
		return err
	}
	body["check"] = true
	a, err := r.call(call{method: http.MethodPost, path: r.webhookPath() + "/replays", body: body})
	if err != nil {
		return err
	}
	var counted struct {
		Events  int64 `json:"events"`
		HasMore bool  `json:"hasMore"`
	}
	if err := json.Unmarshal(a.body, &counted); err != nil {
		return err
	}
	p.Checked, p.Events, p.More = true, counted.Events, counted.HasMore
	return nil
}

// body returns the fields as the API takes them.
func (p *replayPage) body() (map[string]any, error) {
	body := map[string]any{"failedOnly": p.Fields["failedOnly"] != ""}
	for _, name := range []string{"since", "until"} {
		if text := p.Fields[name]; text != "" {
			body[name] = instant(text)
		}
	}
	if text := p.Fields["rate"]; text != "" {
		rate, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, wrong("rate", "must be a number of events a second")
		}
		body["rate"] = rate
	}
	return body, nil
}

func (c *Console) createReplay(r *request) error {
	p := replayPage{Fields: readFields(r.form, replayFields...)}
	body, err := p.body()
	if err == nil {
		_, err = r.call(call{method: http.MethodPost, path: r.webhookPath() + "/replays", body: body})
	}
	if err == nil {
		return r.redirect(r.path("webhooks", r.http.PathValue("webhook_id")), "replay")
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	if _, err := r.get(&p.Webhook, r.webhookPath(), nil); err != nil {
		return err
	}
	return r.show("replay", "webhooks", "Replay events", p)
}

func (c *Console) cancelReplay(r *request) error {
	path := r.webhookPath() + "/replays/" + url.PathEscape(r.http.PathValue("replay_id")) + "/cancel"
	if _, err := r.call(call{method: http.MethodPost, path: path}); err != nil {
		return err
	}
	return r.redirect(r.path("webhooks", r.http.PathValue("webhook_id")), "replayended")
}
