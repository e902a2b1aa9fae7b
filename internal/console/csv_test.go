package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/csvrows"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

// upload sends a file as the user of newLimitedSession. beforeRead is called before each part of it is read, with the
// number of bytes that were read before.
func upload(ctx context.Context, t *testing.T, c *Console, path, token, file string, beforeRead func(int)) *httptest.ResponseRecorder {
	t.Helper()
	var form strings.Builder
	for name, value := range map[string]string{"kind": "accounts", "column:domain": "0:domain"} {
		fmt.Fprintf(&form, "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
	}
	form.WriteString("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n")
	body := &browserBody{from: strings.NewReader(file), before: beforeRead}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, io.MultiReader(strings.NewReader(form.String()), body, strings.NewReader("\r\n--b--\r\n")))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	r.AddCookie(&http.Cookie{Name: plainCookie, Value: token})
	w := &connection{httptest.NewRecorder()}
	(&rest.API{Log: slog.New(slog.DiscardHandler)}).Handler(nil, c.Handlers()).ServeHTTP(w, r)
	return w.ResponseRecorder
}

// A browserBody is a file that a browser sends.
type browserBody struct {
	from   io.Reader
	read   int
	before func(int)
}

func (b *browserBody) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before(b.read)
	}
	n, err := b.from.Read(p)
	b.read += n
	return n, err
}

// A connection is one to a browser, with deadlines.
type connection struct{ *httptest.ResponseRecorder }

func (connection) SetReadDeadline(time.Time) error { return nil }

func (connection) SetWriteDeadline(time.Time) error { return nil }

// uploads are the requests that parse CSV.
var uploads = map[string]string{"preview": "/import/columns", "check": "/import?check=true", "import": "/import"}

