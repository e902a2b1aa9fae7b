package secure

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A client has a limited share of the memory of the process, whatever it leaves unread or
// sends unrequested, over any number of connections and streams.
func TestHTTP2ClientsHaveAShareOfStreamsAndBodies(t *testing.T) {
	const connections = 8
	value := strings.Repeat("x", 1000)
	values := func(n int) (all []string) {
		for range n {
			all = append(all, value)
		}
		return all
	}
	for name, attack := range map[string]struct {
		headers []string
		streams int // per connection
		frames  int // of the body of each
		most    int // connections that stay open
	}{
		"responses that nobody reads":                       {nil, 20, 0, 3},
		"responses to large headers":                        {values(14), 20, 0, 3},
		"responses to headers above the limit":              {values(20), 20, 0, 3},
		"bodies of requests whose handlers do not read one": {nil, 5, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "--max-requests", "64", "--body-memory", "32MiB") // 64 streams and 4 MiB per client
			open := 0
			var last *raw
			for range connections {
				r := s.connect(t)
				if err := r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
					t.Fatal(err)
				}
				for i := range uint32(attack.streams) {
					_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: r.headers(attack.headers...), EndHeaders: true, EndStream: attack.frames == 0})
					for range attack.frames {
						_ = r.WriteData(2*i+1, false, bytes.Repeat([]byte(" "), 64_000))
					}
				}
				_ = r.WritePing(false, [8]byte{1}) // its acknowledgement means that the earlier frames were processed
				if r.answersPing() {
					open++
				}
				last = r
			}
			if open != attack.most {
				t.Errorf("%d connections stayed open, want %d", open, attack.most)
			}
			ended(t, "the last connection", last.conn)
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: s.trust, ServerName: "atrium.test"}, ForceAttemptHTTP2: true,
			}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: exchangeTimeout}
			response, err := client.Get("https://" + s.Addr + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			if _ = response.Body.Close(); response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
				t.Errorf("another client gets %s over %s", response.Status, response.Proto)
			}
		})
	}
}

// answersPing reports whether the server acknowledges a ping before it closes the
// connection.
func (r *raw) answersPing() bool {
	_ = r.conn.SetReadDeadline(time.Now().Add(exchangeTimeout))
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return false
		}
		if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
			return true
		}
	}
}
