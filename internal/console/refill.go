package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"atrium"
)

// fill puts what the user has entered into the controls of a form. Controls that were not sent keep their values, except
// for checkboxes, which browsers send only if they are checked.
//
// If the data has changed since the page was made, hidden fields keep their values as well: what the user sends next is based on what is stored
// now. A form with the attribute data-stored shows what is stored, and may have the value that the user has seen in a hidden
// field named seen:NAME. A control whose value the user has changed keeps that value, with the stored one below it; fill returns
// these controls.
func fill(form *html.Node, sent url.Values, changed bool) (differ []*html.Node) {
	for n := range form.Descendants() {
		if !slices.Contains([]atom.Atom{atom.Input, atom.Textarea, atom.Select}, n.DataAtom) || changed && attribute(n, "type") == "hidden" {
			continue
		}
		name := attribute(n, "name")
		if changed && sent.Has("seen:"+name) && sent.Get("seen:"+name) == sent.Get(name) {
			continue
		}
		stored := shownIn(n)
		fillControl(n, sent)
		if changed && hasAttribute(form, "data-stored") && !hasAttribute(n, "data-unstored") && shownIn(n) != stored {
			explain([]*html.Node{n}, "stored-"+name, "Stored now: "+cmp.Or(atrium.Shorten(maxSummary, stored), "nothing")+".")
			differ = append(differ, n)
		}
	}
	return differ
}

// linksTo returns a list that leads to controls.
func linksTo(controls []*html.Node) *html.Node {
	list := element(atom.Ul)
	for i, n := range controls {
		if attribute(n, "id") == "" {
			setAttribute(n, "id", "differs"+strconv.Itoa(i))
		}
		_, title := labelOf(controls[i : i+1])
		link := element(atom.A, html.Attribute{Key: "href", Val: "#" + attribute(n, "id")})
		link.AppendChild(&html.Node{Type: html.TextNode, Data: cmp.Or(attribute(n, "aria-label"), titleOf(title), attribute(n, "name"))})
		item := element(atom.Li)
		item.AppendChild(link)
		list.AppendChild(item)
	}
	return list
}

func element(of atom.Atom, attributes ...html.Attribute) *html.Node {
	return &html.Node{Type: html.ElementNode, DataAtom: of, Data: of.String(), Attr: attributes}
}

// fillControl puts what the user has entered into a control.
func fillControl(n *html.Node, sent url.Values) {
	name := attribute(n, "name")
	value, has := lines(sent.Get(name)), sent.Has(name)
	switch {
	case attribute(n, "type") == "file":
	case attribute(n, "type") == "checkbox":
		setPresent(n, "checked", slices.Contains(sent[name], attribute(n, "value")))
	case !has:
	case n.DataAtom == atom.Input:
		setAttribute(n, "value", value)
	case n.DataAtom == atom.Textarea:
		for n.FirstChild != nil {
			n.RemoveChild(n.FirstChild)
		}
		n.AppendChild(&html.Node{Type: html.TextNode, Data: value})
	case n.DataAtom == atom.Select:
		for option := range n.Descendants() {
			setPresent(option, "selected", option.DataAtom == atom.Option && attribute(option, "value") == value)
		}
	}
}

// shownIn returns what a control shows.
func shownIn(n *html.Node) (shown string) {
	switch {
	case attribute(n, "type") == "checkbox":
		if hasAttribute(n, "checked") {
			return "checked"
		}
		return "not checked"
	case n.DataAtom == atom.Input:
		return attribute(n, "value")
	case n.DataAtom == atom.Textarea:
		if n.FirstChild == nil {
			return ""
		}
		return n.FirstChild.Data // the parser makes one text of its content
	}
	for option := range n.Descendants() {
		if option.DataAtom == atom.Option && (shown == "" || hasAttribute(option, "selected")) {
			shown = titleOf(option)
		}
	}
	return shown
}
