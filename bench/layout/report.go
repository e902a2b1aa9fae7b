package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// summary is the median of the rounds and their extremes.
type summary struct{ median, low, high float64 }

func summarize(xs []float64) summary {
	if len(xs) == 0 {
		return summary{}
	}
	s := slices.Sorted(slices.Values(xs))
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (m + s[len(s)/2-1]) / 2
	}
	return summary{median: m, low: s[0], high: s[len(s)-1]}
}

// ratios divides round by round, so that a noisy moment falls on both.
func ratios(over, under []float64) []float64 {
	rs := make([]float64, min(len(over), len(under)))
	for i := range rs {
		rs[i] = over[i] / under[i]
	}
	return rs
}

func printEntries(out io.Writer, o options, cs []*candidate) {
	fmt.Fprintf(out, "%d entries preloaded, %d rounds of %d in batches of %d; payload %d B, %.0f %% with a key; %d accounts of %d tenants,\n"+
		"%.0f %% of the entries to the busiest 1 %%, the rest uniform; pages of %d B, writer's cache %d KB, mmap %d MB\n\n",
		o.preload, o.rounds, o.perRound, o.batch, o.payload, o.keyed*100, o.accounts, o.tenants, o.hot*100, o.pageSize, o.cacheKB, o.mmapMB)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\trate\tspread\tcpu\tspread\tµs\tcpu µs\tWAL B\tfile B\tby key µs\tby id µs\tnewest 50 µs\t")
	first := cs[0]
	for _, c := range cs {
		rate := summarize(ratios(first.wall, c.wall))
		cpu := summarize(ratios(c.cpu, first.cpu))
		fmt.Fprintf(w, "%s\t%.2f\t%.2f–%.2f\t%.2f\t%.2f–%.2f\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\t%s\t\n",
			c.l.name, rate.median, rate.low, rate.high, cpu.median, cpu.low, cpu.high,
			summarize(c.wall).median, summarize(c.cpu).median, c.walBytes, c.fileBytes,
			orDash(c.reads["key"]), orDash(c.reads["id"]), orDash(c.reads["timeline"]))
	}
	w.Flush()
	fmt.Fprintf(out, "\nrate: entries a second as a ratio to %s; cpu: processor time an entry, as a ratio too\n"+
		"(the steadier of the two on a shared machine); µs, WAL and file bytes are per entry\n", first.l.name)
	for _, c := range cs {
		fmt.Fprintf(out, "  %-9s %s\n", c.l.name, c.l.about)
		for _, b := range c.btrees {
			fmt.Fprintf(out, "            %6.0f B per entry (%.0f in overflow pages), %.0f %% full: %s\n", b.perEntry, b.overflow, b.fillRatio*100, b.name)
		}
	}
	fmt.Fprintln(out)
}

func orDash(xs []float64) string {
	if len(xs) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", summarize(xs).median)
}

func printAccounts(out io.Writer, o options, rs []*linkRead) {
	fmt.Fprintf(out, "One account with %d linked prospects, of %d accounts; reader's cache %d KB\n\n", prospectsPerAccount, o.linkAccounts, readerCacheKB)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tqueries\tmmap MB\ttime\tspread\tcpu\tspread\tµs\tcpu µs\tfile B\t")
	for _, r := range rs {
		queries := "two"
		if r.one {
			queries = "one"
		}
		wall, cpu := summarize(ratios(r.wall, rs[0].wall)), summarize(ratios(r.cpu, rs[0].cpu))
		fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.2f–%.2f\t%.2f\t%.2f–%.2f\t%.1f\t%.1f\t%.0f\t\n", r.l.name, queries, r.mmapMB,
			wall.median, wall.low, wall.high, cpu.median, cpu.low, cpu.high,
			summarize(r.wall).median, summarize(r.cpu).median, r.fileBytes)
	}
	w.Flush()
	fmt.Fprintln(out, "\ntime and cpu: ratios to the first line; file bytes are per account, its prospects included")
}
