package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Body returns the body of a request for our JSON form of an event. It depends on nothing else, so it is the
// same on every attempt, and it has the data byte for byte.
func Body(f Format, event []byte) ([]byte, error) {
	if f == Standard {
		return event, nil
	}
	m, err := members(event)
	if err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	switch f {
	case Legacy:
		payload := object(member{"type", m["type"]}, member{"data", m["data"]})
		return object(member{"eventId", m["id"]}, member{"timestamp", m["timestamp"]}, member{"tenantId", m["tenantId"]}, member{"payload", payload}), nil
	case CloudEvents: // CloudEvents 1.0.2 sections 3.1 and 3.2, JSON format
		tenant, err := jsontext.AppendUnquote(nil, m["tenantId"])
		if err != nil {
			return nil, fmt.Errorf("decode event: %w", err)
		}
		position, err := strconv.ParseInt(string(m["position"]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("decode event: %w", err)
		}
		// The position is in the extension sequence, in a form whose texts sort as the numbers do.
		return object(
			member{"specversion", []byte(`"1.0"`)}, member{"id", m["id"]}, member{"source", []byte(`"/tenants/` + string(tenant) + `"`)},
			member{"type", m["type"]}, member{"time", m["timestamp"]}, member{"datacontenttype", []byte(`"application/json"`)},
			member{"sequence", fmt.Appendf(nil, `"%019d"`, position)}, member{"tenantid", m["tenantId"]}, member{"data", m["data"]},
		), nil
	}
	return nil, fmt.Errorf("unknown format %q", f)
}

// errMembers is the error for a value that is not our JSON form of an event.
var errMembers = errors.New("not an event: need id, type, timestamp, tenantId, position and data")

// members returns the members of our JSON form of an event, as they are encoded. Payloads are stored as they were
// sent, and may repeat names.
func members(event []byte) (map[string][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(event), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	all := map[string][]byte{}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		all[key] = bytes.Clone(value)
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, errors.Join(errMembers, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errMembers
	}
	for _, name := range []string{"id", "type", "timestamp", "tenantId", "position", "data"} {
		if all[name] == nil {
			return nil, errMembers
		}
	}
	return all, nil
}

// A member is a member of a JSON object, with its encoded value.
type member struct {
	name  string
	value []byte
}

// object returns a JSON object.
func object(all ...member) []byte {
	b := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `"`+m.name+`":`...), m.value...)
	}
	return append(b, '}')
}

// contentType returns the media type of the bodies of a format.
func (f Format) contentType() string {
	if f == CloudEvents {
		return "application/cloudevents+json; charset=UTF-8"
	}
	return "application/json"
}
