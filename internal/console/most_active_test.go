package console

import (
	"net/http"
	"strings"
	"testing"
)

func TestAPartialListOfTheMostActiveAccountsSaysSinceWhen(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	c.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"since":"2026-03-02T08:00:00.000Z","countedSince":"2026-03-05T14:02:11.000Z","entries":99180,
			"items":[{"accountId":"account_01kghg01ftes8r65rzyjka792g","domain":"a.example","name":null,"entries":17204}]}`))
	})
	path := prefix + "/" + string(tenant) + "/accounts/active"
	page, _ := download(t, c, token, path+"?source=crm")
	for _, text := range []string{
		`<b>Only entries since <time datetime="2026-03-05T14:02:11Z"`, "There are more than 100,000 in the last 7 days.",
		`/activity?accountId=account_01kghg01ftes8r65rzyjka792g&amp;since=2026-03-05T14%3A02%3A11.000Z&amp;source=crm">17,204</a>`,
	} {
		if !strings.Contains(page.Body.String(), text) {
			t.Errorf("the page lacks %q: %s", text, page.Body)
		}
	}
	file, complete := download(t, c, token, path+".csv")
	const note = "There are more than 100,000 entries since 2026-03-02T08:00:00.000Z. Only those since 2026-03-05T14:02:11.000Z are counted"
	if !complete || !strings.HasSuffix(file.Body.String(), "a.example,,17204\r\n\""+note+"\",,,\r\n") {
		t.Errorf("complete %v: %q", complete, file.Body)
	}
}
