package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"atrium/internal/store/engine"
)

func TestLargeErasureCompletesInTheBackground(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const account = "account_00000000000000000000erased"
		left := func() int { return s.count(t, s.north, `"kind":"accountLog"`, account) }
		var lines strings.Builder
		fmt.Fprintf(&lines, `{"kind":"account","accountId":%q,"domain":"erased.example"}`, account)
		for range 8000 { // the request deletes 2,000, the background job the others
			fmt.Fprintf(&lines, "\n"+`{"kind":"accountLog","accountId":%q,"source":"crm","payload":{}}`, account)
		}
		s.load(t, s.north, lines.String())

		erase := request{method: "DELETE", target: "/manage/v0/accounts/" + account, header: []string{"x-api-key: " + s.north.manage}}
		a := s.send(t, erase)
		inBackground := a.status == 202 && string(a.body) == `{"entriesDeleted":false}`
		if done := a.status == 204 && s.db.Name() != "sqlite"; !inBackground && !done { // the job works while the request does
			t.Fatal(a)
		}
		for _, fault := range checkExchange(t, erase, a) {
			t.Error(fault)
		}
		if again := s.send(t, erase); again.status != 404 {
			t.Error(again)
		}
		if n := left(); n > 0 {
			t.Errorf("%d entries can still be exported", n)
		}
		erased := func() int { return s.count(t, s.north, `"kind":"tombstone"`, account) }
		for deadline := time.Now().Add(20 * time.Second); erased() < 8000; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of 8000 entries are erased", erased())
			}
		}
	})
}

func TestADeletedEntryIsExplainedWithoutItsContent(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		entry := s.made(t, s.north, "/v0/account_logs", `{"source":"crm","type":"call","idempotencyKey":"call-1","domain":"canary.example","payload":{"email":"canary@example.com"}}`, "accountLogId")
		s.waitForErasures(t, s.north, s.made(t, s.north, "/manage/v0/erasures", `{"rule":{"text":"canary@example.com"}}`, "erasureId"))
		explain := get("/manage/v0/account_logs/"+entry+"/explanation", "x-api-key: "+s.north.manage)
		a := s.send(t, explain)
		body := string(a.body)
		if a.status != 200 || !strings.Contains(body, `"deleted":true`) || !strings.Contains(body, `the source \"crm\" and the type \"call\"`) ||
			!strings.Contains(body, "If the request is sent again, no entry is stored") || strings.Contains(body, "canary") || strings.Contains(body, "retention rule deleted") {
			t.Error(a)
		}
		for _, fault := range checkExchange(t, explain, a) {
			t.Error(fault)
		}
		if a := s.send(t, get("/manage/v0/account_logs/"+entry+"/explanation", "x-api-key: "+s.south.manage)); a.status != 404 {
			t.Errorf("another tenant: %s", a)
		}
	})
}

func TestErasureCompletesAfterAConcurrentRead(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		s.load(t, s.north, `{"kind":"account","accountId":"account_00000000000000000000erased","domain":"erased.example"}
{"kind":"prospect","prospectId":"prospect_00000000000000000000erased","name":"Erased"}`)
		pending := func() (n int) {
			t.Helper()
			if err := s.db.Query(t.Context(), "SELECT account_id FROM erasures WHERE tenant_id >= $1", engine.Args{[]byte{}}, func(engine.Row) error {
				n++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		embedded := s.db.Name() == "sqlite"
		if err := s.db.Read(t.Context(), func(tx engine.Tx) error {
			if err := tx.Query("SELECT MAX(number) FROM schema_migrations", nil, func(engine.Row) error { return nil }); err != nil {
				return err
			}
			for target, body := range map[string]string{
				"/manage/v0/accounts/account_00000000000000000000erased":   `{"entriesDeleted":false}`,
				"/manage/v0/prospects/prospect_00000000000000000000erased": `{"purged":false}`,
			} {
				status := 202
				if !embedded {
					status, body = 204, ""
				}
				erase := request{method: "DELETE", target: target, header: []string{"x-api-key: " + s.north.manage}}
				a := s.send(t, erase)
				if a.status != status || string(a.body) != body {
					t.Error(a)
				}
				for _, fault := range checkExchange(t, erase, a) {
					t.Error(fault)
				}
			}
			if n := pending(); embedded && n != 2 || !embedded && n != 0 {
				t.Errorf("%d erasures are pending during the read", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); pending() > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d erasures are pending after the read", pending())
			}
		}
	})
}
