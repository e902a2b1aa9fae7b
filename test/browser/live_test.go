package browser_test

import (
	"path/filepath"
	"testing"
	"time"

	"atrium"
)

// New entries appear in the list of activity, politely, until a person pauses it or looks elsewhere.
func TestTheActivityListShowsNewEntries(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	b := newTab(t, newBrowser(t), o.base, views()[0])
	record := func(source string) {
		o.record(t, atrium.Submission{Source: source, Type: "live", Payload: []byte(`{}`), Claim: atrium.Claim{Domain: "live.example"}})
	}
	// interval is longer than that of the page.
	const interval = 7 * time.Second
	rows := func(selector string) int { return get[int](b, `document.querySelectorAll("`+selector+`").length`) }
	b.signIn(o, atrium.RoleViewer)
	b.open("/console/" + string(o.tenant) + "/activity?source=live&type=live")
	get[int](b, `(window.asked = 0, window.fetch = (f => (...a) => { window.asked++; return f(...a) })(window.fetch), 0)`)
	if rows("tbody tr") != 0 {
		t.Fatal("the filters do not apply")
	}
	record("live")
	record("other")
	b.until(`document.querySelectorAll("tr.new").length === 1`)
	if news := b.seen("#live-news"); news != "1 new entry" || get[string](b, `document.querySelector("#live-news").getAttribute("role")`) != "status" {
		t.Errorf("the page says %q", news)
	}
	get[int](b, `(document.querySelector("tbody a").focus(), 0)`)
	record("live")
	b.until(`document.querySelectorAll("tbody tr").length === 2`)
	if rows("tr.new") != 1 || !get[bool](b, `document.activeElement.matches("tbody tr:last-child a")`) {
		t.Errorf("%d rows are new, and the focus is on %s", rows("tr.new"), get[string](b, `document.activeElement.outerHTML`))
	}
	b.until(`document.getAnimations().length === 0`)
	b.checkAccess("the list with new entries")
	b.screenshot("console-live")

	get[int](b, `(Object.defineProperty(document, "hidden", {value: true, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), window.asked = 0, 0)`)
	record("live")
	time.Sleep(interval)
	if rows("tbody tr") != 2 || get[int](b, `window.asked`) != 0 {
		t.Error("a page that is not seen updates itself")
	}
	get[int](b, `(Object.defineProperty(document, "hidden", {value: false, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), 0)`)
	b.until(`document.querySelectorAll("tbody tr").length === 3`)

	b.click("#live-button")
	get[int](b, `(window.asked = 0)`)
	record("live")
	time.Sleep(interval)
	if rows("tbody tr") != 3 || get[int](b, `window.asked`) != 0 || b.seen("#live-button") != "Resume updates" {
		t.Error("a paused page updates itself")
	}
	b.click("#live-button")
	b.until(`document.querySelectorAll("tbody tr").length === 4`)
}

func TestTheActivityListNeedsNoScript(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	b := newTab(t, newBrowser(t), o.base, views()[0])
	b.withoutScripts()
	b.signIn(o, atrium.RoleViewer)
	b.open("/console/" + string(o.tenant) + "/activity")
	if !get[bool](b, `document.querySelector("#live-button").hidden && document.querySelectorAll("tbody tr").length > 0`) {
		t.Error("without scripts, the page has a button that does nothing, or no rows")
	}
}
