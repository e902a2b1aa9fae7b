package console

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/csvrows"
	"atrium/internal/rest"
)

// Bounds of a list as CSV.
const (
	maxRowsCSV    = 100_000          // of a file
	csvPage       = 100              // rows of a call, the maximum of the API
	maxShortPages = 10_000           // calls for one file: filters can make pages of the API short
	partTimeout   = time.Minute      // to send the rows of a call
	maxDownload   = 15 * time.Minute // for one file
	maxTries      = 6                // of a call that is refused for a while
)

// Spreadsheets take a file of this type for UTF-8 only if it begins with a byte order mark.
const (
	contentTypeCSV = "text/csv; charset=utf-8; header=present"
	byteOrderMark  = "\uFEFF"
)

// A csvLink is a link to a list as CSV, with the command that prints all of it.
type csvLink struct {
	Address, Command string
	MaxRows          int64
}

// CSV returns the link to the list that the page shows, with its filters. The section is its path, such as accounts.
func (f frame) CSV(section, command string) csvLink {
	query := f.request.http.URL.Query()
	for _, name := range []string{"cursor", "done"} {
		query.Del(name)
	}
	return csvLink{address(f.Path(strings.Split(section, "/")...)+".csv", query), command, maxRowsCSV}
}

// csvOf returns the download of a list of the API with the parameters of the URL that names has. Its path may have
// {webhook_id}, which is that of the URL.
func csvOf(pattern, file, command string, names ...string) page {
	return func(r *request) error {
		query := url.Values{}
		for _, name := range names {
			if value := r.filter(name); value != "" {
				query.Set(name, value)
			}
		}
		return r.sendCSV(pattern, file, command, query)
	}
}

// sendCSV sends a list of the API as CSV, page by page. A file that is not complete ends with an aborted
// connection, or at maxRowsCSV with a row that says so.
func (r *request) sendCSV(pattern, file, command string, query url.Values) error {
	path := strings.ReplaceAll(pattern, "{webhook_id}", url.PathEscape(r.http.PathValue("webhook_id")))
	ctx, cancel := context.WithTimeout(r.http.Context(), maxDownload)
	defer cancel()
	if r.console.Stopping != nil {
		defer context.AfterFunc(r.console.Stopping, cancel)()
	}
	r.http = r.http.WithContext(ctx)
	var b bytes.Buffer
	b.WriteString(byteOrderMark)
	columns := csvrows.Lists[pattern]
	if pattern == "/account_logs" {
		columns = slices.Concat(columns, []string{memberAccountName, memberAccountDomain, "summary"})
	}
	rows := csvrows.NewEncoder(&b, columns, nil, true)
	query.Set("limit", strconv.Itoa(csvPage))
	some, err := r.encodePage(rows, path, query)
	if err != nil {
		return err
	}
	attach(r.w.Header(), contentTypeCSV, file)
	sent := len(some.Items)
	for calls := 1; ; calls++ {
		full := some.HasMore && (sent >= maxRowsCSV || calls == maxShortPages)
		if full {
			err = rows.Note("There are more rows. This command prints all of them: " + command)
		}
		if err = cmp.Or(err, r.sendPart(&b)); err == nil && (full || !some.HasMore) {
			return nil
		}
		query.Set("cursor", some.NextCursor)
		if err == nil {
			some, err = r.encodePageSoon(rows, path, query)
		}
		if err != nil {
			panic(http.ErrAbortHandler) //nolint:forbidigo // the only way to close the connection
		}
		sent += len(some.Items)
	}
}

// encodePageSoon is encodePage, but waits a while if the tenant sends too many requests.
func (r *request) encodePageSoon(rows *csvrows.Encoder, path string, query url.Values) (some list[jsontext.Value], err error) {
	ctx := r.http.Context()
	for try := range maxTries {
		some, err = r.encodePage(rows, path, query)
		switch atrium.CodeOf(err) {
		case atrium.CodeRateLimited, atrium.CodeUnavailable:
		default:
			return some, err
		}
		select {
		case <-time.After(time.Second << try / 2):
		case <-ctx.Done():
			return some, context.Cause(ctx)
		}
	}
	return some, err
}

