package mapping

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/expression"
	"atrium/internal/strictjson"
)

// A Delivery is a verified request to a receiver.
type Delivery struct {
	Headers []atrium.Header // names in lower case, without those that authenticate the request
	Query   string          // as it was sent
	Body    []byte
}

// headers returns the first value of each header.
func (d *Delivery) headers() map[string]string {
	first := make(map[string]string, len(d.Headers))
	for _, h := range d.Headers {
		if _, found := first[h.Name]; !found {
			first[h.Name] = strings.ToValidUTF8(h.Value, "\uFFFD") // entries store some
		}
	}
	return first
}

// query returns the first value of each parameter. It leaves out those with faults.
func (d *Delivery) query() map[string]string {
	all, _ := url.ParseQuery(d.Query) // the faults of a query are the sender's: the delivery is in the body
	first := make(map[string]string, len(all))
	for name, values := range all {
		first[strings.ToValidUTF8(name, "\uFFFD")] = strings.ToValidUTF8(values[0], "\uFFFD")
	}
	return first
}

// elements are the payloads of a delivery.
type elements struct {
	payloads [][]byte // parts of the body if it is JSON
	inArray  bool
}

// number returns the number of an element in a fault.
func (e *elements) number(i int) int {
	if e.inArray {
		return i
	}
	return -1
}

// split returns the payloads of the delivery, each strict JSON as the API takes it.
func (d *Delivery) split(maxPayload int) (all elements, fault *Fault) {
	body, inForm := d.Body, false
	// The type is not signed: a captured delivery with another type must not become another entry. In a form, braces are encoded.
	start := bytes.TrimLeft(body, " \t\r\n")
	isJSON := bytes.HasPrefix(start, []byte("{")) || bytes.HasPrefix(start, []byte("["))
	if kind, _, _ := mime.ParseMediaType(d.headers()["content-type"]); kind == "application/x-www-form-urlencoded" && !isJSON {
		form, err := formBody(d.Body)
		if err != nil {
			return all, &Fault{-1, "", err.Error()}
		}
		body, inForm = form, true
	}
	all.inArray = !inForm && bytes.HasPrefix(start, []byte("["))
	var err error
	if all.payloads, err = strictjson.Objects(body, atrium.MaxReceiverElements); err != nil {
		return all, &Fault{-1, "", "the body " + detailOf(err)}
	}
	for i, payload := range all.payloads {
		if len(payload) > maxPayload {
			return all, &Fault{all.number(i), "", "the payload has more than " + strconv.Itoa(maxPayload) + " bytes"}
		}
	}
	return all, nil
}

// detailOf returns the first fault of an error of strictjson.
func detailOf(err error) string {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || len(e.Faults) == 0 {
		return err.Error()
	}
	if f := e.Faults[0]; f.Where != "" {
		return "at " + f.Where + " " + f.Detail
	}
	return e.Faults[0].Detail
}

// formBody returns the payload of a form. Some senders, such as GitHub and Slack, send JSON as the only field, payload: then
// the payload is that. Any other form becomes an object with its fields as arrays of texts, and the form as it was sent.
func formBody(body []byte) ([]byte, error) {
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the body is not a valid form")
	}
	if only := fields["payload"]; len(fields) == 1 && len(only) == 1 && strings.HasPrefix(strings.TrimLeft(only[0], " \t\r\n"), "{") {
		return []byte(only[0]), nil
	}
	form := make(map[string][]string, len(fields))
	for name, values := range fields {
		name = strings.ToValidUTF8(name, "\uFFFD")
		for _, value := range values {
			form[name] = append(form[name], strings.ToValidUTF8(value, "\uFFFD"))
		}
	}
	encoded, err := json.Marshal(struct {
		Form map[string][]string `json:"form"`
		Raw  string              `json:"raw"`
	}{form, string(body)}, json.Deterministic(true))
	if err != nil {
		return nil, errors.New("the body is not a form in ASCII or UTF-8")
	}
	return encoded, nil
}

// decode returns the variable body. The payload is strict JSON.
func decode(payload []byte) (any, error) {
	return expression.Decode(jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true)))
}

const (
	hashPrefix = "sha256:"
	maxEventID = 200 // code points; the rest of a key has the receiver and a number
)

// key returns the idempotency key of an element: that of its event, or of its bytes without one. If a delivery has several
// elements with the same, the second and further ones have a number. used counts them.
//
// An identifier that is long, or could be mistaken for a number or a hash, is hashed: no two of them have the same key.
func key(receiver atrium.ReceiverID, event string, payload []byte, used map[string]int) string {
	id := event
	switch {
	case event == "":
		id = hashPrefix + sum(payload)
	case atrium.CheckText(event, 1, maxEventID) != "" || strings.HasPrefix(event, hashPrefix) || strings.Contains(event, "#"):
		id = hashPrefix + sum([]byte("event "+event)) // no payload begins like this
	}
	if used[id]++; used[id] > 1 {
		id += "#" + strconv.Itoa(used[id])
	}
	return "in:" + string(receiver) + ":" + id
}

// sum returns the SHA-256 of b in hexadecimal.
func sum(b []byte) string {
	hash := sha256.Sum256(b)
	return hex.EncodeToString(hash[:])
}
