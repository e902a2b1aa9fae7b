package console

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A quarantined is a delivery in quarantine as lists of the API show it.
type quarantined struct {
	QuarantinedID atrium.QuarantinedID `json:"quarantinedId"`
	ReceivedAt    string               `json:"receivedAt"`
	Fault         string               `json:"fault"`
	BodyBytes     int64                `json:"bodyBytes"`
}

// mappedAgain is what became of deliveries in quarantine.
type mappedAgain struct {
	Mapped      int64 `json:"mapped"`
	AccountLogs int64 `json:"accountLogs"`
	Replayed    int64 `json:"replayed"`
	Filtered    int64 `json:"filtered"`
	Failed      int64 `json:"failed"`
	Left        int64 `json:"left"`
}

// mapAgain maps deliveries in quarantine again, and shows what became of them.
func (r *request) mapAgain(path string) error {
	a, err := r.once(call{method: http.MethodPost, path: path, body: map[string]any{}})
	if err != nil {
		return err
	}
	p := receiverPage{Mapped: &mappedAgain{}}
	if err := json.Unmarshal(a.body, p.Mapped); err != nil {
		return fmt.Errorf("decode what became of deliveries: %w", err)
	}
	return r.showOneReceiver(&p)
}

type quarantinedPage struct {
	Receiver receiver
	Delivery struct {
		quarantined
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"headers"`
		Query string `json:"query"`
		Body  string `json:"body"`
	}
	Trial  *trial
	Tree   node
	IsTree bool
}

// quarantinedPath returns the path of a delivery in quarantine in the API, which the URL names.
func (r *request) quarantinedPath() string {
	return r.receiverPath() + "/quarantine/" + url.PathEscape(r.http.PathValue("quarantined_id"))
}

// showQuarantined shows a delivery in quarantine, and what would become of it now.
func (c *Console) showQuarantined(r *request) error {
	if err := r.require(atrium.ScopeManageReceivers); err != nil {
		return err
	}
	var p quarantinedPage
	if _, err := r.get(&p.Receiver, r.receiverPath(), nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Delivery, r.quarantinedPath(), nil); err != nil {
		return err
	}
	var err error
	if p.Trial, err = r.try(map[string]any{"quarantinedId": p.Delivery.QuarantinedID}); err != nil {
		return err
	}
	if p.Delivery.Body != "" {
		err := r.heavily(func() (err error) {
			p.Tree, err = parseNode([]byte(p.Delivery.Body))
			return err
		})
		p.IsTree = err == nil
	}
	return r.show("quarantined", "receivers", "Delivery in quarantine", p)
}

func (c *Console) changeQuarantined(r *request) error {
	own := r.path("receivers", r.http.PathValue("receiver_id"))
	switch r.http.PathValue("action") {
	case "map":
		return r.mapAgain(r.quarantinedPath() + "/map_again")
	case "discard":
		if _, err := r.call(call{method: http.MethodDelete, path: r.quarantinedPath()}); err != nil {
			return err
		}
		return r.redirect(own, "discarded")
	}
	return atrium.NotFound()
}
