package browser_test

import (
	"path/filepath"
	"testing"

	"atrium"
)

// Operators see the server, its jobs and settings in every scheme and width, without scripts too.
func TestOperatorsSeeTheServer(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	browser := newBrowser(t)
	for _, v := range views() {
		for _, off := range []bool{false, true} {
			name := v.name
			if off {
				name += " without scripts"
			}
			t.Run(name, func(t *testing.T) {
				b := newTab(t, browser, o.base, v)
				b.signIn(o, atrium.RoleOperator)
				if off {
					b.withoutScripts()
				}
				b.submit(`header a[href="/console/server"]`)
				b.heading("Server")
				b.screenshot("console-server")
				b.unfold()
				b.screenshot("console-server-unfolded")
				b.checkLook("server")
				if !off { // the check is a script
					b.checkAccess("server")
				}
				b.submit(`main a[href="/console/server/checks"]`)
				b.heading("Server checks")
				b.checkLook("checks")
				if !off {
					b.checkAccess("checks")
				}
			})
		}
	}
}
