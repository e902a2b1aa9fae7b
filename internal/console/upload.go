package console

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"atrium"
)

// Bounds of an upload.
const (
	maxFields     = 64          // before the file
	maxField      = 1 << 10     // bytes
	maxBeforeFile = 64 << 10    // bytes of the body, with names and headers
	uploadTimeout = time.Minute // without progress
	maxUpload     = 1 << 30     // bytes, of which all are read: otherwise browsers do not show a response
	longestUpload = 30 * time.Minute
)

// errBeforeFile says that the fields before the file are too large.
var errBeforeFile = errors.New("the form is too large before its file")

// A fieldReader fails after maxBeforeFile, until the file is found: the fields before it are held in memory.
type fieldReader struct {
	from io.Reader
	left int // bytes; negative without a limit
}

func (f *fieldReader) Read(b []byte) (int, error) {
	if f.left == 0 {
		return 0, errBeforeFile
	}
	if f.left > 0 {
		b = b[:min(len(b), f.left)]
	}
	n, err := f.from.Read(b)
	if f.left > 0 {
		f.left -= n
	}
	return n, err
}

// An uploadForm is an upload: its fields, and then its file, which is read while it arrives, until ctx ends. The file is
// one that the user has chosen, or else the one that the page has kept.
type uploadForm struct {
	ctx    context.Context
	fields url.Values
	file   io.Reader
	name   string
}

// A progressReader reads the body of an upload as long as the browser makes progress.
type progressReader struct {
	ctx     context.Context
	from    io.Reader
	control *http.ResponseController
}

func (p progressReader) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	now := time.Now()
	if err := cmp.Or(p.control.SetReadDeadline(now.Add(uploadTimeout)), p.control.SetWriteDeadline(now.Add(2*uploadTimeout))); err != nil {
		return 0, err
	}
	return p.from.Read(b)
}

// readUpload reads the fields of the form, up to its file. Call end after the file was read.
func (r *request) readUpload() (form uploadForm, end func(), err error) {
	ctx, cancel := context.WithTimeout(r.http.Context(), longestUpload)
	stop := func() bool { return true }
	if r.console.Stopping != nil {
		stop = context.AfterFunc(r.console.Stopping, cancel)
	}
	body := progressReader{ctx, http.MaxBytesReader(r.w, r.http.Body, maxUpload), http.NewResponseController(r.w)}
	end = func() {
		_, _ = io.Copy(io.Discard, body) // the rest
		stop()
		cancel()
	}
	form.ctx = ctx
	fields := &fieldReader{body, maxBeforeFile}
	r.http.Body = io.NopCloser(fields)
	parts, err := r.http.MultipartReader()
	if err != nil {
		return form, end, atrium.Errorf(atrium.CodeUnsupportedMediaType, "The form has no file.")
	}
	form.fields = url.Values{}
	for range maxFields {
		part, err := parts.NextPart()
		if err != nil {
			return form, end, uploadError(err)
		}
		switch {
		case part.FileName() != "":
			form.name, form.file, fields.left = atrium.Shorten(255, part.FileName()), part, -1
			return form, end, nil
		case part.FormName() == "file": // none is chosen
			continue
		case part.FormName() == "kept":
			form.name, form.file, fields.left = atrium.Shorten(255, form.fields.Get("name")), decoded(part), -1
			return form, end, nil
		}
		value, err := io.ReadAll(io.LimitReader(part, maxField))
		if err != nil {
			return form, end, uploadError(err)
		}
		form.fields.Add(part.FormName(), strings.ToValidUTF8(string(value), "\uFFFD"))
	}
	return form, end, atrium.Errorf(atrium.CodeInvalidRequest, "The form has too many fields.")
}

// uploadError returns the error of a form that cannot be read.
func uploadError(err error) error {
	if errors.Is(err, io.EOF) {
		return wrong("file", "Choose a file.")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, multipart.ErrMessageTooLarge) || errors.Is(err, errBeforeFile) {
		return atrium.Errorf(atrium.CodePayloadTooLarge, "The form is too large.")
	}
	return atrium.Errorf(atrium.CodeInvalidRequest, "The upload ended before it was complete.").Because(err)
}
