package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/provider"
)

// A receiver is a receiver as the API shows it.
type receiver struct {
	ReceiverID   atrium.ReceiverID       `json:"receiverId"`
	Name         string                  `json:"name"`
	Provider     atrium.ReceiverProvider `json:"provider"`
	Verification map[string]any          `json:"verification"`
	Source       string                  `json:"source"`
	Mapping      map[string]string       `json:"mapping"`
	Enabled      bool                    `json:"enabled"`
	Path         string                  `json:"path"`
	URL          string                  `json:"url"`
	Quarantined  int64                   `json:"quarantined"`
	CreatedAt    string                  `json:"createdAt"`
	Secret       string                  `json:"secret"`
	VerifyToken  string                  `json:"verifyToken"`
}

// Title returns the name.
func (v receiver) Title() string { return v.Name }

// From returns what the console knows of the provider.
func (v receiver) From() *provider.Provider { return provider.Of(v.Provider) }

// A receiverField is a field of the form for a receiver.
type receiverField struct {
	Name, Title, Hint string
	Value             string // of the receiver
	Usual             string // what applies if it is empty
}

// mappingFields are the expressions of a mapping, with the members of the API as names.
var mappingFields = []receiverField{
	{Name: "type", Title: "Type", Hint: "A string"},
	{Name: "domain", Title: "Domain of the account", Hint: "A string"},
	{Name: "email", Title: "Email address", Hint: "A string; the account is that of its domain, except for public mail services"},
	{Name: "name", Title: "Name of the account", Hint: "A string"},
	{Name: "accountId", Title: "ID of the account", Hint: "A string"},
	{Name: "occurredAt", Title: "Time", Hint: "A number of seconds or milliseconds since 1970, or a string"},
	{Name: "eventId", Title: "ID of the event", Hint: "A string or a number; deliveries with the same one are one entry"},
	{Name: "filter", Title: "Condition", Hint: "A bool; what does not satisfy it is accepted and ignored"},
}

// verificationFields are those of providers that need to know how requests are verified.
var verificationFields = []receiverField{
	{Name: "header", Title: "Header", Hint: "With the signature or the token"},
	{Name: "algorithm", Title: "Algorithm", Hint: "sha1, sha256 or sha512"},
	{Name: "encoding", Title: "Encoding", Hint: "hex or base64"},
	{Name: "prefix", Title: "Prefix of the signature", Hint: "Such as sha256="},
	{Name: "content", Title: "What is signed", Hint: "Text with {body}, {timestamp} and {id}"},
	{Name: "timestampHeader", Title: "Header with the time"},
	{Name: "idHeader", Title: "Header with the ID of the event"},
	{Name: "tolerance", Title: "Tolerance", Hint: "Seconds by which the time may differ"},
	{Name: "username", Title: "User name", Hint: "Of HTTP basic authentication; the password is the secret"},
}

// What begins the names of the fields of a form that are members of objects of the API.
const (
	mappingPrefix      = "mapping:"
	verificationPrefix = "verification:"
)

// A receiverForm is the form for a new receiver, or for one that exists.
type receiverForm struct {
	Path         string // of the form
	Receiver     receiver
	Providers    []*provider.Provider // of a new one
	Mapping      []receiverField
	Verification []receiverField
	Tag          string // of the receiver that the user has seen; "" for a new one
}

func newReceiverForm(path string, v receiver, tag string) receiverForm {
	f := receiverForm{Path: path, Receiver: v, Tag: tag, Mapping: mappingOf(v)}
	for i := range f.Mapping {
		f.Mapping[i].Name = mappingPrefix + f.Mapping[i].Name
	}
	if tag == "" {
		for _, name := range atrium.ReceiverProviders() {
			f.Providers = append(f.Providers, provider.Of(name))
		}
	}
	if tag == "" || v.Verification != nil {
		for _, field := range verificationFields {
			if value := v.Verification[field.Name]; value != nil {
				field.Value = fmt.Sprint(value)
			}
			field.Name = verificationPrefix + field.Name
			f.Verification = append(f.Verification, field)
		}
	}
	return f
}

// mappingOf returns the expressions of a receiver, with those of its provider.
func mappingOf(v receiver) []receiverField {
	fields := slices.Clone(mappingFields)
	usual := map[string]string{}
	if p := v.From(); p != nil {
		m := p.Mapping
		usual = map[string]string{
			"type": m.Type, "domain": m.Domain, "email": m.Email, "name": m.Name, "accountId": m.AccountID, "occurredAt": m.OccurredAt, "eventId": m.EventID, "filter": m.Filter,
		}
	}
	for i := range fields {
		fields[i].Value, fields[i].Usual = v.Mapping[fields[i].Name], usual[fields[i].Name]
	}
	return fields
}

// A receiverFrame is a frame with the form for a receiver.
type receiverFrame struct {
	frame
	Fields receiverForm
}

// ReceiverForm returns the frame with a form.
func (f frame) ReceiverForm(fields receiverForm) receiverFrame { return receiverFrame{f, fields} }

type receiversPage struct {
	Receivers list[receiver]
	Form      receiverForm
}

func (c *Console) listReceivers(r *request) error {
	if err := r.require(atrium.ScopeManageReceivers); err != nil {
		return err
	}
	p := receiversPage{Form: newReceiverForm(r.path("receivers"), receiver{}, "")}
	var err error
	if p.Receivers, err = readList[receiver](r, "/receivers"); err != nil {
		return err
	}
	return r.show("receivers", "receivers", "Receivers", p)
}

