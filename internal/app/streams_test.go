package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/telemetry"
	"atrium/internal/transfer"
)

// A streamer is a service with a tenant and a key that may import and export.
type streamer struct {
	addr  string
	store *store.Store
	key   string
}

func startStreamer(t *testing.T, change ...func(*app.Config)) *streamer {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	st := &streamer{store: s, addr: apptest.Start(t, s, change...)}
	st.key = manageKey(t, s)
	return st
}

func manageKey(t *testing.T, s *store.Store) string {
	t.Helper()
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := apptest.Key(t, s, tenant.ID, atrium.ScopeManage)
	return text
}

func importRequest(ctx context.Context, addr, key, query string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/manage/v0/import"+query, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Api-Key", key)
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Expect", "100-continue")
	return patient.Do(r)
}

// patient sends a body only once the server has begun to read it: when a write succeeds,
// the import has begun.
var patient = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}

// imports sends lines and returns the response.
func (s *streamer) imports(t *testing.T, query string, body io.Reader) (status int, text string) {
	t.Helper()
	response, err := importRequest(t.Context(), s.addr, s.key, query, body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func (s *streamer) exports(t *testing.T) string {
	t.Helper()
	a := send(t, http.MethodGet, "http://"+s.addr+"/manage/v0/export", "", "x-api-key: "+s.key)
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("export: %d %s", a.status, a.body)
	}
	return a.body
}

// accountLines returns n lines in the order and form of an export.
func accountLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"kind":"account","accountId":"account_%026d","domain":"a%d.example","createdAt":"2026-03-02T09:14:07.321Z","updatedAt":"2026-03-02T09:14:07.321Z"}`+"\n", i, i)
	}
	return b.String()
}

func TestImportOverHTTPRoundTrips(t *testing.T) {
	s := startStreamer(t)
	lines := accountLines(1200)
	for _, c := range []struct{ query, want string }{
		{"?check=true", `{"lines":1200,"added":1200,"same":0}`},
		{"?check=false", `{"lines":1200,"added":1200,"same":0}`},
		{"", `{"lines":1200,"added":0,"same":1200}`},
		{"?fromLine=1001", `{"lines":1200,"added":0,"same":200}`},
	} {
		if status, response := s.imports(t, c.query, strings.NewReader(lines)); status != http.StatusOK || response != c.want {
			t.Errorf("import %s: %d %s, want %s", c.query, status, response, c.want)
		}
	}
	if got := s.exports(t); got != lines {
		t.Errorf("exported %d bytes, imported %d", len(got), len(lines))
	}
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

func TestImportCheckEndsWhenTheClientDisconnects(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "atrium.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var slow atomic.Bool
	var changes atomic.Int64
	s := store.New(db, func() time.Time {
		if slow.Load() { // a check reads the clock in each of its transactions
			changes.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
		return time.Now()
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	addr := apptest.Start(t, s, func(c *app.Config) {
		c.Log = slog.New(slog.NewTextHandler(writerFunc(func(b []byte) {
			if bytes.Contains(b, []byte("/manage/v0/import")) {
				ended.Store(true)
			}
		}), nil))
	})
	key := manageKey(t, s)
	var lines strings.Builder
	const accounts = 20_000
	for i := range accounts {
		fmt.Fprintf(&lines, `{"kind":"account","domain":"%d"}`+"\n", i)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	fmt.Fprintf(conn, "POST /manage/v0/import?check=true HTTP/1.1\r\nHost: atrium.test\r\nX-Api-Key: %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s",
		key, lines.Len(), lines.String())
	_ = conn.Close()
	for !ended.Load() {
		time.Sleep(time.Millisecond)
	}
	// A transaction has 500 rows, 7 for each account, and reads the clock four times. The server reads
	// 256 KiB of lines at once, and notices the end of the connection when it has read all.
	const all = 4 * accounts * 7 / 500
	if n := changes.Load(); n > all*9/10 {
		t.Errorf("it went on for %d transactions", n)
	}
}

func TestImportErrorsHaveTheLineAndWhereToResume(t *testing.T) {
	s := startStreamer(t)
	lines := strings.SplitAfter(accountLines(1200), "\n")
	lines[799] = `{"kind":"account","domain":"","tall":1}` + "\n"
	status, response := s.imports(t, "", strings.NewReader(strings.Join(lines, "")))
	var p struct {
		Code, Detail string
		Errors       []struct{ Pointer, Detail string }
	}
	if err := json.Unmarshal([]byte(response), &p); err != nil || status != http.StatusBadRequest || p.Code != "invalid_request" {
		t.Fatalf("%d %s: %v", status, response, err)
	}
	if !strings.HasPrefix(p.Detail, "Line 800 ") || !strings.HasSuffix(p.Detail, "fromLine=501.") ||
		len(p.Errors) != 2 || p.Errors[0].Pointer != "/800/domain" || p.Errors[1].Pointer != "/800/tall" {
		t.Errorf("%s", response)
	}
	if got, want := s.exports(t), accountLines(500); got != want {
		t.Errorf("stored were %d bytes of %d", len(got), len(want))
	}
	lines[799] = "\n"
	if status, response := s.imports(t, "?fromLine=501", strings.NewReader(strings.Join(lines, ""))); status != http.StatusOK || response != `{"lines":1200,"added":699,"same":0}` {
		t.Errorf("resumed import: %d %s", status, response)
	}
	for query, want := range map[string]string{
		"?fromLine=1202": `"parameter":"fromLine"`, "?fromLine=0": `"parameter":"fromLine"`, "?check=yes": `"parameter":"check"`,
	} {
		if status, response := s.imports(t, query, strings.NewReader(strings.Join(lines, ""))); status != http.StatusBadRequest || !strings.Contains(response, want) {
			t.Errorf("%s: %d %s", query, status, response)
		}
	}
}

func TestImportsHaveTheirOwnTimeAndSizeLimits(t *testing.T) {
	s := startStreamer(t, func(c *app.Config) {
		c.Settings.ReadTimeout, c.Settings.WriteTimeout, c.Settings.ImportMaxBody = time.Second, time.Second, 1<<20
	})
	body, w := io.Pipe()
	go func() {
		for i, line := range strings.SplitAfter(strings.TrimSpace(accountLines(4)), "\n") {
			if i > 0 {
				time.Sleep(700 * time.Millisecond)
			}
			_, _ = io.WriteString(w, line)
		}
		_ = w.Close()
	}()
	if status, response := s.imports(t, "", body); status != http.StatusOK || response != `{"lines":4,"added":4,"same":0}` {
		t.Errorf("a slow import: %d %s", status, response)
	}
	// A body without a length is read up to the limit.
	large := strings.NewReader(accountLines(600) + strings.Repeat(" \n", 500_000))
	if status, response := s.imports(t, "", io.MultiReader(large)); status != http.StatusRequestEntityTooLarge || !strings.Contains(response, "fromLine=501.") {
		t.Errorf("a large import: %d %s", status, response)
	}
}

// Each check has a temporary database, which takes memory and file descriptors.
func TestConcurrentChecksOfImportsAreLimited(t *testing.T) {
	s := startStreamer(t)
	const most = 16
	done := make(chan int, most+3)
	var open []*io.PipeWriter
	for range most + 3 {
		body, w := io.Pipe()
		key := manageKey(t, s.store)
		go func() {
			response, err := importRequest(t.Context(), s.addr, key, "?check=true", body)
			_ = body.Close() // ends the write of a check that was refused before its body was read
			if err != nil {
				done <- 0
				return
			}
			_ = response.Body.Close()
			done <- response.StatusCode
		}()
		if _, err := io.WriteString(w, "\n"); err == nil {
			open = append(open, w)
		} else if status := <-done; status != http.StatusServiceUnavailable {
			t.Errorf("a check was refused with %d", status)
		}
	}
	if len(open) != most {
		t.Errorf("%d checks are open, want %d", len(open), most)
	}
	if status, response := s.imports(t, "", strings.NewReader("")); status != http.StatusOK {
		t.Errorf("an import next to them: %d %s", status, response)
	}
	for _, w := range open {
		_ = w.Close()
	}
	for range open {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a check ended with %d", status)
		}
	}
}

func TestATenantHasTwoConcurrentImports(t *testing.T) {
	log := &output{}
	s := startStreamer(t, func(c *app.Config) { c.Log = telemetry.NewLogger(log, "json", "info") })
	keys := []string{s.key, s.key}
	for range 10 { // tenants with stalled imports
		key := manageKey(t, s.store)
		keys = append(keys, key, key)
	}
	third := *s
	third.key = manageKey(t, s.store)
	done := make(chan int)
	begin := func(key string) *io.PipeWriter {
		t.Helper()
		body, w := io.Pipe()
		go func() {
			response, err := importRequest(t.Context(), s.addr, key, "", body)
			if err != nil {
				done <- 0
				return
			}
			_ = response.Body.Close()
			done <- response.StatusCode
		}()
		if _, err := io.WriteString(w, "\n"); err != nil {
			t.Fatal(err)
		}
		return w
	}
	refused := func(of *streamer, what string) {
		t.Helper()
		if status, response := of.imports(t, "", strings.NewReader("")); status != http.StatusServiceUnavailable {
			t.Errorf("an import %s: %d %s", what, status, response)
		}
	}
	var open []*io.PipeWriter
	for _, key := range keys {
		open = append(open, begin(key))
	}
	refused(s, "next to two of its tenant")
	third.exports(t)
	if status, response := third.imports(t, "", strings.NewReader("")); status != http.StatusOK {
		t.Errorf("an import of a tenant that has none open: %d %s", status, response)
	}
	for _, w := range open {
		_ = w.Close()
	}
	for range open {
		if status := <-done; status != http.StatusOK {
			t.Errorf("an import ended with %d", status)
		}
	}
	if text := log.String(); strings.Contains(text, "request failed") || strings.Count(text, `"limit":"streams"`) != 1 {
		t.Error("rejected imports must not log a line each, but a rate-limited one")
	}
	s.exports(t)
	third.exports(t)
}

func TestRunningImportDoesNotBlockTheShutdown(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := app.Config{Settings: config.Default(), Store: s, Log: slog.New(slog.DiscardHandler)}
	c.Settings.Addr = "127.0.0.1:0"
	a, err := app.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	key := manageKey(t, s)
	body, w := io.Pipe()
	defer func() { _ = w.Close() }()
	answered := make(chan string, 1)
	go func() {
		response, err := importRequest(t.Context(), a.Addr(), key, "", body)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		b, _ := io.ReadAll(response.Body)
		answered <- fmt.Sprint(response.StatusCode, " ", string(b))
	}()
	if _, err := io.WriteString(w, accountLines(501)); err != nil { // read a little later
		t.Fatal(err)
	}
	for stored := 0; stored < 500; {
		if stored, err = transfer.Export(t.Context(), s, tenantOf(t, s, key), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if response := <-answered; !strings.HasPrefix(response, "503 ") || !strings.Contains(response, "fromLine=501.") {
		t.Errorf("the import got %s", response)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the service stopped with %v", err)
	}
}

func TestAnImportStoresNothingOnceItsKeyIsRevoked(t *testing.T) {
	s := startStreamer(t)
	tenant := tenantOf(t, s.store, s.key)
	revoked, id := apptest.Key(t, s.store, tenant, atrium.ScopeManage)
	body, w := io.Pipe()
	answered := make(chan string, 1)
	go func() {
		response, err := importRequest(t.Context(), s.addr, revoked, "", body)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		b, _ := io.ReadAll(response.Body)
		answered <- fmt.Sprint(response.StatusCode, " ", string(b))
	}()
	lines := strings.SplitAfter(accountLines(700), "\n")
	if _, err := io.WriteString(w, strings.Join(lines[:600], "")); err != nil {
		t.Fatal(err)
	}
	for stored := 0; stored < 500; {
		var err error
		if stored, err = transfer.Export(t.Context(), s.store, tenant, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if a := send(t, http.MethodPost, "http://"+s.addr+"/manage/v0/keys/"+string(id)+"/revoke", "", "x-api-key: "+s.key); a.status != http.StatusOK {
		t.Fatalf("revoke: %d %s", a.status, a.body)
	}
	go func() {
		_, _ = io.WriteString(w, strings.Join(lines[600:], ""))
		_ = w.Close()
	}()
	if response := <-answered; !strings.HasPrefix(response, "401 ") || !strings.Contains(response, "fromLine=501.") {
		t.Errorf("the import got %s", response)
	}
	if stored := strings.Count(s.exports(t), "\n"); stored != 500 {
		t.Errorf("%d lines are stored, want the 500 from before the key was revoked", stored)
	}
}

func tenantOf(t *testing.T, s *store.Store, key string) atrium.TenantID {
	t.Helper()
	id, _, _ := auth.ParseKey(key)
	k, _, _, err := s.Key(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return k.TenantID
}

// A blockedWAL is a database with a large WAL that long reads keep from being reset.
type blockedWAL struct{ engine.DB }

func (d blockedWAL) Stats() engine.Stats { return engine.Stats{WALBlocked: true} }

func TestLongReadsAreRefusedWhileTheWALIsBlocked(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "atrium.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(blockedWAL{db}, time.Now)
	t.Cleanup(func() { _ = s.Close() })
	st := &streamer{store: s, addr: apptest.Start(t, s)}
	st.key = manageKey(t, s)
	lines := strings.Split(strings.TrimSuffix(accountLines(2), "\n"), "\n")
	for i := range 201 {
		lines = append(lines, fmt.Sprintf(`{"kind":"prospect","prospectId":"prospect_%026d","accountIds":["account_%026d"]}`, i, 1))
	}
	if status, text := st.imports(t, "", strings.NewReader(strings.Join(lines, "\n")+"\n")); status != http.StatusOK {
		t.Fatal(status, text)
	}
	for account, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/manage/v0/accounts/account_%026d", st.addr, account), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", st.key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != want {
			t.Errorf("account %d: %d, want %d", account, response.StatusCode, want)
		}
	}
}