// encodePage reads a page of a list and encodes it, within the limits of pages.
func (r *request) encodePage(rows *csvrows.Encoder, path string, query url.Values) (some list[jsontext.Value], err error) {
	ctx := r.http.Context()
	release, err := rest.Admit(ctx, r.w, r.console.Pages, r.user.TenantID)
	if err != nil {
		return some, err
	}
	defer release()
	if _, err := r.get(&some, path, query); err != nil {
		return some, err
	}
	if path == "/account_logs" {
		if err := r.nameAccounts(some.Items); err != nil {
			return some, err
		}
	}
	return some, r.heavily(func() error { return rows.Encode(some.Items) })
}

// Members that nameAccounts adds.
const (
	memberAccountName   = "accountName"
	memberAccountDomain = "accountDomain"
)

// nameAccounts adds the name and the domain of its account to each entry, unless it has no account.
func (r *request) nameAccounts(entries []jsontext.Value) error {
	objects, of := make([]object, len(entries)), make([]atrium.AccountID, len(entries))
	if err := r.heavily(func() error {
		for i := range entries {
			objects[i], _ = parseObject(entries[i]) // from the API
			if err := json.Unmarshal(objects[i].get("accountId"), &of[i]); err != nil {
				return fmt.Errorf("decode the account of an entry: %w", err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	accounts, err := r.accountsByID(slices.Clone(of)...)
	if err != nil {
		return err
	}
	return r.heavily(func() error {
		for i := range objects {
			if a, ok := accounts[of[i]]; ok && !a.Unattributed() {
				objects[i].set(memberAccountName, quote(text(a.Name)))
				objects[i].set(memberAccountDomain, quote(a.Domain))
				entries[i] = objects[i].text()
			}
		}
		return nil
	})
}

// sendPart sends what b has, and empties it.
func (r *request) sendPart(b *bytes.Buffer) error {
	control := http.NewResponseController(r.w)
	if err := control.SetWriteDeadline(time.Now().Add(partTimeout)); err != nil {
		return err
	}
	_, err := b.WriteTo(r.w)
	return cmp.Or(err, control.Flush())
}

// attach makes a response a file that browsers save and do not show.
func attach(h http.Header, contentType, file string) {
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="`+file+`"`)
}

// export returns the download of a stream of the API.
func export(path, file string) page {
	return func(r *request) error { return r.download(call{method: http.MethodGet, path: path}, file) }
}

// download sends a stream of the API as a file.
func (r *request) download(c call, file string) error {
	return r.streamCall(c, func(h http.Header) {
		attach(r.w.Header(), h.Get("Content-Type"), file)
		r.w.WriteHeader(http.StatusOK)
	}, r.w)
}

// streamCall reads a stream of the API and writes it to a writer while it is generated. begin is called first,
// with the headers of the stream, unless the call fails.
func (r *request) streamCall(c call, begin func(http.Header), to io.Writer) error {
	inner, err := r.newCall(c)
	if err != nil {
		return err
	}
	w := &passThrough{recorder: recorder{header: http.Header{}}, begin: begin, to: to, browser: r.w}
	r.console.API.ServeHTTP(w, inner)
	if w.status >= http.StatusBadRequest {
		return problemOf(&w.recorder)
	}
	return nil
}

// A passThrough is the http.ResponseWriter of a call whose body is written elsewhere while it is generated. It
// keeps an error.
type passThrough struct {
	recorder
	begin   func(http.Header)
	to      io.Writer
	browser http.ResponseWriter
}

func (w *passThrough) WriteHeader(status int) {
	before := w.status
	w.recorder.WriteHeader(status)
	if before == 0 && w.status == http.StatusOK {
		w.begin(w.header)
	}
}

func (w *passThrough) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status != http.StatusOK {
		return w.recorder.Write(b)
	}
	return w.to.Write(b)
}

// Flush has no effect: the connection has a small buffer. The deadlines are those of the browser's connection.
func (w *passThrough) Flush() {}

func (w *passThrough) SetReadDeadline(at time.Time) error {
	return http.NewResponseController(w.browser).SetReadDeadline(at)
}

func (w *passThrough) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(w.browser).SetWriteDeadline(at)
}
