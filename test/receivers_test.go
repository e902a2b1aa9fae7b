package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
)

// A delivery in quarantine becomes its entries once: if several requests map it at the same time, and if the sender repeats it.
func TestDeliveriesInQuarantineBecomeEntriesOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		receiver := s.made(t, s.north, "/manage/v0/receivers", `{"name":"Again","provider":"github","source":"again","mapping":{"type":"'push'","domain":"'again.example'"}}`, "receiverId")
		one := "/manage/v0/receivers/" + receiver
		const deliveries = 30
		store := func() {
			for i := range deliveries {
				if err := s.store.Quarantine(t.Context(), atrium.QuarantinedDelivery{
					ID: atrium.NewID[atrium.QuarantinedID](), TenantID: s.north.id, ReceiverID: atrium.ReceiverID(receiver), ReceivedAt: atrium.At(time.Now()),
					Body: fmt.Appendf(nil, `[{"n":%d},{"n":%d,"second":true}]`, i, i), Fault: "none", RequestID: atrium.NewID[atrium.RequestID](),
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		entries := func() int {
			a := s.ask(t, newClient(t), http.MethodGet, "/manage/v0/account_logs?source=again&limit=100", "")
			return strings.Count(string(a.body), `"accountLogId"`)
		}
		type result struct{ Mapped, AccountLogs, Replayed, Left int }
		mapAll := func() (sum result) { // a request ends after some seconds: the next one continues
			for deadline := time.Now().Add(time.Minute); ; {
				a := s.ask(t, newClient(t), http.MethodPost, one+"/map_again", `{"limit":200}`)
				var got result
				if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusOK {
					t.Errorf("%s, %v", a, err)
					return sum
				}
				sum = result{sum.Mapped + got.Mapped, sum.AccountLogs + got.AccountLogs, sum.Replayed + got.Replayed, got.Left}
				if got.Left == 0 || time.Now().After(deadline) {
					return sum
				}
			}
		}
		store()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { mapAll() })
		}
		all.Wait()
		if n := entries(); n != 2*deliveries {
			t.Errorf("there are %d entries, want %d", n, 2*deliveries)
		}
		store() // the sender repeats them
		if got, want := mapAll(), (result{deliveries, 2 * deliveries, 2 * deliveries, 0}); got != want {
			t.Errorf("they became %+v, want %+v", got, want)
		}
		if n := entries(); n != 2*deliveries {
			t.Errorf("there are %d entries, want %d", n, 2*deliveries)
		}
	})
}
