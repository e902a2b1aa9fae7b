package manage

import (
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/mapping"
	"atrium/internal/provider"
	"atrium/internal/strictjson"
)

// decodeNewReceiver decodes a new receiver. secret is "" if it has none.
func decodeNewReceiver(o *strictjson.Object) (spec atrium.ReceiverSpec, secret string) {
	spec.Name, _ = o.Text("name", strictjson.Required, checkReceiverName)
	kind, known := o.Text("provider", strictjson.Required, func(text string) string {
		if provider.Of(atrium.ReceiverProvider(text)) == nil {
			return "must be one of " + providerNames()
		}
		return ""
	})
	spec.Provider, spec.Source = atrium.ReceiverProvider(kind), kind
	if source, ok := o.Text("source", strictjson.Optional, checkSource); ok {
		spec.Source = source
	}
	verification := o.Inner("verification", strictjson.Optional)
	before := len(o.Faults())
	if verification != nil {
		spec.Verification = decodeVerification(verification)
	}
	if known && len(o.Faults()) == before { // otherwise, one fault could have two details
		addVerificationFaults(o, verification, &spec)
	}
	spec.Mapping = decodeMapping(o)
	secret = decodeReceiverSecret(o)
	if detail := secretFault(spec.Provider, secret); known && detail != "" && !o.Has("secret") {
		o.Fault("secret", detail)
	}
	return spec, secret
}

// decodeReceiverUpdate decodes the change of a receiver. It does not check that a verification is for its provider.
func decodeReceiverUpdate(o *strictjson.Object) func(*atrium.ReceiverSpec) {
	name := optionalText(o, "name", checkReceiverName)
	source := optionalText(o, "source", checkSource)
	change := decodeReceiverChange(o)
	return func(s *atrium.ReceiverSpec) {
		if name != nil {
			s.Name = *name
		}
		if source != nil {
			s.Source = *source
		}
		change(s)
	}
}

// decodeReceiverChange decodes another verification and another mapping of a receiver.
func decodeReceiverChange(o *strictjson.Object) func(*atrium.ReceiverSpec) {
	verification := o.Inner("verification", strictjson.Optional)
	var verified atrium.Verification
	if verification != nil {
		verified = decodeVerification(verification)
	}
	mapped, given := o.Has("mapping"), decodeMapping(o)
	return func(s *atrium.ReceiverSpec) {
		if verification != nil {
			s.Verification = completeVerification(s.Provider, verified)
		}
		if mapped {
			s.Mapping = given
		}
	}
}

func checkReceiverName(text string) string { return atrium.CheckText(text, 1, atrium.MaxReceiverName) }

func providerNames() string {
	var names []string
	for _, p := range atrium.ReceiverProviders() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// decodeReceiverSecret decodes a secret, "" if there is none.
func decodeReceiverSecret(o *strictjson.Object) string {
	secret, _ := o.Text("secret", strictjson.Optional, func(text string) string {
		if detail := atrium.CheckText(text, 1, atrium.MaxReceiverSecret); detail != "" {
			return detail
		}
		for _, c := range []byte(text) {
			if c < '!' || c > '~' {
				return "must be visible ASCII characters"
			}
		}
		return ""
	})
	return secret
}

// secretFault returns the fault of a missing secret, "" if a secret is given or can be generated.
func secretFault(name atrium.ReceiverProvider, given string) string {
	if p := provider.Of(name); p == nil || given != "" || !p.GeneratesSecret {
		return ""
	}
	return "is required for this provider, which makes it"
}

func decodeVerification(o *strictjson.Object) (v atrium.Verification) {
	text := func(name string) string {
		text, _ := o.Text(name, strictjson.Optional, func(text string) string { return atrium.CheckText(text, 1, atrium.MaxVerificationText) })
		return text
	}
	choice := func(name string, of ...string) string {
		text, _ := o.Text(name, strictjson.Optional, func(text string) string {
			if !slices.Contains(of, text) {
				return "must be one of " + strings.Join(of, ", ")
			}
			return ""
		})
		return text
	}
	v = atrium.Verification{
		Header: text("header"), Algorithm: choice("algorithm", "sha1", "sha256", "sha512"), Encoding: choice("encoding", "hex", "base64"), Prefix: text("prefix"),
		Content: text("content"), TimestampHeader: text("timestampHeader"), IDHeader: text("idHeader"), Username: text("username"),
	}
	if o.Has("tolerance") {
		v.Tolerance = o.Integer("tolerance", 1, atrium.MaxReceiverTolerance)
	}
	o.RejectUnknown()
	return v
}

// completeVerification returns a verification with the default of its tolerance.
func completeVerification(name atrium.ReceiverProvider, v atrium.Verification) atrium.Verification {
	if name == atrium.ProviderHMAC && v.TimestampHeader != "" && v.Tolerance == 0 {
		v.Tolerance = atrium.DefaultReceiverTolerance
	}
	return v
}

// addVerificationFaults adds the faults of the verification of a new receiver, and completes it. inner is nil if it has none.
func addVerificationFaults(o, inner *strictjson.Object, spec *atrium.ReceiverSpec) {
	spec.Verification = completeVerification(spec.Provider, spec.Verification)
	faults := provider.Check(spec.Provider, &spec.Verification)
	if inner == nil {
		if len(faults) > 0 {
			o.Fault("verification", "is required for this provider")
		}
		return
	}
	for _, f := range faults {
		inner.Fault(strings.TrimPrefix(f.Where, "/"), f.Detail)
	}
}

// checkVerification returns the faults of the verification of a changed receiver.
func checkVerification(spec *atrium.ReceiverSpec) error {
	faults := provider.Check(spec.Provider, &spec.Verification)
	if len(faults) == 0 {
		return nil
	}
	for i := range faults {
		faults[i].Where = "/verification" + faults[i].Where
	}
	return atrium.Invalid(faults...)
}

// decodeMapping decodes a mapping, which is empty if o has none, and compiles it.
func decodeMapping(o *strictjson.Object) (m atrium.Mapping) {
	inner := o.Inner("mapping", strictjson.Optional)
	if inner == nil {
		return m
	}
	for _, e := range []struct {
		name string
		into *string
	}{
		{"filter", &m.Filter}, {"type", &m.Type}, {"accountId", &m.AccountID}, {"domain", &m.Domain}, {"email", &m.Email}, {"name", &m.Name},
		{"occurredAt", &m.OccurredAt}, {"eventId", &m.EventID},
	} {
		*e.into, _ = inner.Text(e.name, strictjson.Optional, func(text string) string { return atrium.CheckText(text, 1, atrium.MaxReceiverExpression) })
	}
	inner.RejectUnknown()
	_, err := mapping.Compile("", &atrium.ReceiverSpec{Mapping: m}) // the expressions of providers have no faults
	if e, ok := errors.AsType[*mapping.Error](err); ok {
		for _, member := range e.Members {
			for _, f := range member.Faults {
				inner.Fault(member.Name, f.String())
			}
		}
	} else if err != nil {
		inner.WholeFault("cannot be compiled")
	}
	return m
}
