package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"atrium/internal/jsonshape"
	"atrium/test/nodes"
	"atrium/test/receiver"
)

const floods = 300 // requests

// explosive is a mapping whose expressions cost as much as they may for each element of an array.
const explosive = `{
	"type": "body.map(k, body.map(l, k + l).size()).size() > 0 ? 'many' : 'none'",
	"name": "headers.map(k, headers.map(l, headers.map(m, k + l + m).size()).size()).size() > 0 ? 'a' : 'b'",
	"filter": "string(body).matches('(a|aa)*(b|bb)*(c|cc)*$') || true",
	"domain": "'noisy.example'"
}`

// newReceiver creates a receiver that verifies a token, and returns its path and the token.
func (s *server) newReceiver(t *testing.T, client *http.Client, name, mapping string) (path, token string) {
	t.Helper()
	var made struct{ ReceiverID, Secret string }
	status, body := s.manageRequest(t, client, "/manage/v0/receivers", fmt.Sprintf(`{"name":%q,"provider":"token","source":"noisy","verification":{"header":"x-token"},"mapping":%s}`, name, mapping))
	if err := json.Unmarshal(body, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	return "/in/" + made.ReceiverID, made.Secret
}

func (s *server) manageRequest(t *testing.T, client *http.Client, path, body string) (status int, response []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", s.manage)
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	if response, err = io.ReadAll(a.Body); err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, response
}

func TestExpensiveDeliveriesDoNotLockOutOtherTenants(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		client := nodes.Client(t)
		plain, token := s.newReceiver(t, client, "plain", `{"domain":"'noisy.example'"}`)
		costly, costlyToken := s.newReceiver(t, client, "costly", explosive)
		elements := append(append([]byte("["), bytes.Repeat([]byte(`{"a":1},`), 999)...), "{}]"...)
		attacks := []attack{
			{"deep JSON", http.MethodPost, plain, jsonshape.Deep(expensive), "application/json", token},
			{"many objects", http.MethodPost, plain, jsonshape.Objects(expensive), "application/json", token},
			{"no JSON", http.MethodPost, plain, bytes.Repeat([]byte("["), expensive), "application/json", token},
			{"an array", http.MethodPost, plain, elements, "application/json", token},
			{"a form", http.MethodPost, plain, bytes.Repeat([]byte("a=%41&"), expensive/6), "application/x-www-form-urlencoded", token},
			{"not verified", http.MethodPost, plain, jsonshape.Deep(expensive), "application/json", "another"},
			{"costly expressions", http.MethodPost, costly, elements, "application/json", costlyToken},
			{"costly expressions of a large body", http.MethodPost, costly, jsonshape.Wide(expensive), "application/json", costlyToken},
		}
		for _, a := range attacks {
			s.withstand(t, a)
		}
	}, "--secrets-key-file", receiver.KeyFile(t))
}

func TestFloodsOfHeadersAndUnknownReceiversAreRefused(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		client := nodes.Client(t)
		path, token := s.newReceiver(t, client, "plain", `{"domain":"'noisy.example'"}`)
		send := func(path string, headers map[string]string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Token", token)
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			a, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = a.Body.Close() }()
			body, _ := io.ReadAll(a.Body)
			return a.StatusCode, string(body)
		}
		many := map[string]string{}
		for i := range 2000 {
			many[fmt.Sprint("X-Flood-", i)] = "a"
		}
		for name, headers := range map[string]map[string]string{"many": many, "long": {"X-Flood": strings.Repeat("a", 1<<20)}} {
			if status, body := send(path, headers); status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s headers: %d %s", name, status, body)
			}
		}
		refused := map[int]int{}
		if status, body := send(path, nil); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		for i := range floods {
			status, _ := send(fmt.Sprintf("/in/receiver_%026d", i), nil)
			refused[status]++
		}
		if refused[http.StatusUnauthorized] == 0 || refused[http.StatusTooManyRequests] == 0 || len(refused) != 2 {
			t.Errorf("requests to unknown receivers have the statuses %v", refused)
		}
		if status, body := send(path, nil); status != http.StatusOK {
			t.Errorf("a receiver in use, after a flood from the same address: %d %s", status, body)
		}
	}, "--secrets-key-file", receiver.KeyFile(t), "--anonymous-rate", "100/m")
}
