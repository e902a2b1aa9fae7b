package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func TestUploadContainsEveryByte(t *testing.T) {
	long := strings.Repeat("x", lineBuffer+7) + "\n"
	for _, text := range []string{"", "\n", "one\ntwo\n", "one\ntwo", long + "two\n" + long, long[:len(long)-1]} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
			iotest.DataErrReader(strings.NewReader(text))} {
			u := newLineUpload(t.Context(), in, anyLines)
			b, err := io.ReadAll(u)
			if err != nil || string(b) != text || u.failure() != nil || u.lines() != int64(strings.Count(text, "\n")) {
				t.Errorf("%d bytes of %d, %v, %v, %d lines", len(b), len(text), err, u.failure(), u.lines())
			}
		}
	}
}

// The server would take an incomplete line for an invalid one.
func TestStoppedUploadEndsWithCompleteLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		u := newLineUpload(t.Context(), io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(broken)), anyLines)
		if b, err := io.ReadAll(u); err != nil || string(b) != "one\ntwo\n" ||
			!errors.Is(u.failure(), broken) || u.lines() != 2 {
			t.Errorf("%q, %v, %v, %d lines", b, err, u.failure(), u.lines())
		}

		ctx, cancel := context.WithCancel(t.Context())
		in, typed := io.Pipe()
		u = newLineUpload(ctx, in, anyLines)
		go func() {
			_, _ = io.WriteString(typed, "one\ntw")
			synctest.Wait() // the upload waits for the rest of the line
			cancel()
		}()
		if b, err := io.ReadAll(u); err != nil || string(b) != "one\n" ||
			!errors.Is(u.failure(), context.Canceled) || u.lines() != 1 {
			t.Errorf("%q, %v, %v, %d lines", b, err, u.failure(), u.lines())
		}
		_ = typed.Close()
	})
}

func TestUnreadUploadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newLineUpload(t.Context(), strings.NewReader("one\ntwo\n"), anyLines)
		_ = u.Close()
		synctest.Wait()
		if _, err := u.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestUploadHoldsAPartOfAnEndlessLine(t *testing.T) {
	u := newLineUpload(t.Context(), zeros{}, anyLines)
	if n, err := io.CopyN(io.Discard, u, 2*maxHeldLine); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	_ = u.Close()
}

// anyLines accepts all lines.
func anyLines([]byte) error { return nil }
