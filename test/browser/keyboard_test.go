package browser_test

import (
	"path/filepath"
	"testing"

	"atrium"
)

// The shortcuts are shown without taking the page away, and the focus returns.
func TestShortcutsAreShown(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	browser := newBrowser(t)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			b.signIn(o, atrium.RoleAdmin)
			b.open("/console/" + string(o.tenant) + "/accounts")
			press := func(key string) {
				get[int](b, `(document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "`+key+`", bubbles: true})), 0)`)
			}
			open := func() bool { return get[bool](b, `document.querySelector("#shortcuts").open`) }
			get[int](b, `(document.querySelector("tbody a").focus(), 0)`)
			press("?")
			if !open() || get[bool](b, `document.querySelector("#shortcuts").matches(":modal")`) {
				t.Fatal("the shortcuts are not shown, or take the page away")
			}
			if rows := get[int](b, `document.querySelectorAll("#shortcuts dt").length - document.querySelectorAll("nav a").length`); rows != 3 {
				t.Errorf("the dialog has %d rows more than the page has sections", rows)
			}
			b.checkAccess("the shortcuts")
			b.checkLook("the shortcuts")
			b.screenshot("console-shortcuts")
			press("Escape")
			if open() || !get[bool](b, `document.activeElement.matches("tbody a")`) {
				t.Error("the shortcuts stay, or the focus is lost")
			}
			press("/")
			if !get[bool](b, `document.activeElement.matches("header input[name=q]")`) {
				t.Error("a slash does not lead to the search")
			}
			press("?")
			if open() {
				t.Error("a question mark in a field shows the shortcuts")
			}
			b.click("#shortcuts-button")
			if !open() {
				t.Error("the button shows nothing")
			}
		})
	}
}

// A second click before the response has arrived does not send the form again.
func TestADoubleClickSendsAFormOnce(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	b := newTab(t, newBrowser(t), o.base, views()[0])
	b.signIn(o, atrium.RoleAdmin)
	b.open("/console/" + string(o.tenant) + "/brands")
	const twice = `(() => {
		const form = document.querySelector('main form[action$="/brands"]'), prevented = []
		form.addEventListener('submit', event => { prevented.push(event.defaultPrevented); event.preventDefault() })
		form.querySelector('[name=name]').value = 'New'
		form.requestSubmit()
		form.requestSubmit()
		return prevented.join()
	})()`
	if got := get[string](b, twice); got != "false,true" {
		t.Errorf("prevented: %s", got)
	}
}
