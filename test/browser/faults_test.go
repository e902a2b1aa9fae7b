package browser_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"atrium"
)

// What is wrong with a form is at its field, and in a list that has the focus and leads there, with and without scripts.
func TestFaultsOfFormsAreAccessible(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), withWebhooks(t))
	browser := newBrowser(t)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			if v.scheme == "dark" {
				b.withoutScripts()
			}
			b.signIn(o, atrium.RoleAdmin)
			of := "/console/" + string(o.tenant)
			for _, f := range []struct{ name, path, action, values, field string }{
				{"account", "/accounts", "/accounts", `domain: "Acme Inc."`, "domain"},
				{"rename", "/accounts/account_01kzdemo0000000000000000a1", "a1", `domain: "acme", name: "x".repeat(300)`, "domain"},
				{"key", "/keys", "/keys", `name: "A key", lastDay: "2020-01-01"`, "lastDay"},
				{"schedule", "/pages/page_01kzdemo0000000000000000p3", "/schedule", `publishAt: "2999-01-02T00:00", unpublishAt: "2999-01-01T00:00"`, "unpublishAt"},
				{"edit", "/pages/page_01kzdemo0000000000000000p3/edit", "/edit", `name: "", footerLinks: "[{"`, "footerLinks"},
				{"webhook", "/webhooks", "/webhooks", `url: "http://192.0.2.1/", filter: "data.", description: "x".repeat(300)`, "url"},
				{"retention", "/privacy/retention", "/retention", `"source:0": "crm", "days:0": "0", "source:1": "web", "days:1": "0"`, "days:0"},
				{"brand", "/brands", "/brands", `name: "x".repeat(300)`, "name"},
			} {
				b.open(of + f.path)
				b.unfold()
				get[int](b, fmt.Sprintf(`(() => {
					const form = document.querySelector('form[method=post][action$=%q]')
					form.noValidate = true
					for (const [name, value] of Object.entries({%s})) {
						for (const field of form.querySelectorAll("[name=" + CSS.escape(name) + "], :has(+ [type=hidden][name=" + CSS.escape(name) + "])")) field.value = value
					}
					form.setAttribute("data-tested", "")
					return 0
				})()`, f.action, f.values))
				b.ignoring("400")
				b.submit(`[data-tested] button:not([type=button])`)
				b.screenshot("console-fault-" + f.name)
				b.until(`document.activeElement.matches(".problem[role=alert]")`)
				b.checkLook("fault of " + f.name)
				if !b.scriptsOff { // axe-core is one
					b.checkAccess("fault of " + f.name)
				}
				b.click(`.problem a[href]`)
				b.until(fmt.Sprintf(`document.activeElement.matches("[aria-invalid]") && (document.activeElement.name || document.activeElement.nextElementSibling.name) === %q`, f.field))
			}
		})
	}
}
