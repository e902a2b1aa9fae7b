package app

import (
	"atrium"
	"atrium/internal/mapping"
	"atrium/internal/receive"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

// newReceiver returns the handler of the addresses of receivers.
func newReceiver(c Config, api *rest.API, logs resource.Logs, mappings *mapping.Cache) *receive.Handler {
	h := &receive.Handler{
		API: api, Receivers: receive.NewReceivers(c.Store), Mappings: mappings, Logs: logs, Quarantine: c.Store, PublicURL: c.Settings.PublicURL, Now: c.Store.Now,
	}
	if c.Metrics != nil {
		h.Observe = c.Metrics.Received
		for _, provider := range atrium.ReceiverProviders() {
			for _, outcome := range receive.Dispositions() {
				c.Metrics.ExpectReceived(string(provider), string(outcome))
			}
		}
	}
	return h
}
