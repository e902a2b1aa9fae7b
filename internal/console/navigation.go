package console

import (
	"html/template"

	"atrium"
)

// A section is an entry of the navigation.
type section struct {
	name            constant // and the last segment of the path
	title, shortcut constant
	apart           bool         // it begins a group: connections, or administration
	needs           atrium.Scope // of its page; "" for none
}

// sections are the entries of the navigation, the home of the tenant first.
var sections = []section{
	{name: "overview", title: "Overview", shortcut: "o"},
	{name: "accounts", title: "Accounts", shortcut: "a"},
	{name: "activity", title: "Activity", shortcut: "t"},
	{name: "prospects", title: "Prospects", shortcut: "r"},
	{name: "pages", title: "Pages", shortcut: "p"},
	{name: "receivers", title: "Receivers", shortcut: "e", apart: true, needs: atrium.ScopeManageReceivers},
	{name: "webhooks", title: "Webhooks", shortcut: "w", needs: atrium.ScopeManageEvents},
	{name: "keys", title: "Keys", shortcut: "k"},
	{name: "people", title: "Users", shortcut: "u", apart: true},
	{name: "privacy", title: "Privacy", shortcut: "y"},
	{name: "audit", title: "Audit log", shortcut: "l"},
	{name: "refused", title: "Refused requests", shortcut: "f"},
	{name: "transfer", title: "Import and export", shortcut: "i"},
}

// HasSections reports whether the page has the navigation of a tenant.
func (f frame) HasSections() bool { return f.request != nil && f.Tenant.TenantID != "" }

// visibleSections returns the sections that the user may open. If the first of a group is hidden, the next one begins the
// group.
func (f frame) visibleSections() []section {
	visible := make([]section, 0, len(sections))
	apart := false
	for _, s := range sections {
		apart = apart || s.apart
		if s.needs == "" || f.request.may(s.needs) {
			s.apart, apart = apart, false
			visible = append(visible, s)
		}
	}
	return visible
}

// SectionTitle returns the title of the current section, or what the closed navigation is called on other pages.
func (f frame) SectionTitle() string {
	for _, s := range sections {
		if string(s.name) == f.Section {
			return string(s.title)
		}
	}
	return "Menu"
}

// Sections returns the navigation of a tenant.
func (f frame) Sections() template.HTML {
	var m markup
	home := f.Path()
	for _, s := range f.visibleSections() {
		m.add("\n<li")
		if s.apart {
			m.add(` class="apart"`)
		}
		m.text("><a href=\"", home)
		if s.name != sections[0].name {
			m.add("/" + s.name)
		}
		m.add("\" data-shortcut=\"" + s.shortcut + "\"")
		if string(s.name) == f.Section {
			m.add(` aria-current="page"`)
		}
		m.add(">" + s.title + "</a></li>")
	}
	return m.HTML()
}

// Shortcuts returns the shortcuts to the sections.
func (f frame) Shortcuts() template.HTML {
	var m markup
	for _, s := range f.visibleSections() {
		m.add("<div><dt><kbd>g</kbd> <kbd>" + s.shortcut + "</kbd></dt><dd>" + s.title + "</dd></div>")
	}
	return m.HTML()
}
