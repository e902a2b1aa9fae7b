package test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestARunningServiceDeletesWhatIsTooMuchForARequestThatErases(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		size := func() int { return len(s.export(t, s.north)) }
		before := size()
		const account = "account_00000000000000000000erased"
		var lines strings.Builder
		fmt.Fprintf(&lines, `{"kind":"account","accountId":%q,"domain":"erased.example"}`, account)
		for range 8000 { // the request deletes 2,000; meanwhile the service deletes others
			fmt.Fprintf(&lines, "\n"+`{"kind":"accountLog","accountId":%q,"source":"crm","payload":{}}`, account)
		}
		s.load(t, s.north, lines.String())

		erase := request{method: "DELETE", target: "/manage/v0/accounts/" + account, header: []string{"x-api-key: " + s.north.manage}}
		a := s.send(t, erase)
		if a.status != 202 || string(a.body) != `{"entriesDeleted":false}` {
			t.Fatal(a)
		}
		for _, fault := range checkExchange(t, erase, a) {
			t.Error(fault)
		}
		if again := s.send(t, erase); again.status != 404 {
			t.Error(again)
		}
		for deadline := time.Now().Add(20 * time.Second); size() > before; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d records are left, and there were %d before", size(), before)
			}
		}
	})
}
