package app

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"atrium/internal/limit"
)

func TestHTTP2StreamsHoldSlotsUntilTheyEnd(t *testing.T) {
	refused := 0
	limits := &http2Limits{
		streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 8}), most: 4, refused: func() { refused++ },
	}
	u := newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
	want := func(what string, slots int) {
		t.Helper()
		if held := limits.streams.Held(); held != slots {
			t.Errorf("%s: %d slots are held, want %d", what, held, slots)
		}
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(streams ...uint32) {
		t.Helper()
		for _, id := range streams {
			step(u.received(frame{kind: typeHeaders, stream: id}))
		}
	}
	open(1, 3, 3, 5, 7)
	want("four requests, one with trailers", 4)
	if err := u.received(frame{kind: typeHeaders, stream: 9}); !errors.Is(err, errHTTP2Limit) || refused != 1 {
		t.Errorf("more than the share of a client: %v, refused %d times", err, refused)
	}
	other := newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)})
	step(other.received(frame{kind: typeHeaders, stream: 1}))
	other.end()
	want("those of another client that has gone", 4)

	step(u.sent(frame{kind: typeHeaders, stream: 1}))
	step(u.sent(frame{kind: typeData, stream: 1}))
	want("a response that is not sent whole", 4)
	step(u.sent(frame{kind: typeData, flags: flagEndOfStream, stream: 1}))
	step(u.sent(frame{kind: typeReset, stream: 1}))
	step(u.sent(frame{kind: typeReset, stream: 3}))
	want("one that is sent, and one that the server resets", 2)

	handled := u.begin()
	step(u.received(frame{kind: typeReset, stream: 5}))
	step(u.received(frame{kind: typeReset, stream: 5}))
	want("one that the client resets, whose handler runs", 2)
	handled()
	want("its handler has ended", 1)

	handled = u.begin()
	u.end()
	want("the connection has ended, and a handler runs", 1)
	handled()
	want("its handler has ended, too", 0)
}

func TestUnreadHTTP2BodiesCountTowardTheQuota(t *testing.T) {
	limits := &http2Limits{unread: limit.NewQuota[netip.Addr](1 << 20)}
	connect := func(last byte) *http2Usage { return newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, last)}) }
	data := func(u *http2Usage, bytes int) error {
		return u.received(frame{kind: typeData, stream: 1, length: bytes})
	}
	grant := func(u *http2Usage, bytes int) {
		t.Helper()
		if err := u.sent(frame{kind: typeWindowUpdate, increment: bytes}); err != nil {
			t.Error(err)
		}
	}
	u := connect(1)
	grant(u, maxAheadOfConnected-firstWindow)
	for range 20 { // handlers read all of them
		if err := data(u, 256<<10); err != nil {
			t.Fatal(err)
		}
		grant(u, 256<<10)
	}
	if err := data(u, 512<<10); err != nil {
		t.Errorf("the share of a client: %v", err)
	}
	if err := data(connect(1), 16<<10); !errors.Is(err, errHTTP2Limit) {
		t.Errorf("more than that, on another connection: %v", err)
	}
	if err := data(connect(2), 8<<10); err != nil {
		t.Errorf("of another client: %v", err)
	}
	u.end()
	if err := data(connect(1), 256<<10); err != nil {
		t.Errorf("after the connection has ended: %v", err)
	}
}

