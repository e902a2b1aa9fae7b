package console

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"atrium"
)

func TestBarsOfAChartHaveItsCounts(t *testing.T) {
	all := []series{{Source: "crm", Type: "deal", Class: "series1"}, {Source: "ads", Type: "click", Class: "series2"}, {Class: "others"}}
	b := stackedBar{X: 40, Counts: []int64{600, 0, 1}}
	b.stack(all, 601)
	if len(b.Parts) != 2 || b.Parts[0] != (barPart{"series1", 1, 159}) || b.Parts[1] != (barPart{"others", 0, 1}) {
		t.Errorf("parts %+v", b.Parts)
	}
}

func TestSeriesAreSortedByTheirTotals(t *testing.T) {
	all := seriesOf([]entryCount{{"", "", "", 9}, {"", "crm", "deal", 1}, {"", "ads", "click", 2}, {"", "crm", "deal", 2}})
	if len(all) != 3 || all[0].Title() != "crm deal" || all[0].Total != 3 || all[1].Title() != "ads click" || all[2].Title() != "all others" {
		t.Errorf("series %+v", all)
	}
}

// A color must not follow the rank: after a busy hour of another source, the chart would say something else.
func TestASeriesKeepsItsColor(t *testing.T) {
	one := []series{{Source: "crm", Type: "deal"}, {Source: "ads", Type: "click"}, {Source: "web", Type: "view"}, {Source: "web", Type: "form"}, {Source: "shop", Type: "order"}, {}}
	other := []series{one[3], one[0], one[4], one[2], one[1], one[5]}
	colorSeries(one)
	colorSeries(other)
	used := map[string]bool{}
	for _, s := range one {
		i := slices.IndexFunc(other, func(o series) bool { return o.Source == s.Source && o.Type == s.Type })
		if other[i].Class != s.Class || used[s.Class] || s.Class == "" {
			t.Errorf("%s %s has the color %q, and %q in another order", s.Source, s.Type, s.Class, other[i].Class)
		}
		used[s.Class] = true
	}
	if !used["others"] {
		t.Error("all others have a color of a series")
	}
}

func TestTheTopOfAnAxisIsRound(t *testing.T) {
	for count, want := range map[int64]int64{0: 6, 3: 6, 6: 6, 7: 8, 9: 10, 11: 20, 41: 60, 61: 80, 81: 100, 101: 200, 999: 1000, 4_300: 6_000} {
		if got := roundUp(count); got != want || got%2 != 0 {
			t.Errorf("%d: %d, want %d", count, got, want)
		}
	}
}

// A new tenant has one account that it did not create.
func TestTheNewestAccountsLeaveOutThatOfEntriesWithoutOne(t *testing.T) {
	accounts := []account{{Domain: atrium.UnattributedDomain}}
	for i := range newestAccounts + 1 {
		accounts = append(accounts, account{Domain: strconv.Itoa(i) + ".example"})
	}
	if got := newest(accounts); len(got) != newestAccounts || got[0].Domain != "0.example" {
		t.Errorf("%+v", got)
	}
}

func TestRangesHaveWholeBars(t *testing.T) {
	for _, r := range chartRanges {
		if r.hours%r.barHours != 0 || 24%r.barHours != 0 {
			t.Errorf("%+v", r)
		}
		if bars := r.hours / r.barHours; bars%r.ticks != 0 || r.ticks < 3 || r.ticks > 5 {
			t.Errorf("the ticks of %s are not at bars", r.name)
		}
		bar := time.Duration(r.barHours) * time.Hour
		if at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Truncate(bar); at.Hour()%r.barHours != 0 {
			t.Errorf("bars of %s start at %s", r.name, at)
		}
	}
}
