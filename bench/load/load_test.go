package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type address string

func (a address) Addr() string     { return string(a) }
func (address) CPU() time.Duration { return 0 }

// serve returns the address of a server, and a kind of request for it.
func serve(t *testing.T, handler http.HandlerFunc) (address, Kind) {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	addr := s.Listener.Addr().String()
	request := Get(addr, "/")
	return address(addr), Kind{Name: "GET", Status: http.StatusOK, Request: func(int) []byte { return request }}
}

func run(t *testing.T, l Load) Report {
	t.Helper()
	r, err := l.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLatenciesArePercentilesToThreeDigits(t *testing.T) {
	a, b := newReport(), newReport()
	for i := 1; i <= 10_000; i++ {
		r := &a
		if i%2 == 0 {
			r = &b
		}
		r.record(time.Duration(i) * 100 * time.Microsecond)
	}
	a.add(b)
	if a.Answered != 10_000 {
		t.Errorf("%d answered", a.Answered)
	}
	for percent, want := range map[float64]time.Duration{50: 500 * time.Millisecond, 95: 950 * time.Millisecond, 99: 990 * time.Millisecond, 99.9: 999 * time.Millisecond} {
		if got := a.Latency(percent); got < want*999/1000 || got > want*1001/1000 {
			t.Errorf("percentile %v is %v, want %v", percent, got, want)
		}
	}
	r := newReport()
	r.record(time.Hour)
	r.record(0)
	if got := r.Latency(100); got < longest || got > longest*1001/1000 || r.Answered != 2 {
		t.Errorf("latency of an hour: %v, of %d requests", got, r.Answered)
	}
}

func TestRateAndCPUTimeCountResponses(t *testing.T) {
	r := Report{Answered: 200, Failed: 100, Elapsed: 2 * time.Second, CPU: 10 * time.Millisecond}
	if r.Rate() != 100 || r.CPUPerRequest() != 50*time.Microsecond {
		t.Errorf("%v/s, %v each", r.Rate(), r.CPUPerRequest())
	}
}

func TestRequestsAreDueAtTheRate(t *testing.T) {
	s := schedule{start: time.Unix(1000, 0), length: time.Second, rate: 400}
	n := 0
	for {
		at, more := s.at(n)
		if !more {
			break
		}
		if want := s.start.Add(time.Duration(n) * 2500 * time.Microsecond); at != want {
			t.Fatalf("request %d is due at %v, want %v", n, at, want)
		}
		n++
	}
	if n != 400 {
		t.Errorf("%d are due in a second, want 400", n)
	}
}

// stalls returns a handler that stalls once, for half a second.
func stalls() http.HandlerFunc {
	var requests atomic.Int64
	return func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 100 {
			time.Sleep(500 * time.Millisecond)
		}
	}
}

// 50 of 100 requests are due while the server stalls. In a closed loop, only one request
// would show the stall.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	addr, kind := serve(t, stalls())
	l := Load{To: []Server{addr}, Mix: Only(kind), Connections: 1, For: 2 * time.Second, Rate: 100}
	r := run(t, l)
	if r.Answered != 200 || r.Failed+r.Unsent != 0 {
		t.Fatalf("%d answered, %d failed, %d unsent, want 200", r.Answered, r.Failed, r.Unsent)
	}
	if got := r.Latency(85); got < 100*time.Millisecond {
		t.Errorf("85th percentile is %v: waits for the server are not counted", got)
	}

	addr, kind = serve(t, stalls())
	l.To, l.Mix, l.Rate = []Server{addr}, Only(kind), 0
	if r := run(t, l); r.Answered < 200 || r.Latency(85) >= 100*time.Millisecond {
		t.Errorf("closed loop: 85th percentile of %d requests is %v", r.Answered, r.Latency(85))
	}
}

