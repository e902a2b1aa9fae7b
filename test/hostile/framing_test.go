package hostile

import (
	"fmt"
	"strings"
	"testing"
)

// States of a connection after a response.
const (
	open  = true
	ended = false
)

// A framing is a request with an ambiguous or invalid end or beginning.
type framing struct {
	sent   string
	status int
	then   bool // open or ended
}

func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// framings returns the framings by name. smuggled is a complete request that must never be
// executed.
func framings(s *server, smuggled string) map[string]framing {
	const entry = `{"source":"framed","payload":{}}`
	const te = "Transfer-Encoding: chunked\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(entry))
	old := strings.Replace(s.head(""), "HTTP/1.1", "HTTP/1.0", 1)
	all := map[string]framing{
		// Content-Length. RFC 9110 section 8.6: digits only, and repeated values must be
		// equal.
		"a length with zeros before it":   {s.head(fmt.Sprintf("Content-Length: 000000000%d\r\n\r\n%s", len(entry), entry)), 201, open},
		"the same length twice":           {s.head(length + length + "\r\n" + entry), 201, open},
		"white space around a length":     {s.head(fmt.Sprintf("Content-Length: \t %d \t\r\n\r\n%s", len(entry), entry)), 201, open},
		"more in the length than a value": {s.head(fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", len(entry)+len(smuggled), entry, smuggled)), 400, open},
		"a length that is too short":      {s.head("Content-Length: 5\r\n\r\n" + entry + "\r\n\r\n"), 400, open},
		"a length of zero":                {s.head("Content-Length: 0\r\n\r\n"), 400, open},
		"two lengths":                     {s.head(length + "Content-Length: 5\r\n\r\n" + entry + smuggled), 400, ended},
		"no length":                       {s.head("\r\n"), 400, open},
		"a length beyond the limit":       {s.head("Content-Length: 1048577\r\n\r\n" + smuggled), 413, ended},
		"the greatest length":             {s.head("Content-Length: 9223372036854775807\r\n\r\n" + smuggled), 413, ended},
		"a space before a length's colon": {s.head(fmt.Sprintf("Content-Length : %d\r\n\r\n%s", len(entry), entry+smuggled)), 400, ended},

		// Transfer-Encoding. RFC 9112 section 6.1: not together with a length, and not in
		// HTTP/1.0; otherwise the connection is closed.
		"chunks":                              {s.head(te + "\r\n" + chunked(entry) + smuggled), 201, ended},
		"chunks and a length":                 {s.head(te + "Content-Length: 5\r\n\r\n" + chunked(entry) + smuggled), 201, ended},
		"a length and chunks":                 {s.head("Content-Length: 5\r\n" + te + "\r\n" + chunked(entry) + smuggled), 201, ended},
		"a length that ends before a request": {s.head("Content-Length: 5\r\n" + te + "\r\n0\r\n\r\n" + smuggled), 400, ended},
		"chunks with a GET":                   {s.get("/healthz", te) + chunked(entry) + smuggled, 200, ended},
		"chunks without a key":                {"POST /v0/account_logs HTTP/1.1\r\nHost: a\r\n" + te + "\r\n" + chunked(entry) + smuggled, 401, ended},
		"chunks to nowhere":                   {"POST /nowhere HTTP/1.1\r\nHost: a\r\n" + te + "\r\n" + chunked(entry) + smuggled, 404, ended},
		"chunks in another case":              {s.head("tRANSFER-eNCODING: ChUnKeD\r\n\r\n" + chunked(entry) + smuggled), 201, ended},
		"chunks on a folded line":             {s.head("Transfer-Encoding:\r\n chunked\r\n\r\n" + chunked(entry) + smuggled), 201, ended},
		"chunks behind a bare line feed":      {s.head("X: y\n" + te + "\r\n" + chunked(entry) + smuggled), 201, ended},
		"chunks behind a bare return":         {s.head("X: y\r" + te + "\r\n" + chunked(entry) + smuggled), 400, ended},
		"chunks under a name that is none":    {s.head("Transfer_Encoding: chunked\r\n\r\n"), 400, open},
		"chunks behind a NUL":                 {s.head("Transfer-Encoding: \x00chunked\r\n\r\n" + chunked(entry) + smuggled), 400, ended},
		"chunks before a vertical tab":        {s.head("Transfer-Encoding: chunked\x0b\r\n\r\n" + chunked(entry) + smuggled), 400, ended},
		"a space before the colon":            {s.head("Transfer-Encoding : chunked\r\n\r\n" + chunked(entry) + smuggled), 400, ended},
		"chunks in HTTP/1.0":                  {old + te + "\r\n" + chunked(entry) + smuggled, 400, ended},
		"chunks in a lasting HTTP/1.0":        {old + te + "Connection: keep-alive\r\n\r\n" + smuggled, 400, ended},
		"both in a lasting HTTP/1.0":          {old + te + length + "Connection: keep-alive\r\n\r\n" + entry + smuggled, 201, ended},
		"a lasting HTTP/1.0":                  {old + length + "Connection: keep-alive\r\n\r\n" + entry, 201, ended},

		// Chunks. RFC 9112 section 7.1.
		"a chunk with an extension":  {s.head(te + fmt.Sprintf("\r\n%x;a=b\r\n%s\r\n0;c\r\n\r\n%s", len(entry), entry, smuggled)), 201, ended},
		"a chunk with zeros":         {s.head(te + fmt.Sprintf("\r\n00%x\r\n%s\r\n000\r\n\r\n%s", len(entry), entry, smuggled)), 201, ended},
		"an endless extension":       {s.head(te + fmt.Sprintf("\r\n%x;%s", len(entry), strings.Repeat("x", 1<<20))), 400, ended},
		"extensions without an end":  {s.head(te + "\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n \r\n", 1000)), 400, ended},
		"empty lines between chunks": {s.head(te + "\r\n" + strings.Repeat("\r\n", 100_000)), 400, ended},
		"a trailer":                  {s.head(te + fmt.Sprintf("Trailer: X-A\r\n\r\n%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n%s", len(entry), entry, smuggled)), 201, ended},
		"a huge trailer":             {s.head(te + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\nX-A: %s\r\n\r\n%s", len(entry), entry, strings.Repeat("x", 1<<20), smuggled)), 400, ended},
		"many trailers":              {s.head(te + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n%s\r\n%s", len(entry), entry, strings.Repeat("X-A: b\r\n", 100_000), smuggled)), 400, ended},
		"a trailer that frames":      {s.head(te + "Trailer: Content-Length\r\n\r\n" + chunked(entry) + smuggled), 400, ended},
		"the key in a trailer": {
			"POST /v0/account_logs HTTP/1.1\r\nHost: a\r\n" + te + "Trailer: X-Api-Key\r\n\r\n" +
				fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Api-Key: %s\r\n\r\n", len(entry), entry, s.key), 401, ended,
		},

		// Versions. RFC 9110 section 15.6.6 defines the 505.
		"HTTP/0.9":           {"GET /healthz\r\n", 400, ended},
		"HTTP/0.9, named":    {"GET /healthz HTTP/0.9\r\nHost: a\r\n\r\n" + smuggled, 505, ended},
		"HTTP/2.0":           {"GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n" + smuggled, 505, ended},
		"HTTP/1.10":          {"GET /healthz HTTP/1.10\r\nHost: a\r\n\r\n" + smuggled, 400, ended},
		"http/1.1":           {"GET /healthz http/1.1\r\nHost: a\r\n\r\n" + smuggled, 400, ended},
		"HTTP/1.2":           {"GET /healthz HTTP/1.2\r\nHost: a\r\n\r\n", 200, open},
		"no host":            {"GET /healthz HTTP/1.1\r\n\r\n" + smuggled, 400, ended},
		"two hosts":          {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + smuggled, 400, ended},
		"a host that is non": {"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n" + smuggled, 400, ended},
		"TLS":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 100) + "\r\n\r\n", 400, ended},
		"binary":             {strings.Repeat("\x00\xff", 1000) + "\r\n\r\n", 400, ended},
		"a greeting":         {"EHLO atrium.test\r\n\r\n", 400, ended},
		"HTTP/2's preface":   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 404, ended},

		// Requests to upgrade to another protocol are ignored (RFC 9110 section 7.8).
		"an upgrade to HTTP/2":      {s.get("/healthz", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), 200, open},
		"an upgrade to a websocket": {s.get("/v0/pages", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"), 200, open},
		"an unknown expectation":    {s.head("Expect: the-best\r\n" + length + "\r\n" + entry + smuggled), 417, ended},

		// Headers above the limit.
		"a long request line":   {"GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled, 431, ended},
		"an endless line":       {"GET /" + strings.Repeat("a", 8<<20), 431, ended},
		"an endless method":     {strings.Repeat("A", 8<<20), 431, ended},
		"a long header":         {s.get("/healthz", "X: "+strings.Repeat("a", 64<<10)+"\r\n") + smuggled, 431, ended},
		"a long name":           {s.get("/healthz", strings.Repeat("a", 64<<10)+": a\r\n") + smuggled, 431, ended},
		"many headers":          {s.get("/healthz", strings.Repeat("X: a\r\n", 20_000)) + smuggled, 431, ended},
		"many folded lines":     {s.get("/healthz", "X: a\r\n"+strings.Repeat(" a\r\n", 20_000)) + smuggled, 431, ended},
		"empty lines before it": {strings.Repeat("\r\n", 1<<20), 400, ended},
	}
	for _, length := range []string{"", "-1", "-0", "+32", "0x20", "3 2", "32,32", "32, 32", "32;", "32.0", "3.2e1", "٣٢", "18446744073709551648", strings.Repeat("9", 1000)} {
		all[fmt.Sprintf("the length %.40q", length)] = framing{s.head("Content-Length: " + length + "\r\n\r\n" + entry + smuggled), 400, ended}
	}
	for _, coding := range []string{
		"", "identity", "xchunked", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked", "chunked;q=1", `"chunked"`,
		"cow", "\xffchunked", "chunked\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: identity",
	} { // RFC 9112 section 6.1 requires 501
		all[fmt.Sprintf("the coding %q", coding)] = framing{s.head("Transfer-Encoding: " + coding + "\r\n\r\n" + chunked(entry) + smuggled), 501, ended}
	}
	for _, size := range []string{"", "0x20", "+20", "-1", "g", "20 x", "fffffffffffffffff", "20\n", "20\r"} {
		all[fmt.Sprintf("the size %q", size)] = framing{s.head(te + "\r\n" + size + "\r\n" + entry + "\r\n0\r\n\r\n" + smuggled), 400, ended}
	}
	return all
}

func TestRequestSmugglingIsImpossible(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		framings := framings(s, s.post("smuggled", ""))
		framed := 0
		s.outlives(t, func() {
			for name, f := range framings {
				c := s.dial(t)
				c.send(f.sent)
				a, err := c.response("POST")
				if err != nil || a.status != f.status {
					t.Errorf("%s: %v %v, want %d", name, a, err, f.status)
				}
				if a.status == 201 {
					framed++
				}
				switch {
				case f.then == ended:
					c.ended(name)
				case name == "a length that is too short": // the rest is not a valid request
					if a := c.must("POST"); a.status != 400 {
						t.Errorf("%s: what follows is %v", name, a)
					}
					c.ended(name)
				default:
					c.usable(name)
				}
				c.end()
			}
		})
		if n := s.stored(t, "smuggled"); n != 0 {
			t.Errorf("%d requests were smuggled", n)
		}
		if n := s.stored(t, "framed"); n != framed {
			t.Errorf("%d entries are stored, and %d were acknowledged", n, framed)
		}
	})
}