// createReceiver shows the secret of the new receiver in its response, because it can be shown only once.
func (c *Console) createReceiver(r *request) error {
	body, err := r.receiverFields()
	if err != nil {
		return err
	}
	body["provider"] = r.form("provider")
	if body["source"] == "" {
		delete(body, "source")
	}
	if secret := r.form("secret"); secret != "" {
		body["secret"] = secret
	}
	return r.showMade(call{method: http.MethodPost, path: "/receivers", body: body})
}

// showMade makes a change and shows the receiver with the secret in the response.
func (r *request) showMade(change call) error {
	a, err := r.once(change)
	if err != nil {
		return err
	}
	var made receiver
	if err := json.Unmarshal(a.body, &made); err != nil {
		return fmt.Errorf("decode a receiver: %w", err)
	}
	r.http.SetPathValue("receiver_id", string(made.ReceiverID))
	return r.showOneReceiver(&receiverPage{Made: made})
}

// receiverFields returns the fields of the form as the API takes them.
func (r *request) receiverFields() (map[string]any, error) {
	body := map[string]any{"name": r.form("name"), "source": r.form("source")}
	mapping := map[string]string{}
	for _, field := range mappingFields {
		if text := r.form(mappingPrefix + field.Name); text != "" {
			mapping[field.Name] = text
		}
	}
	body["mapping"] = mapping
	verification := map[string]any{}
	for _, field := range verificationFields {
		if text := r.form(verificationPrefix + field.Name); text != "" {
			verification[field.Name] = text
		}
	}
	if text, given := verification["tolerance"].(string); given {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, wrong(verificationPrefix+"tolerance", "must be a number of seconds")
		}
		verification["tolerance"] = seconds
	}
	if len(verification) > 0 {
		body["verification"] = verification
	}
	return body, nil
}

// receiverPath returns the path of a receiver in the API, which the URL names.
func (r *request) receiverPath() string {
	return "/receivers/" + url.PathEscape(r.http.PathValue("receiver_id"))
}

type receiverPage struct {
	Receiver   receiver
	Address    string // that the provider calls: if the server does not know its own, that at which the user has reached it
	Tag        string
	Made       receiver // with the secret that is shown once; zero for none
	Mapping    []receiverField
	Quarantine list[quarantined]
	Sample     trialSample
	Trial      *trial // nil for none
	Mapped     *mappedAgain
}

func (c *Console) showReceiver(r *request) error { return r.showOneReceiver(&receiverPage{}) }

func (r *request) showOneReceiver(p *receiverPage) error {
	if err := r.require(atrium.ScopeManageReceivers); err != nil {
		return err
	}
	var err error
	if p.Tag, err = r.get(&p.Receiver, r.receiverPath(), nil); err != nil {
		return err
	}
	if p.Address = p.Receiver.URL; p.Address == "" {
		origin := url.URL{Scheme: "http", Host: r.http.Host, Path: p.Receiver.Path}
		if r.console.overTLS(r.http) {
			origin.Scheme = "https"
		}
		p.Address = origin.String()
	}
	p.Mapping = slices.DeleteFunc(mappingOf(p.Receiver), func(f receiverField) bool { return f.Value+f.Usual == "" })
	p.Sample.Path = r.path("receivers", string(p.Receiver.ReceiverID), "try")
	if p.Quarantine, err = readList[quarantined](r, r.receiverPath()+"/quarantine"); err != nil {
		return err
	}
	return r.show("receiver", "receivers", p.Receiver.Name, p)
}

func (c *Console) editReceiver(r *request) error {
	if err := r.require(atrium.ScopeManageReceivers); err != nil {
		return err
	}
	var v receiver
	tag, err := r.get(&v, r.receiverPath(), nil)
	if err != nil {
		return err
	}
	return r.show("receiveredit", "receivers", v.Name, newReceiverForm(r.path("receivers", string(v.ReceiverID), "edit"), v, tag))
}

func (c *Console) saveReceiver(r *request) error {
	body, err := r.receiverFields()
	if err != nil {
		return err
	}
	if _, err := r.call(call{method: http.MethodPatch, path: r.receiverPath(), ifMatch: r.form("tag"), body: body}); err != nil {
		return err
	}
	return r.redirect(r.path("receivers", r.http.PathValue("receiver_id")), "receiversaved")
}

// changeReceiver does what a button says.
func (c *Console) changeReceiver(r *request) error {
	own, action := r.path("receivers", r.http.PathValue("receiver_id")), r.http.PathValue("action")
	operation := call{method: http.MethodPost, path: r.receiverPath() + "/" + action, ifMatch: r.form("tag")}
	switch action {
	case "enable", "disable":
	case "rotate":
		operation.path, operation.body = r.receiverPath()+"/rotate_secret", map[string]any{}
		if secret := r.form("secret"); secret != "" {
			operation.body = map[string]any{"secret": secret}
		}
		return r.showMade(operation)
	case "map":
		return r.mapAgain(r.receiverPath() + "/map_again")
	case "discard":
		operation = call{method: http.MethodPost, path: r.receiverPath() + "/discard_quarantine", body: map[string]any{}}
	case "delete":
		return remove[receiver](r, r.receiverPath(), r.path("receivers"), "receiverdelete")
	default:
		return atrium.NotFound()
	}
	if _, err := r.call(operation); err != nil {
		return err
	}
	return r.redirect(own, "receiver"+action)
}

// receiverPages returns the pages about receivers by pattern.
func (c *Console) receiverPages(of string) map[string]page {
	one := of + "/receivers/{receiver_id}"
	return map[string]page{
		"GET " + of + "/receivers":                    c.listReceivers,
		"GET " + one:                                  c.showReceiver,
		"GET " + one + "/edit":                        c.editReceiver,
		"GET " + one + "/quarantine/{quarantined_id}": c.showQuarantined,
	}
}
