package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file implements the part of HTTP/1.1 that a load needs. An HTTP client library
// would use more CPU, which the servers share, than the servers do.

// A Response is a complete response.
type Response struct {
	Status int
	Body   []byte
}

// Once sends a request on a new connection.
func Once(addr string, request []byte) (Response, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return Response{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(longest)); err != nil {
		return Response{}, err
	}
	if _, err := conn.Write(request); err != nil {
		return Response{}, err
	}
	var body bytes.Buffer
	status, err := readResponse(bufio.NewReader(conn), &body)
	return Response{status, body.Bytes()}, err
}

// Get returns a GET request. Headers are lines without a line ending.
func Get(addr, path string, headers ...string) []byte {
	return request("GET", addr, path, nil, headers)
}

// Send returns a request with a body, which is JSON unless a header says otherwise.
func Send(method, addr, path string, body []byte, headers ...string) []byte {
	return request(method, addr, path, body, headers)
}

func request(method, addr, path string, body []byte, headers []string) []byte {
	b := make([]byte, 0, 256+len(body))
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, addr)
	for _, h := range headers {
		b = append(append(b, h...), "\r\n"...)
	}
	if body != nil {
		if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Content-Type:") }) {
			b = append(b, "Content-Type: application/json\r\n"...)
		}
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// readResponse reads one response from a connection, and copies its body to body unless that
// is nil. It supports Content-Length, and chunks without trailers.
func readResponse(r *bufio.Reader, body io.Writer) (status int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length, chunked := -1, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return 0, fmt.Errorf("length %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		}
	}
	switch {
	case chunked:
		return status, readChunks(r, body)
	case length < 0:
		return 0, errors.New("response has neither Content-Length nor chunks")
	}
	return status, take(r, length, body)
}

func readChunks(r *bufio.Reader, body io.Writer) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk %q", line)
		}
		if err := take(r, int(size), body); err != nil {
			return err
		}
		if err := take(r, len("\r\n"), nil); err != nil || size == 0 {
			return err
		}
	}
}

// take copies n bytes to a writer, or discards them.
func take(r *bufio.Reader, n int, to io.Writer) (err error) {
	if to == nil {
		_, err = r.Discard(n)
	} else {
		_, err = io.CopyN(to, r, int64(n))
	}
	return err
}
