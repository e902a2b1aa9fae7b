// Package provider knows the systems that send webhooks to receivers: how their requests are verified, how a delivery
// becomes an entry by default, and what operators do to connect them. It does no I/O.
package provider

import (
	"slices"
	"strings"
	"time"

	"atrium"
)

// A Request is a request to a receiver.
type Request struct {
	Method  string
	URL     string // as the sender called it: with the public scheme and host, and the query as it was sent
	Query   string // as it was sent, without a question mark
	Headers []atrium.Header
	Body    []byte
	Now     time.Time
}

// The methods of requests, which are not those of net/http: only the layers above depend on it.
const (
	methodGet  = "GET"
	methodPost = "POST"
)

// header returns the value of a header, given in lower case. A header that is repeated has none: senders and proxies
// disagree about which of its values counts.
func (r *Request) header(name string) (string, Reason) {
	value, found := "", false
	for _, h := range r.Headers {
		if h.Name != name {
			continue
		}
		if found {
			return "", Reason("the header " + name + " is repeated")
		}
		value, found = h.Value, true
	}
	if value == "" {
		return "", Reason("the header " + name + " is missing")
	}
	return value, ""
}

// has reports whether the request has a header, given in lower case.
func (r *Request) has(name string) bool {
	for _, h := range r.Headers {
		if h.Name == name {
			return true
		}
	}
	return false
}

// A Provider is a system that sends webhooks, or a way in which requests are verified.
type Provider struct {
	Name  atrium.ReceiverProvider
	Title string
	Steps []string // how an operator connects it; plain text

	// GeneratesSecret means that the secret comes from the provider, and operators copy it to the receiver. Otherwise
	// they copy it from the receiver to the provider.
	GeneratesSecret bool

	// EmptyResponse means that the response must have the status 200 and no body: the provider shows the body to people, or
	// accepts no other status.
	EmptyResponse bool

	// Mapping is the mapping of receivers without one. An expression is "" if nothing is mapped.
	Mapping atrium.Mapping

	headers     []string // that authenticate requests, in lower case
	credentials bool     // they have the secret, and no signature of the body
	verify      func(r *Request, secret []byte, v *atrium.Verification) Reason
}

// Of returns the provider with a name; nil for an unknown name.
func Of(name atrium.ReceiverProvider) *Provider {
	for i := range providers {
		if providers[i].Name == name {
			return &providers[i]
		}
	}
	return nil
}

// Headers returns the names of the headers that authenticate the requests of a receiver, in lower case. They are not stored.
func (p *Provider) Headers(v *atrium.Verification) []string {
	switch p.Name {
	case atrium.ProviderHMAC, atrium.ProviderToken:
		return []string{strings.ToLower(v.Header)}
	}
	return p.headers
}

// WithoutCredentials returns the headers of a request that are stored and mapped: without those that authenticate it, and without
// others that hold credentials. It reuses the slice.
func (p *Provider) WithoutCredentials(headers []atrium.Header, v *atrium.Verification) []atrium.Header {
	hidden := map[string]bool{"authorization": true, "cookie": true, "proxy-authorization": true, "x-api-key": true}
	for _, name := range p.Headers(v) {
		hidden[name] = true
	}
	return slices.DeleteFunc(headers, func(h atrium.Header) bool { return hidden[h.Name] })
}

// Complete returns the mapping of a receiver, with the expressions of its provider for those that are "".
func Complete(spec *atrium.ReceiverSpec) atrium.Mapping {
	m := spec.Mapping
	p := Of(spec.Provider)
	if p == nil {
		return m
	}
	fallback := p.Mapping
	if name := spec.Verification.IDHeader; spec.Provider == atrium.ProviderHMAC && name != "" {
		fallback.EventID = `headers[?"` + strings.ToLower(name) + `"]`
	}
	for _, e := range []struct{ of, from *string }{
		{&m.Filter, &fallback.Filter}, {&m.Type, &fallback.Type}, {&m.AccountID, &fallback.AccountID}, {&m.Domain, &fallback.Domain},
		{&m.Email, &fallback.Email}, {&m.Name, &fallback.Name}, {&m.OccurredAt, &fallback.OccurredAt}, {&m.EventID, &fallback.EventID},
	} {
		if *e.of == "" {
			*e.of = *e.from
		}
	}
	return m
}