// newImporting returns a console whose API reads imports, and fails if it cannot, with the path of a tenant and the token
// of its user.
func newImporting(t *testing.T) (c *Console, of, token string, tenant atrium.TenantID) {
	t.Helper()
	c, _, tenant, token = newLimitedSession(t)
	c.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"unavailable"}`)
			return
		}
		_, _ = io.WriteString(w, `{"name":"Tenant"}`)
	})
	return c, prefix + "/" + string(tenant), token, tenant
}

// Otherwise the files of one tenant could occupy every processor, or a slow browser one of them.
func TestCSVIsParsedAsHeavyWorkExceptWhileItWaits(t *testing.T) {
	c, of, token, _ := newImporting(t)
	file := "domain\n" + strings.Repeat("a.example\n", 50_000)
	for name, path := range uploads {
		w := upload(t.Context(), t, c, of+path, token, file, func(int) {
			if c.Limits.Heavy.Held() > 0 {
				t.Errorf("%s: a slot is held while the browser sends", name)
			}
		})
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestAFileThatMayNotBeParsedIsRefused(t *testing.T) {
	c, of, token, _ := newImporting(t)
	file := "domain\n" + strings.Repeat("a.example\n", 50_000)
	for name, path := range uploads {
		if err := c.Limits.Heavy.Acquire(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		w := upload(t.Context(), t, c, of+path, token, file, nil)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s while all processors are in use: %d", name, w.Code)
		}
		c.Limits.Heavy.Release("other")
	}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/import?check=true": {http.StatusServiceUnavailable, "Nothing was changed"},
		"/import":            {http.StatusOK, "Some rows may be stored"},
	} {
		busy := false
		w := upload(t.Context(), t, c, of+path, token, file, func(read int) {
			switch {
			case !busy && read > len(file)/2:
				if err := c.Limits.Heavy.Acquire(t.Context(), "other"); err != nil {
					t.Error(err)
				}
				busy = true
			case read == len(file):
				c.Limits.Heavy.Release("other")
			}
		})
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.text) || c.Limits.Heavy.Held() > 0 {
			t.Errorf("%s while all processors are in use from the middle on: %d %s; %d slots are held", path, w.Code, w.Body, c.Limits.Heavy.Held())
		}
	}
}

// An upload may be in progress for half an hour.
func TestTheMemoryOfUploadsCounts(t *testing.T) {
	c, of, token, tenant := newImporting(t)
	const half = 2 << 20
	c.Limits.Bodies = limit.NewQuota[atrium.TenantID](2 * half)
	for name, path := range uploads {
		for _, row := range []struct {
			size    int
			refused bool
		}{{1 << 10, false}, {100 << 10, false}, {300 << 10, true}} {
			file, held, atEnd := "domain\n"+strings.Repeat("a", row.size)+"\n"+strings.Repeat("b.example\n", 100_000), false, false
			w := upload(t.Context(), t, c, of+path, token, file, func(int) {
				if atEnd = !c.Limits.Bodies.Take("other", half); !atEnd {
					c.Limits.Bodies.Return("other", half)
				}
				held = held || atEnd
			})
			refused := w.Code == http.StatusServiceUnavailable || name == "import" && strings.Contains(w.Body.String(), "The service is busy")
			if !held || // the file is kept until it is too large for the page
				refused != row.refused {
				t.Errorf("%s of a row of %d bytes: memory held: %v, refused: %v", name, row.size, held, refused)
			}
			if drained := name == "preview" || refused; drained && atEnd {
				t.Errorf("%s of a row of %d bytes: memory is held while the rest of the file is not kept", name, row.size)
			}
			if !c.Limits.Bodies.Take(tenant, half) {
				t.Fatalf("%s of a row of %d bytes: memory is held after the response", name, row.size)
			}
			c.Limits.Bodies.Return(tenant, half)
		}
	}
}

// Only what an import may store is worth its work without a browser.
func TestPreviewsAndChecksEndWithTheConnection(t *testing.T) {
	c, of, token, _ := newImporting(t)
	for name, path := range uploads {
		size, ends := 64<<20, name != "import"
		if !ends {
			size = 4 << 20
		}
		file := "domain\n" + strings.Repeat("\n", size)
		ctx, cancel := context.WithCancel(t.Context())
		read := 0
		upload(ctx, t, c, of+path, token, file, func(before int) {
			if read = before; read > 1<<20 {
				cancel()
			}
		})
		cancel()
		if ended := read < size/2; ended != ends { // a busy machine may be slow to end it
			t.Errorf("%s: %d bytes were read", name, read)
		}
	}
}

// A page shows the beginnings of the first rows.
func TestAPreviewKeepsAndReadsABoundedPart(t *testing.T) {
	c, of, _, tenant := newImporting(t)
	r := &request{console: c, tenant: tenant, w: httptest.NewRecorder(), http: httptest.NewRequestWithContext(t.Context(), http.MethodGet, of, nil)}
	long := strings.Repeat("a", 10_000)
	p := transferPage{Kind: csvrows.Kinds[0]}
	file, end := r.heavyFile(uploadForm{ctx: t.Context(), file: strings.NewReader("domain,name\n" + strings.Repeat(long+","+long+"\n", 10))})
	defer end()
	if err := file.parse(func() error { return p.readPreview(file) }); err != nil || len(p.Rows) != previewRows {
		t.Fatalf("%d rows, %v", len(p.Rows), err)
	}
	for _, row := range p.Rows {
		if len(row.Cells) != 2 || row.Cells[0] != long[:previewCell-1]+"…" || row.Cells[1] != row.Cells[0] {
			t.Errorf("a row is %q", row)
		}
	}
	wrong := &browserBody{from: strings.NewReader("domain\n" + strings.Repeat("a,b\n", 100_000))}
	p = transferPage{Kind: csvrows.Kinds[0]}
	file, end = r.heavyFile(uploadForm{ctx: t.Context(), file: wrong})
	defer end()
	if err := file.parse(func() error { return p.readPreview(file) }); err != nil || len(p.Rows) != previewRows || p.Rows[0].Fault == nil || wrong.read > 128<<10 {
		t.Errorf("of wrong rows, the preview has %d, %v, and has read %d bytes", len(p.Rows), err, wrong.read)
	}
}
