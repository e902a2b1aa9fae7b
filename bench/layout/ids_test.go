package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestPackRoundTripsAndKeepsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	all := []string{strings.Repeat("0", 26), strings.Repeat("z", 26), strings.Repeat("0", 25) + "1",
		"z" + strings.Repeat("0", 25), strings.Repeat("z", 12) + strings.Repeat("0", 14)}
	for range 20_000 {
		var s [suffixLength]byte
		for i := range s {
			s[i] = alphabet[rng.IntN(36)]
		}
		all = append(all, string(s[:]))
	}
	for i, s := range all {
		b := pack(s)
		if got := unpack(b); got != s {
			t.Fatalf("unpack(pack(%q)) = %q", s, got)
		}
		if i == 0 {
			continue
		}
		o := pack(all[i-1])
		if bytes.Compare(b[:], o[:]) != strings.Compare(s, all[i-1]) {
			t.Fatalf("%q and %q change their order", s, all[i-1])
		}
	}
}

func TestMadeIdentifiersIncrease(t *testing.T) {
	m := &idMaker{now: time.UnixMilli(1_700_000_000_000), step: 50 * time.Microsecond, rng: rand.New(rand.NewPCG(1, 2))}
	last := ""
	for range 10_000 {
		id := m.next()
		if len(id) != suffixLength || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		last = id
	}
}

func BenchmarkPack(b *testing.B) {
	s := "01h455vb4pex5vsknk084sn02q"
	for b.Loop() {
		pack(s)
	}
}

func BenchmarkUnpack(b *testing.B) {
	p := pack("01h455vb4pex5vsknk084sn02q")
	for b.Loop() {
		unpack(p)
	}
}
