package console

import (
	"errors"
	"io"
	"testing"

	"atrium"
	"atrium/internal/csvrows"
)

type brokenReader struct{ error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.error }

// An import that a faulty row ends is refused for this row, not for an incomplete body.
func TestAFaultyRowIsTheReasonOfItsRefusal(t *testing.T) {
	fault := &csvrows.Fault{Line: 11, Member: "domain", Detail: "needs a dot"}
	upload := &failingReader{from: brokenReader{fault}}
	_, err := upload.Read(make([]byte, 1))
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || e.Detail != "Line 11 was rejected." || len(e.Faults) != 1 || e.Faults[0].Where != "/11/domain" || e.Faults[0].Detail != "needs a dot" {
		t.Errorf("%v", err)
	}
	if !errors.Is(upload.err, fault) {
		t.Errorf("it keeps %v", upload.err)
	}
	upload = &failingReader{from: brokenReader{io.ErrUnexpectedEOF}}
	if _, err := upload.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, fault) {
		t.Errorf("another error: %v", err)
	}
}
