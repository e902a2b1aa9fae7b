package console

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

var keptField = regexp.MustCompile(`name="kept" value="([^"]*)"`)

// keptIn returns the file that a page contains; "" if the user has to choose it again.
func keptIn(t *testing.T, page string) string {
	t.Helper()
	found := keptField.FindStringSubmatch(page)
	if again := strings.Contains(page, "The same file again"); again == (found != nil) {
		t.Errorf("the page has a file: %v, and asks for it: %v", found != nil, again)
	}
	if found == nil {
		return ""
	}
	file, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(found[1], "&#43;", "+"))
	if err != nil {
		t.Fatal(err)
	}
	return string(file)
}

func TestASmallFileIsChosenOnce(t *testing.T) {
	c, of, token, _ := newImporting(t)
	var stored string
	answer := c.API
	c.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			lines, _ := io.ReadAll(r.Body)
			stored = string(lines)
		}
		answer.ServeHTTP(w, r)
	})
	const small = "domain,name\r\na.example,\"Two\nlines, caf\xc3\xa9\"\r\n"
	for name, path := range map[string]string{"preview": uploads["preview"], "check": uploads["check"]} {
		if kept := keptIn(t, upload(t.Context(), t, c, of+path, token, small, nil).Body.String()); kept != small {
			t.Errorf("the page after a %s contains %q, want %q", name, kept, small)
		}
		large := "domain\n" + strings.Repeat("a.example\n", maxKept/10)
		if kept := keptIn(t, upload(t.Context(), t, c, of+path, token, large, nil).Body.String()); kept != "" {
			t.Errorf("the page after a %s contains a file of %d bytes", name, len(kept))
		}
		bodies := c.Limits.Bodies
		c.Limits.Bodies = limit.NewQuota[atrium.TenantID](100)
		if kept := keptIn(t, upload(t.Context(), t, c, of+path, token, small, nil).Body.String()); kept != "" {
			t.Errorf("without memory, the page after a %s contains %q", name, kept)
		}
		c.Limits.Bodies = bodies
	}
	send := func(chosen, file string) *httptest.ResponseRecorder {
		var form strings.Builder
		for _, field := range [][2]string{{"kind", "accounts"}, {"column:domain", "0:domain"}, {"name", "kept.csv"}} {
			fmt.Fprintf(&form, "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", field[0], field[1])
		}
		fmt.Fprintf(&form, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\n\r\n%s\r\n", chosen, file)
		fmt.Fprintf(&form, "--b\r\nContent-Disposition: form-data; name=\"kept\"\r\n\r\n%s\r\n--b--\r\n", base64.StdEncoding.EncodeToString([]byte(small)))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, of+uploads["import"], strings.NewReader(form.String()))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: token})
		w := &connection{httptest.NewRecorder()}
		(&rest.API{Log: slog.New(slog.DiscardHandler)}).Handler(nil, c.Handlers()).ServeHTTP(w, r)
		return w.ResponseRecorder
	}
	for _, row := range []struct{ chosen, file, want, name string }{
		{"", "", "a.example", "kept.csv"},
		{"other.csv", "domain\nb.example\n", "b.example", "other.csv"},
	} {
		w := send(row.chosen, row.file)
		if !strings.Contains(stored, row.want) || !strings.Contains(w.Body.String(), row.name) {
			t.Errorf("with the file %q chosen, %q was imported: %s", row.chosen, stored, w.Body)
		}
	}
}

func TestOfALongerFileThanIsKeptOnlyAPartIsRead(t *testing.T) {
	long := strings.NewReader(strings.Repeat("\n", 10*maxKept))
	if _, err := io.Copy(io.Discard, decoded(long)); err != nil {
		t.Error(err)
	}
	if read := 10*maxKept - long.Len(); read > 2*maxKept {
		t.Errorf("read %d bytes", read)
	}
}
