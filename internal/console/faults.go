package console

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"atrium"
)

// A refused change is shown in its form: the form has what the user has entered, each fault is below its field, and the list
// at the top, which has the focus, links to the fields. This is done to the rendered page, so it works for every template.

// refuse makes the page show an error about what the user has entered, or about data that has changed since the page was made, with
// the form that has sent the request. It returns other errors.
func (r *request) refuse(err error) error {
	if atrium.CodeOf(err) == atrium.CodePreconditionFailed {
		err = errChanged
	} else if !aboutInput(err) {
		return err
	}
	r.refused, r.formPath = err, r.http.URL.RequestURI()
	return nil
}

// errChanged is the error of a change that is based on data that has changed since the page was made.
var errChanged = atrium.Errorf(atrium.CodePreconditionFailed, "The data has changed since you opened this page. Compare the values, then save again.")

// aboutInput reports whether an error is about what the user has entered.
func aboutInput(err error) bool {
	return slices.Contains([]atrium.Code{atrium.CodeInvalidRequest, atrium.CodeNotFound, atrium.CodeConflict}, atrium.CodeOf(err))
}

// wrong returns an error about a field of a form. Its text continues the title of the field, or is a sentence.
func wrong(field, format string, values ...any) error {
	return at(field, atrium.Errorf(atrium.CodeInvalidRequest, format, values...))
}

// at returns an error about what the user has entered as one about a field of the form. The API names the field
// differently, or the console has asked for more than one thing.
func at(field string, err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || !aboutInput(err) {
		return err
	}
	moved, detail := *e, e.Detail
	if len(e.Faults) > 0 {
		detail = e.Faults[0].Detail
	}
	moved.Faults = []atrium.Fault{{In: atrium.InBody, Where: "/" + field, Detail: detail}}
	return &moved
}

// A shownFault is a fault as pages show it: its text continues the label, or is a sentence.
type shownFault struct{ Label, Text string }

func (f shownFault) String() string { return strings.TrimSpace(f.Label + " " + f.Text) }

// apiMember matches the name of a member of the API in a text, if it has several words.
var apiMember = regexp.MustCompile(`\b[a-z]+[A-Z][A-Za-z]*\b`)

// showFaults returns faults as pages show them.
func showFaults(faults []atrium.Fault) (shown []shownFault) {
	for _, f := range faults {
		s := shownFault{label(f.Where), apiMember.ReplaceAllStringFunc(f.Detail, label)}
		if first, _ := utf8.DecodeRuneInString(f.Detail); unicode.IsUpper(first) {
			s.Label = ""
		}
		shown = append(shown, s)
	}
	return shown
}

// showRefusal puts what was entered and the faults into the form of a page.
func (r *request) showRefusal(page []byte) ([]byte, error) {
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	var main, alert *html.Node
	var forms []*html.Node // that have sent the request, or have the same address
	var links []*html.Node // of the list, in the order of the faults
	for n := range root.Descendants() {
		switch {
		case n.DataAtom == atom.Main:
			main = n
		case alert == nil && attribute(n, "role") == "alert":
			alert = n
		case n.DataAtom == atom.Form && main != nil && r.isRefused(n):
			forms = append(forms, n)
		case n.DataAtom == atom.A && hasAttribute(n, "data-fault"):
			links = append(links, n)
		}
	}
	for _, form := range forms {
		openAround(form)
		if r.refill && len(visible(form)) > 0 { // a button alone is based on what the page shows now
			if differ := fill(form, r.http.PostForm, errors.Is(r.refused, errChanged)); len(differ) > 0 {
				alert.AppendChild(linksTo(differ))
			}
		}
	}
	if forms == nil {
		forms = []*html.Node{main} // which may have another form with the same fields
	}
	e, _ := asError(r.refused)
	for i, f := range showFaults(e.Faults) {
		if controls := controlsOf(forms, e.Faults[i].Where); len(controls) > 0 {
			showFault(controls, links[i], f, "fault"+strconv.Itoa(i))
		}
	}
	var b bytes.Buffer
	b.Grow(len(page) + len(page)/8)
	err = html.Render(&b, root)
	return b.Bytes(), err
}

// isRefused reports whether a form has sent the request that was refused.
func (r *request) isRefused(form *html.Node) bool {
	if strings.EqualFold(attribute(form, "method"), http.MethodPost) != (r.http.Method == http.MethodPost) {
		return false
	}
	sentTo := r.formPath
	if r.http.Method == http.MethodGet { // the fields are the query
		sentTo, _, _ = strings.Cut(sentTo, "?")
	}
	action := attribute(form, "action")
	return action == sentTo || action == "" && sentTo == r.http.URL.Path
}

