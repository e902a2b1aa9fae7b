package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"atrium"
)

// askAttention returns what needs the attention of a user with a role, with an API that returns these webhooks and receivers. A list
// whose items begin with + has more items.
func askAttention(t *testing.T, role atrium.Role, webhooks, receivers string) []concern {
	t.Helper()
	c, _, tenant := newLimited(t)
	c.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/webhooks"):
			writeList(w, webhooks)
		case strings.HasSuffix(r.URL.Path, "/receivers"):
			writeList(w, receivers)
		default:
			t.Errorf("%s is called", r.URL)
		}
	})
	r := &request{console: c, tenant: tenant, user: atrium.User{TenantID: tenant, Role: role}, w: httptest.NewRecorder(), http: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)}
	all, err := r.concerns(&overview{}, true)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func writeList(w io.Writer, items string) {
	items, more := strings.CutPrefix(items, "+")
	_, _ = fmt.Fprintf(w, `{"items":[%s],"hasMore":%t}`, items, more)
}

func TestWebhooksThatSendNothingNeedAttention(t *testing.T) {
	const fails = `{"webhookId":"webhook_1","description":"One","enabled":true,"progress":{"failingSince":"2026-03-02T09:00:00Z"}}`
	const works = `{"webhookId":"webhook_2","description":"Two","enabled":true,"progress":{}}`
	const gone = `{"webhookId":"webhook_3","description":"Three","enabled":false,"disabledReason":"gone","progress":{}}`
	const off = `{"webhookId":"webhook_4","description":"Four","enabled":false,"disabledReason":"operator","progress":{}}`
	all := askAttention(t, atrium.RoleAdmin, strings.Join([]string{fails, works, gone, off}, ","), "")
	for i, want := range []concern{
		{Text: "The webhook One has failed since", At: "2026-03-02T09:00:00Z", Action: "See the attempts", Bad: true},
		{Text: "The webhook Three is disabled: the endpoint has responded with 410 Gone", Action: "Enable it", Bad: true},
		{Text: "The webhook Four is disabled", Action: "Enable it"},
	} {
		if len(all) != 3 || all[i].Text != want.Text || all[i].At != want.At || all[i].Action != want.Action || all[i].Bad != want.Bad {
			t.Fatalf("%+v, want %+v", all, want)
		}
	}
	if all := askAttention(t, atrium.RoleAdmin, strings.Join([]string{fails, fails, gone, off}, ","), ""); len(all) != 1 || all[0].Text != "4 webhooks fail or are disabled" {
		t.Errorf("of many: %+v", all)
	}
	if all := askAttention(t, atrium.RoleAdmin, "+"+strings.Join([]string{off, off, off, off}, ","), ""); len(all) != 1 || all[0].Text != "4 or more webhooks fail or are disabled" || all[0].Bad {
		t.Errorf("of many that an operator has disabled: %+v", all)
	}
	if all := askAttention(t, atrium.RoleViewer, fails, ""); len(all) != 0 {
		t.Errorf("a viewer, who may not see webhooks: %+v", all)
	}
}

func TestWhatFailsIsFirst(t *testing.T) {
	const off = `{"webhookId":"webhook_1","description":"One","enabled":false,"disabledReason":"operator","progress":{}}`
	const one = `{"receiverId":"receiver_1","name":"GitHub","quarantined":1}`
	all := askAttention(t, atrium.RoleAdmin, off, one)
	if len(all) != 2 || !all[0].Bad || all[1].Bad || !strings.Contains(all[0].Text, "GitHub") {
		t.Errorf("%+v", all)
	}
}

func TestDeliveriesInQuarantineNeedAttention(t *testing.T) {
	const one = `{"receiverId":"receiver_1","name":"GitHub","quarantined":1}`
	const none = `{"receiverId":"receiver_2","name":"Stripe","quarantined":0}`
	all := askAttention(t, atrium.RoleAdmin, "", one+","+none)
	if len(all) != 1 || all[0].Text != "1 delivery of the receiver GitHub is in quarantine" || !strings.HasSuffix(all[0].Path, "/receivers/receiver_1") || !all[0].Bad {
		t.Errorf("%+v", all)
	}
	if all := askAttention(t, atrium.RoleAdmin, "", "+"+strings.Repeat(one+",", 3)+one); len(all) != 1 || all[0].Text != "4 or more deliveries are in quarantine" {
		t.Errorf("of many: %+v", all)
	}
}