func TestFrameScannerFindsSplitFrames(t *testing.T) {
	text := "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x80\x00\x01\x02" + // WINDOW_UPDATE, with the reserved bit
		"\x00\x00\x03\x00\x01\x80\x00\x00\x05abc" + // DATA
		"\x00\x00\x06\x00\x08\x00\x00\x00\x05\x03ab\x00\x00\x00" + // padded DATA
		"\x00\x00\x00\x00\x08\x00\x00\x00\x05" + // padded DATA without the length of the padding
		"\x00\x00\x05\x08\x00\x00\x00\x00\x00xxxxx" + // WINDOW_UPDATE of a wrong size
		"\x00\x00\x00\x03\x00\x00\x00\x00\x07" // RST_STREAM without a payload
	want := []frame{
		{kind: typeWindowUpdate, length: 4, increment: 0x102},
		{kind: typeData, flags: flagEndOfStream, stream: 5, length: 3},
		{kind: typeData, flags: flagPadded, stream: 5, length: 6, padding: 4},
		{kind: typeData, flags: flagPadded, stream: 5},
		{kind: typeWindowUpdate, length: 5},
		{kind: typeReset, stream: 7},
	}
	for size := 1; size <= len(text); size++ {
		var s frameScanner
		var found []frame
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if err := s.scan(rest[:min(size, len(rest))], func(f frame) error {
				found = append(found, f)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("with a piece size of %d: %+v, want %+v", size, found, want)
		}
	}
}

func TestHTTP2FramesWithoutContentAreLimited(t *testing.T) {
	refused := 0
	limits := &http2Limits{
		streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 1000}),
		unread:  limit.NewQuota[netip.Addr](1 << 30), refused: func() { refused++ },
	}
	const typeSettings, typePing = 0x4, 0x6
	for name, f := range map[string]frame{
		"settings":       {kind: typeSettings},
		"pings":          {kind: typePing, length: 8},
		"window updates": {kind: typeWindowUpdate, length: incrementBytes, increment: 1},
		"headers":        {kind: typeContinuation, stream: 1},
		"trailers":       {kind: typeHeaders, stream: 1},
		"empty bodies":   {kind: typeData, stream: 1},
		"padding":        {kind: typeData, flags: flagPadded, stream: 1, length: 1, padding: 1},
		"long padding":   {kind: typeData, flags: flagPadded, stream: 1, length: 200, padding: 200},
		"unknown frames": {kind: 0xff},
	} {
		u := newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
		u.last = 1
		most := maxEmptyFrames
		flood := func() {
			t.Helper()
			for range most {
				if err := u.received(f); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		flood()
		most = framesPerContent
		if err := u.received(frame{kind: typeHeaders, flags: flagEndOfHeaders, stream: 3}); err != nil {
			t.Fatal(err)
		}
		flood()
		if err := u.sent(frame{kind: typeData, stream: 3, length: 1000}); err != nil {
			t.Fatal(err)
		}
		flood()
		if err := u.received(frame{kind: typeData, stream: 3, length: 1}); err != nil { // a client may send its body in small parts
			t.Fatal(err)
		}
		before := refused
		if err := u.received(f); !errors.Is(err, errHTTP2Limit) || refused != before+1 {
			t.Errorf("%s above the limit: %v, refused %d times", name, err, refused-before)
		}
		u.end()
	}
}

// A client may have received the end of responses whose streams still count as open.
func TestHTTP2ClientsMayNotExceedTheirStreams(t *testing.T) {
	refused := 0
	limits := &http2Limits{
		streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 100}), most: 4, refused: func() { refused++ },
	}
	u := newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
	for stream := uint32(1); stream < 16; stream += 2 {
		if err := u.received(frame{kind: typeHeaders, stream: stream}); err != nil {
			t.Fatalf("stream %d: %v", stream, err)
		}
	}
	if err := u.received(frame{kind: typeHeaders, stream: 17}); !errors.Is(err, errHTTP2Limit) || refused != 1 {
		t.Errorf("more than twice the maximum: %v, refused %d times", err, refused)
	}
	u.end()
	if held := limits.streams.Held(); held != 0 {
		t.Errorf("%d slots are held at the end", held)
	}
}

// net/http can close a connection while it reads or writes another frame.
func TestAnHTTP2ConnectionThatHasEndedTakesNothing(t *testing.T) {
	limits := &http2Limits{streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 8}), unread: limit.NewQuota[netip.Addr](1 << 30), most: 4}
	u := newHTTP2Usage(limits, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
	if err := u.received(frame{kind: typeHeaders, stream: 1}); err != nil {
		t.Fatal(err)
	}
	u.end()
	for _, err := range []error{
		u.received(frame{kind: typeHeaders, stream: 3}), u.received(frame{kind: typeData, stream: 1, length: 1 << 20}),
		u.sent(frame{kind: typeWindowUpdate, increment: 1 << 20}),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("a frame after the end: %v", err)
		}
	}
	if held := limits.streams.Held(); held != 0 || !limits.unread.Take(u.client, 1<<29) { // the share of one client
		t.Errorf("%d slots are held at the end, or bytes", held)
	}
}
