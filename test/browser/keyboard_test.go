package browser_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

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

// A list is scanned by its times: they have no more than tells them apart, and the zone is named once.
func TestTimesAreShort(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	b := newTab(t, newBrowser(t), o.base, views()[0])
	b.do(call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"}))
	b.signIn(o, atrium.RoleAdmin)
	b.open("/console/" + string(o.tenant) + "/accounts")
	if zone := b.seen("footer span"); zone != "Times in Europe/Berlin" {
		t.Errorf("the end of the page says %q", zone)
	}
	const ofDay = `(days => { const at = new Date(); at.setDate(at.getDate() - days); at.setHours(9, 5); return shortTime(at) })(%d)`
	for days, want := range map[int]string{0: "today 9:05 AM", 1: "yesterday 9:05 AM"} {
		if got := get[string](b, fmt.Sprintf(ofDay, days)); strings.ReplaceAll(got, "\u202f", " ") != want {
			t.Errorf("%d days ago is shown as %q", days, got)
		}
	}
	const ofYear = `(years => { const at = new Date(); at.setFullYear(at.getFullYear() - years, 5, 15); return shortTime(at).includes(at.getFullYear()) })(%d)`
	for years, want := range map[int]bool{0: false, 1: true} {
		if got := get[bool](b, fmt.Sprintf(ofYear, years)); got != want {
			t.Errorf("a time %d years ago has a year: %v", years, got)
		}
	}
	if title := get[string](b, `document.querySelector("tbody time").title`); !strings.Contains(title, "GMT+") || !strings.Contains(title, " UTC") {
		t.Errorf("the exact time is %q", title)
	}
}
