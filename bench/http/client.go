package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A kind is one kind of request. request returns the nth one, complete with its
// head; it is called by many goroutines.
type kind struct {
	name    string
	status  int
	request func(n int) []byte
}

type answer struct {
	status int
	body   []byte
}

// once sends a request on a connection of its own.
func once(addr string, request []byte) (answer, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(request); err != nil {
		return answer{}, err
	}
	var body bytes.Buffer
	status, err := read(bufio.NewReader(conn), &body)
	return answer{status, body.Bytes()}, err
}

// read takes one answer off a connection. It knows as much of HTTP/1.1 as the
// two servers use: a Content-Length always.
func read(r *bufio.Reader, body io.Writer) (status int, err error) {
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
	length := int64(-1)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("an answer without Content-Length")
	}
	_, err = io.CopyN(body, r, length)
	return status, err
}

type result struct {
	rate     float64 // requests a second
	cpu      float64 // of the server, in microseconds a request
	p50, p99 time.Duration
}

// requests counts all that were ever sent, so that no two are the same.
var requests atomic.Int64

// load keeps every connection busy for the length of a round; they go to the
// processes in turn. An answer with another status than the kind's is an error.
func load(ctx context.Context, o options, k kind, to ...*process) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.round)
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	var errs []error
	var wg sync.WaitGroup
	cpu := func() (total time.Duration) {
		for _, p := range to {
			total += p.cpuTime()
		}
		return total
	}
	before := cpu()
	start := time.Now()
	for i := range o.connections {
		wg.Go(func() {
			times, err := loop(ctx, to[i%len(to)].addr, k)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			errs = append(errs, err)
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	used := cpu() - before
	if err := errors.Join(errs...); err != nil {
		return result{}, err
	}
	if len(all) == 0 {
		return result{}, errors.New("nothing was answered in a round")
	}
	slices.Sort(all)
	n := len(all)
	return result{
		rate: float64(n) / elapsed.Seconds(),
		cpu:  float64(used.Microseconds()) / float64(n),
		p50:  all[n/2], p99: all[n*99/100],
	}, nil
}

func loop(ctx context.Context, addr string, k kind) (times []time.Duration, err error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 64<<10)
	for ctx.Err() == nil {
		request := k.request(int(requests.Add(1)))
		start := time.Now()
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		status, err := read(in, io.Discard)
		if err != nil {
			return nil, err
		}
		if status != k.status {
			return nil, fmt.Errorf("status %d, want %d", status, k.status)
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}
