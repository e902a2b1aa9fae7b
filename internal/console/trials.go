package console

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A trialSample is a request that a user tries.
type trialSample struct {
	Headers, Body string
	Path          string // of the form
}

// A trial is what would become of a request.
type trial struct {
	Verified *bool         `json:"verified"`
	Reason   string        `json:"reason"`
	Fault    string        `json:"fault"`
	Elements int64         `json:"elements"`
	Results  []trialResult `json:"results"`
}

type trialResult struct {
	Filtered       bool             `json:"filtered"`
	Type           string           `json:"type"`
	AccountID      atrium.AccountID `json:"accountId"`
	Name           string           `json:"name"`
	OccurredAt     string           `json:"occurredAt"`
	IdempotencyKey string           `json:"idempotencyKey"`
	Account        *struct {
		AccountID atrium.AccountID `json:"accountId"`
		Domain    string           `json:"domain"`
		New       bool             `json:"new"`
	} `json:"account"`
	Fault string `json:"fault"`
}

// A trialFrame is a frame with the result of a trial.
type trialFrame struct {
	frame
	Fields *trial
}

// Trial returns the frame with a result.
func (f frame) Trial(t *trial) trialFrame { return trialFrame{f, t} }

// tryReceiver shows what would become of a request. It stores nothing.
func (c *Console) tryReceiver(r *request) error {
	if r.form("sample") != "" {
		return r.trySample()
	}
	headers, err := parseHeaders(r.form("headers"))
	if err != nil {
		return err
	}
	p := receiverPage{Sample: trialSample{Headers: r.form("headers"), Body: r.form("body")}}
	if p.Trial, err = r.try(map[string]any{"request": map[string]any{"headers": headers, "body": p.Sample.Body}}); err != nil {
		return err
	}
	return r.showOneReceiver(&p)
}

// trySample is tryReceiver for a sample of the provider. It fills the form with the sample.
func (r *request) trySample() (err error) {
	var p receiverPage
	if _, err := r.get(&p.Receiver, r.receiverPath(), nil); err != nil {
		return err
	}
	if p.Trial, err = r.try(map[string]any{"sample": true}); err != nil {
		return err
	}
	headers, body := p.Receiver.From().Sample()
	for _, h := range headers {
		p.Sample.Headers += h.Name + ": " + h.Value + "\n"
	}
	p.Sample.Body = string(body)
	return r.showOneReceiver(&p)
}

// try returns what would become of a request, a sample or a delivery in quarantine.
func (r *request) try(body map[string]any) (*trial, error) {
	a, err := r.call(call{method: http.MethodPost, path: r.receiverPath() + "/try", body: body})
	if err != nil {
		return nil, err
	}
	var t trial
	if err := json.Unmarshal(a.body, &t); err != nil {
		return nil, fmt.Errorf("decode a trial: %w", err)
	}
	return &t, nil
}
