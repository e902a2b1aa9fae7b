package console

import (
	"testing"
	"time"
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

func TestRangesHaveWholeBars(t *testing.T) {
	for _, r := range chartRanges {
		if r.hours%r.barHours != 0 || 24%r.barHours != 0 {
			t.Errorf("%+v", r)
		}
		bar := time.Duration(r.barHours) * time.Hour
		if at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Truncate(bar); at.Hour()%r.barHours != 0 {
			t.Errorf("bars of %s start at %s", r.name, at)
		}
	}
}
