package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"atrium/bench/load"
)

// report returns the tables of one size, in Markdown.
func (e *experiment) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d entries of %d accounts, payloads of %d bytes; rounds of %d entries; jobs process %d keys\n", e.size, e.accounts(), e.payload, e.window, e.fresh)
	e.reportAppends(&b)
	e.reportLayouts(&b)
	e.reportPosts(&b)
	return b.String()
}

// line writes a row of a table.
func line(b *strings.Builder, cells ...any) {
	for _, c := range cells {
		switch v := c.(type) {
		case float64:
			fmt.Fprintf(b, "| %.2f ", v)
		default:
			fmt.Fprintf(b, "| %v ", v)
		}
	}
	b.WriteString("|\n")
}

// reportAppends writes the work per appended entry, including that of the jobs per key. The last columns compare the
// processor time with that of the unique index in the same round, and the difference with the processor time of a
// request with a random key.
func (e *experiment) reportAppends(b *strings.Builder) {
	b.WriteString("\n")
	line(b, "layout", "entries per commit", "WAL pages", "of the job", "bytes written", "of the job", "pages read", "processor µs", "of the job", "ratio", "of POST")
	line(b, "---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for batch, size := range e.batches {
		for i, s := range subjects {
			job := e.jobs[i]
			if job.units == 0 { // the layout has no job
				job = work{units: 1}
			}
			w := e.counted[i][batch]
			var cpu, ratio, more []float64
			for round, timed := range e.timed[i][batch] {
				micros, index := timed.micros()+job.micros(), e.timed[indexed][batch][round].micros()
				cpu, ratio, more = append(cpu, micros), append(ratio, micros/index), append(more, micros-index)
			}
			line(b, s.name, size, w.per(w.frames)+job.per(job.frames), job.per(job.frames), whole(w.per(w.written)+job.per(job.written)), whole(job.per(job.written)),
				w.per(w.pagesRead()), median(cpu), job.micros(), spread(ratio), e.ofPost(median(more)))
		}
	}
}

// ofPost returns the share of the processor time of a request.
func (e *experiment) ofPost(micros float64) string {
	if len(e.posts) == 0 {
		return ""
	}
	cpu, _ := e.compare(e.posts[0], processor)
	return fmt.Sprintf("%+.0f %%", 100*micros/median(cpu))
}

// reportLayouts writes the size of the keys, and the pages read per lookup.
func (e *experiment) reportLayouts(b *strings.Builder) {
	b.WriteString("\n")
	line(b, "layout", "file bytes per entry", "pages read, new key", "pages read, old key", "memory KiB", "read in ms")
	line(b, "---", "---:", "---:", "---:", "---:", "---:")
	for i, s := range subjects {
		if s.tables == nil {
			continue
		}
		total := int64(0)
		for _, name := range s.tables {
			total += e.bytes[name]
		}
		line(b, s.name, float64(total)/float64(e.size)+float64(s.rowBytes()), e.absent[i].per(e.absent[i].pagesRead()), e.present[i].per(e.present[i].pagesRead()),
			e.memory[i]>>10, e.loaded[i].Milliseconds())
	}
	all := int64(0)
	for _, n := range e.bytes {
		all += n
	}
	fmt.Fprintf(b, "\nAll layouts together: %.0f bytes per entry; rows of entries: %.0f; their index by account: %.0f\n",
		float64(all)/float64(e.size), float64(e.bytes["entries"])/float64(e.size), float64(e.bytes["entries_by_account"])/float64(e.size))
}

// reportPosts writes the rates and processor times of requests, and their ratios to those with random keys.
func (e *experiment) reportPosts(b *strings.Builder) {
	if len(e.posts) == 0 {
		return
	}
	b.WriteString("\n")
	line(b, "POST entry", "requests/s", "rate, ratio", "processor µs", "processor, ratio")
	line(b, "---", "---:", "---:", "---:", "---:")
	for _, p := range e.posts {
		rate, rates := e.compare(p, load.Report.Rate)
		cpu, cpus := e.compare(p, processor)
		line(b, p.Name, whole(median(rate)), spread(rates), whole(median(cpu)), spread(cpus))
	}
}

// compare returns a figure of each round, and its ratio to that of random keys.
func (e *experiment) compare(p post, figure func(load.Report) float64) (all, ratios []float64) {
	for round, r := range p.rounds {
		all = append(all, figure(r))
		ratios = append(ratios, figure(r)/figure(e.posts[0].rounds[round]))
	}
	return all, ratios
}

// processor returns the microseconds per request.
func processor(r load.Report) float64 { return float64(r.CPUPerRequest()) / float64(time.Microsecond) }

func whole(n float64) string { return fmt.Sprintf("%.0f", n) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// spread returns the median of ratios, their minimum and their maximum.
func spread(ratios []float64) string {
	if len(ratios) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}
