package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type list struct {
	Items []struct {
		PageID, Name, CreatedAt, Status string
	}
	HasMore    bool
	Limit      int
	NextCursor string
}

func (s *service) list(t *testing.T, query string) (l list) {
	t.Helper()
	r := get("/v0/pages?"+query, "x-api-key: "+s.north.key)
	a := s.send(t, r)
	if a.status != 200 {
		t.Fatalf("%s: %s", query, a)
	}
	if err := json.Unmarshal(a.body, &l); err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkExchange(t, r, a) {
		t.Errorf("%s: %s", query, fault)
	}
	return l
}

// pageLines are import lines of pages with only a few different creation times.
func pageLines(r *rand.Rand, prefix string, n int) string {
	var b bytes.Buffer
	for i := range n {
		name := fmt.Sprintf("%s%04d", prefix, i)
		fmt.Fprintf(&b, `{"kind":"page","pageId":"page_%026s","brandId":"b","name":%q,"pageContext":"","title":"","status":%q,`+
			`"actions":[],"scripts":[],"footerLinks":[],"createdAt":"2021-01-0%dT00:00:00.00%dZ"}`+"\n",
			fmt.Sprintf("%c%s", 'a'+r.IntN(26), name), name, []string{"draft", "published"}[r.IntN(2)], 1+r.IntN(9), r.IntN(3))
	}
	return b.String()
}

func TestPagingDuringChangesReturnsEachRemainingItemOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		r := rand.New(rand.NewPCG(1, 2)) // deterministic
		s.load(t, s.north, pageLines(r, "first", 300))
		for round, filter := range []string{"", "status=draft&"} {
			stays := map[string]bool{}
			all := s.list(t, filter+"limit=100")
			for l := all; ; l = s.list(t, filter+"limit=100&cursor="+l.NextCursor) {
				for _, p := range l.Items {
					stays[p.Name] = true
				}
				if !l.HasMore {
					break
				}
			}
			met := map[string]int{}
			gone := map[string]bool{}
			var order []string
			step := 0
			for l := s.list(t, filter+"limit=3"); ; step++ {
				for _, p := range l.Items {
					if gone[p.Name] {
						t.Errorf("%s is met after it was deleted", p.Name)
					}
					met[p.Name]++
					order = append(order, p.CreatedAt+p.PageID)
				}
				if len(l.Items) < l.Limit && l.HasMore {
					t.Errorf("%d items of %d, and more", len(l.Items), l.Limit)
				}
				if !l.HasMore {
					break
				}
				s.load(t, s.north, pageLines(r, fmt.Sprintf("later%d%03d", round, step), 2))
				name := fmt.Sprintf("first%04d", r.IntN(300))
				s.deletePage(t, name)
				gone[name] = true
				l = s.list(t, fmt.Sprintf("%slimit=%d&cursor=%s", filter, 1+r.IntN(9), l.NextCursor))
			}
			for name := range stays {
				if !gone[name] && met[name] != 1 {
					t.Errorf("%s, which was there throughout, is met %d times", name, met[name])
				}
			}
			for name, n := range met {
				if n > 1 {
					t.Errorf("%s is met %d times", name, n)
				}
			}
			if !slices.IsSortedFunc(order, func(a, b string) int { return -cmpText(a, b) }) {
				t.Errorf("pages are not met newest first, by descending identifier among equals")
			}
			if step < 20 {
				t.Errorf("the list ended after %d steps", step)
			}
		}
	})
}

func cmpText(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) }
