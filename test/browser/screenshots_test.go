package browser_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/transfer"
)

// TestScreenshots shows the pages of the console that README.md, docs/console.md and docs/receive-webhooks.md have as
// pictures, with the data of a fictional tenant. make screenshots saves them.
func TestScreenshots(t *testing.T) {
	const public = "https://atrium.example"
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), withWebhooks(t), func(c *app.Config) { c.Settings.PublicURL = public })
	made, _, err := o.store.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Example Corp")
	if err != nil {
		t.Fatal(err)
	}
	o.tenant = made.ID
	if _, err := transfer.Import(t.Context(), o.store, o.tenant, strings.NewReader(exhibit(time.Now().UTC())), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	o.countEntries(t)
	browser := newBrowser(t)
	for _, v := range []view{{name: "light", width: 1280, scheme: "light", height: 800}, {name: "dark", width: 1280, scheme: "dark", height: 800}} {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			b.open(o.loginLink(t, atrium.RoleAdmin, "Robin"))
			b.submit(`form[action="/console/login"] button`)
			of := "/console/" + string(o.tenant)
			for _, page := range []struct{ name, path string }{
				{"overview", "?range=90d"},
				{"accounts", "/accounts"},
				{"account", "/accounts/account_" + fmt.Sprintf("%026d", 1)},
				{"activity", "/activity"},
				{"entry", "/activity/prospectlog_" + fmt.Sprintf("%026d", 153)},
				{"merge", "/accounts/account_" + fmt.Sprintf("%026d", 3) + "/merge?into=blueharbor.example"},
				{"pages", "/pages"},
				{"compare", "/pages/page_" + fmt.Sprintf("%026d", 1) + "/audiences/audience_" + fmt.Sprintf("%026d", 1) + "/compare?from=1&to=2"},
				{"audit", "/audit"},
			} {
				b.open(of + page.path)
				b.until(`document.readyState === "complete"`)
				b.screenshot("console-" + page.name)
			}
			b.connectGitHub(of, "kestrel.example", func(path string) string { return o.base + strings.TrimPrefix(path, public) })
		})
	}
}

// connectGitHub creates a receiver, sends it a delivery of GitHub, and shows the account with the entry. reach returns the
// address at which the test reaches a public one.
func (b *tab) connectGitHub(of, domain string, reach func(address string) string) {
	b.open(of + "/receivers")
	b.fill(`input[name="name"]`, "Repositories")
	b.unfold()
	b.fill(`textarea[name="mapping:domain"]`, fmt.Sprintf("%q", domain))
	b.submit(`form.stack button.primary`)
	b.screenshot("console-receiver")
	secret := get[string](b, `document.querySelector(".done code").textContent`)
	address := get[string](b, `document.querySelector(".facts code").textContent`)
	const body = `{"action":"opened","issue":{"number":7,"title":"The price list is out of date"},"repository":{"full_name":"kestrel/site"},"organization":{"login":"kestrel"}}`
	if status := deliver(b.t, reach(address), secret, "5f6d1a3e-"+b.view.name, body); status != http.StatusOK {
		b.t.Errorf("status %d", status)
	}
	b.open(of + "/activity?source=github")
	b.submit(`main ol a, main table a`)
	b.screenshot("console-received")
}

