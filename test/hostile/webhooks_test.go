package hostile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"atrium/test/nodes"
	"atrium/test/receiver"
)

// talkative serves connections of a webhook: it responds to each request, and then sends what nobody has asked for.
// It sends the address of its listener, and a value for each such connection that the client has closed.
func talkative(t *testing.T, unsolicited string) (address string, closed <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ended := make(chan struct{}, 1)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(exchangeTimeout))
				in := bufio.NewReader(c)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				if _, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond) // the client now keeps the connection for its next request
				_, _ = fmt.Fprint(c, unsolicited)
				for {
					if _, err := in.ReadByte(); err != nil {
						break
					}
				}
				select {
				case ended <- struct{}{}:
				default:
				}
			}()
		}
	}()
	return listener.Addr().String(), ended
}

func TestEndpointOfAWebhookCannotWriteToTheLog(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		client := nodes.Client(t)
		address, closed := talkative(t, "HTTP/1.1 200 MARKER-OF-THE-ENDPOINT\r\n\r\n")
		var made struct{ WebhookID string }
		status, body := s.manageRequest(t, client, "/manage/v0/webhooks", fmt.Sprintf(`{"url":"http://%s/","eventTypes":["webhook.test"]}`, address))
		if err := json.Unmarshal(body, &made); err != nil || status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		if status, body := s.manageRequest(t, client, "/manage/v0/webhooks/"+made.WebhookID+"/test", ""); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, body)
		}
		select {
		case <-closed:
		case <-time.After(exchangeTimeout):
			t.Fatal("the server has not closed the connection")
		}
		s.Stop(t)
		if log := s.Log(); strings.Contains(log, "MARKER-OF-THE-ENDPOINT") {
			t.Errorf("the log has what the endpoint sent:\n%s", log)
		}
	}, "--secrets-key-file", receiver.KeyFile(t), "--webhook-allow", "127.0.0.0/8")
}
