package atrium

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestIdentifiersAreTypeIDs(t *testing.T) {
	// The valid vectors of the TypeID specification, version 0.3.
	for uuid, want := range map[string]string{
		"00000000000000000000000000000000": "00000000000000000000000000",
		"00000000000000000000000000000001": "00000000000000000000000001",
		"0000000000000000000000000000000a": "0000000000000000000000000a",
		"00000000000000000000000000000010": "0000000000000000000000000g",
		"00000000000000000000000000000020": "00000000000000000000000010",
		"ffffffffffffffffffffffffffffffff": "7zzzzzzzzzzzzzzzzzzzzzzzzz",
		"0110c8531d0952d8d73e1194e95b5f19": "0123456789abcdefghjkmnpqrs",
		"01890a5dac96774bbcceb302099a8057": "01h455vb4pex5vsknk084sn02q",
	} {
		var id [16]byte
		if _, err := hex.Decode(id[:], []byte(uuid)); err != nil {
			t.Fatal(err)
		}
		if got := string(appendBase32(nil, id)); got != want {
			t.Errorf("%s is encoded as %s, want %s", uuid, got, want)
		}
	}
}

func TestIdentifiersIncrease(t *testing.T) {
	var u uuids
	start := time.UnixMilli(1_700_000_000_000)
	var last string
	for n, step := range []time.Duration{0, 0, time.Nanosecond, time.Millisecond, -time.Hour, 0, time.Second, -time.Minute, 2 * time.Hour} {
		for range 5000 { // more than there are values in a millisecond
			start = start.Add(step)
			id := u.next(start)
			if id[6]>>4 != 7 || id[8]>>6 != 2 {
				t.Fatalf("%x is not a UUIDv7", id)
			}
			text := string(appendBase32(nil, id))
			if text <= last {
				t.Fatalf("step %d: %s came after %s", n, text, last)
			}
			last, step = text, 0
		}
	}
}

func TestIdentifiersAreUniqueAndOrderedForEachGoroutine(t *testing.T) {
	const each, goroutines = 2000, 8
	all := make([][]AccountID, goroutines)
	var wg sync.WaitGroup
	for g := range all {
		wg.Go(func() {
			for range each {
				all[g] = append(all[g], NewID[AccountID]())
			}
		})
	}
	wg.Wait()
	seen := map[AccountID]bool{}
	for _, ids := range all {
		if !slices.IsSorted(ids) {
			t.Error("one goroutine saw identifiers out of order")
		}
		for _, id := range ids {
			seen[id] = true
			if _, ok := ParseID[AccountID](string(id)); !ok {
				t.Fatalf("%s is not an identifier", id)
			}
		}
	}
	if len(seen) != each*goroutines {
		t.Errorf("%d unique identifiers, want %d", len(seen), each*goroutines)
	}
}

func TestAnIdentifierIsItsPrefixAnd26Characters(t *testing.T) {
	good := strings.Repeat("z", 13) + strings.Repeat("0", 13)
	for text, ok := range map[string]bool{
		"account_" + good:              true,
		"account_" + good[1:]:          false,
		"account_" + good + "0":        false,
		"account_" + good[1:] + "A":    false,
		"account_" + good[1:] + "\n":   false,
		"account_" + good[2:] + "é":    false,
		"Account_" + good:              false,
		"prospectlog_" + good:          false,
		"account-" + good:              false,
		"":                             false,
		good:                           false,
		"account_" + good[1:] + "\x00": false,
	} {
		if id, got := ParseID[AccountID](text); got != ok || ok && string(id) != text {
			t.Errorf("ParseID(%q) = %q, %v", text, id, got)
		}
	}
}

func TestIDTimeIsTheTimeOfFirstID(t *testing.T) {
	at := time.UnixMilli(1_772_600_887_123)
	first, next := FirstID[EntryID](at), FirstID[EntryID](at.Add(time.Millisecond))
	for _, c := range []struct {
		id   EntryID
		want time.Time
	}{
		{first, at},
		{next, at.Add(time.Millisecond)},
		{first[:len(first)-1] + "z", at},
		{FirstID[EntryID](time.UnixMilli(0)), time.UnixMilli(0)},
		{"prospectlog_0000000000zzzzzzzzzzzzzzzz", time.UnixMilli(0)},
		{"prospectlog_zzzzzzzzzzzzzzzzzzzzzzzzzz", time.UnixMilli(1<<48 - 1)},
		{"prospectlog_0000000i00zzzzzzzzzzzzzzzz", IDTime(EntryID("prospectlog_0000000hzzzzzzzzzzzzzzzzzz"))},
	} {
		if got := IDTime(c.id); !got.Equal(c.want) {
			t.Errorf("time of %s is %s, want %s", c.id, got, c.want)
		}
	}
	for range 1000 {
		id := NewID[EntryID]()
		if got := IDTime(id); id < FirstID[EntryID](got) || id >= FirstID[EntryID](got.Add(time.Millisecond)) {
			t.Fatalf("time of %s is %s", id, got)
		}
	}
}