// countEntries runs the job that counts entries, as the server does within a minute.
func (o *office) countEntries(t *testing.T) {
	t.Helper()
	if _, err := o.store.SweepCounts(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = o.store.UpdateCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// exhibit returns the lines of an import: accounts with a month of activity until now, and pages.
func exhibit(now time.Time) string {
	random := rand.New(rand.NewPCG(1, 1))
	var out strings.Builder
	at := func(age time.Duration) string { return now.Add(-age).Format("2006-01-02T15:04:05.000Z") }
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	const day = 24 * time.Hour
	accounts := []struct{ name, domain string }{
		{"Northwind", "northwind.example"}, {"Blue Harbor Logistics", "blueharbor.example"}, {"Blue Harbour", "blue-harbour.example"},
		{"Alder Robotics", "alder.example"}, {"Kestrel Energy", "kestrel.example"}, {"Linden Press", "linden.example"}, {"Orchard Health", "orchard.example"},
	}
	for i, a := range accounts {
		line(`{"kind":"account","accountId":"account_%026d","domain":%q,"name":%q,"createdAt":%q,"updatedAt":%[4]q}`, i+1, a.domain, a.name, at(time.Duration(90-7*i)*day))
	}
	for i, name := range []string{"Dana Whitfield", "Ilse Brandt", "Marco Telles"} {
		line(`{"kind":"prospect","prospectId":"prospect_%026d","name":%q,"email":"%s@northwind.example","accountIds":["account_%026d"],"createdAt":%q,"updatedAt":%[5]q}`,
			i+1, name, strings.ToLower(strings.Fields(name)[0]), 1, at(time.Duration(60-i)*day))
	}
	line(`{"kind":"brand","brandId":"brand_%026d","name":"Example Corp","createdAt":%q,"updatedAt":%[2]q}`, 1, at(90*day))
	for i, p := range []struct{ name, title, status string }{
		{"Spring launch", "A faster way to ship", "published"}, {"Partner programme", "Grow with us", "published"}, {"Summer webinar", "Meet the team", "draft"}, {"Winter offer", "Ends soon", "archived"},
	} {
		line(`{"kind":"page","pageId":"page_%026d","brandId":"brand_%026d","name":%q,"title":%q,"pageContext":"","status":%q,"actions":[],"scripts":[],"footerLinks":[],"createdAt":%q,"updatedAt":%[6]q}`,
			i+1, 1, p.name, p.title, p.status, at(time.Duration(40-5*i)*day))
	}
	line(`{"kind":"audience","audienceId":"audience_%026d","pageId":"page_%026d","name":"Logistics companies","archived":false,"createdAt":%q,"updatedAt":%[3]q}`, 1, 1, at(30*day))
	for i, content := range []string{
		`{"headline":"Ship in a day","points":["Pick up at your door","No contract"],"button":{"title":"Book a call","url":"https://example.com/call"}}`,
		`{"headline":"Ship before lunch","points":["Pick up at your door","Tracked to the minute","No contract"],"button":{"title":"Book a call","url":"https://example.com/call"}}`,
	} {
		line(`{"kind":"audienceVersion","id":"version_%026d","pageId":"page_%026d","audienceId":"audience_%026d","versionNumber":%d,"archived":false,"published":%v,"content":%s,"createdAt":%q}`,
			i+1, 1, 1, i+1, i == 1, content, at(time.Duration(20-i)*day))
	}
	kinds := []struct{ source, kind, payload string }{
		{"website", "page.viewed", `{"path":"/pricing","seconds":%d}`}, {"product", "seat.added", `{"plan":"team","seats":%d}`},
		{"crm", "deal.updated", `{"deal":"D-1042","stage":"proposal","amount":%d.00}`}, {"ads", "campaign.clicked", `{"campaign":"spring","clicks":%d}`},
	}
	const entries = 160
	for i := range entries {
		k := kinds[random.IntN(len(kinds))]
		account := 1 + min(random.IntN(len(accounts)), random.IntN(len(accounts)))
		age := time.Duration(i) * 28 * day / entries
		line(`{"kind":"accountLog","accountLogId":"prospectlog_%026d","accountId":"account_%026d","source":%q,"type":%q,"payload":%s,"claimed":{"domain":%q},"idempotencyKey":"%s-%d","createdAt":%q}`,
			entries-i, account, k.source, k.kind, fmt.Sprintf(k.payload, 1+random.IntN(90)), accounts[account-1].domain, k.source, 7000-i, at(age))
	}
	return out.String()
}