// openAround opens what is closed around a node.
func openAround(n *html.Node) {
	for parent := range n.Ancestors() {
		if parent.DataAtom == atom.Details {
			setAttribute(parent, "open", "")
		}
	}
}

// controlsOf returns the visible controls for the member that a JSON Pointer names. A form names a member like the API,
// with colons between the parts, and may leave out what is around the member and what is in it.
func controlsOf(forms []*html.Node, where string) (controls []*html.Node) {
	var all []*html.Node
	for _, form := range forms {
		all = append(all, visible(form)...)
	}
	parts := slices.Collect(jsontext.Pointer("/" + strings.TrimPrefix(where, "/")).Tokens())
	for from := range parts {
		for to := len(parts); to > from; to-- {
			name := strings.Join(parts[from:to], ":")
			if other := differently[name]; other != "" {
				name = other
			}
			for _, n := range all {
				if attribute(n, "name") == name && (len(controls) == 0 || attribute(n, "type") == "checkbox") {
					controls = append(controls, n)
				}
			}
			if len(controls) > 0 {
				return controls
			}
		}
	}
	return nil
}

// visible returns the visible controls of a form, without its buttons.
func visible(form *html.Node) (controls []*html.Node) {
	for n := range form.Descendants() {
		if slices.Contains([]atom.Atom{atom.Input, atom.Textarea, atom.Select}, n.DataAtom) && attribute(n, "type") != "hidden" && !hasAttribute(n, "hidden") {
			controls = append(controls, n)
		}
	}
	return controls
}

// differently has the names of fields whose member has another name in the API.
var differently = map[string]string{"expiresInSeconds": "lastDay"}

// showFault shows a fault at controls, of which several are boxes of a group.
func showFault(controls []*html.Node, link *html.Node, f shownFault, id string) {
	first := controls[0]
	_, title := labelOf(controls)
	if text := cmp.Or(attribute(first, "aria-label"), titleOf(title)); text != "" && f.Label != "" {
		f.Label = text
	}
	if attribute(first, "id") == "" {
		setAttribute(first, "id", id)
	}
	for _, n := range controls {
		setAttribute(n, "aria-invalid", "true")
	}
	explain(controls, id+"-text", f.String())
	setAttribute(link, "href", "#"+attribute(first, "id"))
	if b := link.FirstChild; b != nil && b.DataAtom == atom.B && f.Label != "" {
		b.FirstChild.Data = f.Label
	}
}

// labelOf returns what is around controls with their title, which may be one of them, and the title; nil for none.
func labelOf(controls []*html.Node) (around, title *html.Node) {
	around = controls[0]
	for parent := range controls[0].Ancestors() {
		if parent.DataAtom == atom.Label && len(controls) == 1 {
			return parent, parent
		}
		if parent.DataAtom == atom.Fieldset && len(controls) > 1 {
			around, title = parent, parent.FirstChild
			for title != nil && title.DataAtom != atom.Legend {
				title = title.NextSibling
			}
			break
		}
	}
	for n := range controls[0].Parent.ChildNodes() {
		if title == nil && n.DataAtom == atom.Label {
			title = n
		}
	}
	return around, title
}

// explain puts a text below controls, and describes them by it.
func explain(controls []*html.Node, id, text string) {
	openAround(controls[0])
	for _, n := range controls {
		setAttribute(n, "aria-describedby", strings.TrimSpace(attribute(n, "aria-describedby")+" "+id))
	}
	p := element(atom.P, html.Attribute{Key: "class", Val: "fault"}, html.Attribute{Key: "id", Val: id})
	p.AppendChild(&html.Node{Type: html.TextNode, Data: text})
	if around, _ := labelOf(controls); around.DataAtom == atom.Fieldset {
		around.AppendChild(p)
	} else {
		around.Parent.InsertBefore(p, around.NextSibling)
	}
}

// titleOf returns the text of a label or legend without what explains it.
func titleOf(n *html.Node) string {
	if n == nil || n.FirstChild == nil || n.FirstChild.Type != html.TextNode {
		return ""
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(n.FirstChild.Data), "(optional)"))
}

func hasAttribute(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func setAttribute(n *html.Node, key, value string) {
	setPresent(n, key, false)
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

// setPresent sets or removes an attribute without a value.
func setPresent(n *html.Node, key string, present bool) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
	if present {
		n.Attr = append(n.Attr, html.Attribute{Key: key})
	}
}