func TestUnsentRequestsAreReported(t *testing.T) {
	addr, kind := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) })
	r := run(t, Load{To: []Server{addr}, Mix: Only(kind), Connections: 1, For: 500 * time.Millisecond, Rate: 1000})
	if r.Answered+r.Unsent != 500 || r.Unsent < 400 {
		t.Errorf("%d answered and %d unsent of 500", r.Answered, r.Unsent)
	}
}

func TestUnexpectedStatusIsAFailure(t *testing.T) {
	var n atomic.Int64
	addr, kind := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			w.WriteHeader(http.StatusTeapot)
		case 1:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	})
	r := run(t, Load{To: []Server{addr}, Mix: Only(kind), Connections: 1, For: 200 * time.Millisecond})
	if r.Failed < 2 || r.Answered < 2 || r.Failure == nil {
		t.Errorf("%d failed, %d answered, the first failure: %v", r.Failed, r.Answered, r.Failure)
	}
}

func TestEmptyLoadIsAnError(t *testing.T) {
	_, kind := serve(t, nil)
	gone := address("127.0.0.1:1")
	if _, err := (Load{To: []Server{gone}, Mix: Only(kind), Connections: 1, For: 50 * time.Millisecond}).Run(t.Context()); err == nil {
		t.Error("no error without a response")
	}
	if _, err := (Load{To: []Server{gone}, Connections: 1, For: time.Second}).Run(t.Context()); err == nil {
		t.Error("no error for a load without requests")
	}
}

func TestLoadStopsWhenItsContextIsDone(t *testing.T) {
	addr, kind := serve(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := (Load{To: []Server{addr}, Mix: Only(kind), Connections: 2, For: time.Minute, Rate: 100}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	if time.Since(start) > 20*time.Second {
		t.Errorf("it ran for %v", time.Since(start))
	}
}

func TestMixFollowsItsWeights(t *testing.T) {
	for _, weights := range [][]int{{1}, {90, 10}, {5, 20, 25}, {1, 1, 1, 1}, {7, 3, 97}} {
		var m Mix
		for i, w := range weights {
			m = append(m, Share{Kind{Name: strconv.Itoa(i)}, w})
		}
		for _, first := range []int{0, 1, 12345} {
			count := map[string]int{}
			for n := range m.total() {
				count[m.kind(first+n).Name]++
			}
			for i, w := range weights {
				if got := count[strconv.Itoa(i)]; got != w {
					t.Errorf("%v from %d: %d of the kind %d, want %d", weights, first, got, i, w)
				}
			}
		}
	}
	even := Mix{{Kind{Name: "often"}, 90}, {Kind{Name: "rare"}, 10}}
	for n, gap := 0, 0; n < 200; n, gap = n+1, gap+1 {
		if even.kind(n).Name == "rare" {
			gap = 0
		}
		if gap > 20 {
			t.Fatalf("at %d the rare kind is missing for %d requests: kinds are not interleaved", n, gap)
		}
	}
}

func TestReadsContentLengthAndChunks(t *testing.T) {
	long := strings.Repeat("long ", 10_000)
	addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("X-Test"), body)
		if r.URL.Path == "/long" {
			_, _ = io.WriteString(w, long)
		}
	})
	for _, test := range []struct {
		request []byte
		want    string
	}{
		{Get(string(addr), "/short", "X-Test: yes"), "GET /short yes "},
		{Get(string(addr), "/long"), "GET /long  " + long},
		{Send("POST", string(addr), "/json", []byte(`{"a":1}`)), `POST /json  {"a":1}`},
	} {
		a, err := Once(string(addr), test.request)
		if err != nil || a.Status != http.StatusOK || string(a.Body) != test.want {
			t.Errorf("%.40q: status %d, %v, %.60q, want %.60q", test.request, a.Status, err, a.Body, test.want)
		}
	}
}

func TestMalformedResponseIsAnError(t *testing.T) {
	for _, response := range []string{
		"", "no\r\n", "HTTP/1.1 xyz OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
	} {
		if status, err := readResponse(bufio.NewReader(strings.NewReader(response)), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was read as a response with status %d", response, status)
		}
	}
}
