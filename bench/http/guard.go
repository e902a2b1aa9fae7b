package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"atrium/bench/server"
	"atrium/bench/workload"
)

// The guard compares ratios with those of a file in the repository. It never compares
// times, which depend on the machine.
//
// For each row it has two ratios to a bare net/http handler that takes turns with the
// service in short rounds: that of the rates, which drops with any wait in a request, and
// that of the CPU time, which hardly depends on other load on the machine. Other load in a
// few rounds does not change a median. To tolerate longer disturbances, a failed row is
// measured again with twice the rounds: it fails only if both attempts do.
//
// The tolerance is measured too. The file has the lowest of several complete measurements,
// and a tolerance that is derived from their spread.

// A reference is the expected value of one ratio of a row.
type reference struct {
	Engine    string  `json:"engine"`
	Row       string  `json:"row"`
	Ratio     string  `json:"ratio"`     // rate or processor
	Least     float64 `json:"least"`     // the lowest median of the measurements
	Tolerance float64 `json:"tolerance"` // fraction by which a median may be lower
}

func (r reference) floor() float64 { return r.Least * (1 - r.Tolerance) }

func (r reference) key() key { return key{r.Engine, r.Row, r.Ratio} }

type key struct{ engine, row, ratio string }

func (k key) String() string { return k.row + " on " + k.engine + ", " + k.ratio }

// The ratios of a row.
const (
	rateRatio      = "rate"
	processorRatio = "processor"
)

// References are the contents of the file.
type references struct {
	Comment string      `json:"comment"`
	Rows    []reference `json:"rows"`
}

const guardComment = "Written by make bench-guard-update: ratios to a bare net/http handler that make bench-guard compares with."

// The guarded rows.
var guarded = map[string][]string{
	sqliteEngine:   {workload.GetAccount, workload.PostEntry, workload.PatchName, workload.ListPages, workload.GetPage, workload.GetVersions},
	postgresEngine: {workload.GetAccount, workload.PostEntry},
}

const (
	guardProcessors = 2 // CPUs that all processes run on, even if there are more

	guardRounds   = 9
	guardRound    = 500 * time.Millisecond
	guardAccounts = 2000

	leastTolerance = 0.15 // even if the measurements agree: they were made on one day
	mostTolerance  = 0.30 // a row that varies more is guarded poorly, but a drop to half is still detected

	// waitingTolerance is that of requests on PostgreSQL, and of changes. A bare handler neither calls another process nor
	// waits for a disk, so the ratios depend on what these cost on a machine: one binary had 0.18 on one machine and 0.14 on
	// another.
	waitingTolerance = mostTolerance
	spreads          = 2 // the tolerance, as a multiple of the spread
)

// guard fails if a ratio has dropped below its reference.
func guard(ctx context.Context, o options) error {
	if err := narrow(guardProcessors); err != nil {
		return err
	}
	text, err := os.ReadFile(o.guard)
	if err != nil {
		return err
	}
	var file references
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return fmt.Errorf("%s: %w", o.guard, err)
	}
	if n := runtime.NumCPU(); n < guardProcessors {
		say("the ratios in %s are for %d CPUs; this machine has %d", o.guard, guardProcessors, n)
	}
	first, err := o.guarded(ctx, guardRounds, nil)
	if err != nil {
		return err
	}
	file.Rows = slices.DeleteFunc(file.Rows, func(r reference) bool { return !o.wants(r.Row) || !o.on(r.Engine) })
	if missing := unguarded(file.Rows, first); len(missing) > 0 {
		return fmt.Errorf("%s has no reference for %v: run make bench-guard-update", o.guard, missing)
	}
	t, fallen, err := judge(file.Rows, first)
	if err != nil {
		return fmt.Errorf("%s: %w: run make bench-guard-update", o.guard, err)
	}
	fmt.Fprintln(os.Stdout, t)
	if len(fallen) == 0 {
		return nil
	}
	say("measuring %d rows again", len(fallen))
	second, err := o.guarded(ctx, 2*guardRounds, fallen)
	if err != nil {
		return err
	}
	t, again, err := judge(fallen, second)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, t)
	if len(again) > 0 {
		return fmt.Errorf("%d ratios dropped in both attempts: see CONTRIBUTING.md", len(again))
	}
	return nil
}

// judge compares medians with their references, and returns the references that they fall
// below. Every reference must have a measurement.
func judge(rows []reference, measured map[key]float64) (t *table, fallen []reference, err error) {
	t = &table{left: 1}
	t.add("guard", "ratio", "at least", "of", "")
	for _, r := range rows {
		got, found := measured[r.key()]
		if !found || math.IsNaN(got) {
			return nil, nil, fmt.Errorf("no measurement of %s", r.key())
		}
		verdict := ""
		if got < r.floor() {
			fallen = append(fallen, r)
			verdict = "fell"
		}
		t.add(r.key().String(), fmt.Sprintf("%.3f", got), fmt.Sprintf("%.3f", r.floor()), fmt.Sprintf("%.3f", r.Least), verdict)
	}
	return t, fallen, nil
}

// unguarded returns the measurements without a reference.
func unguarded(rows []reference, measured map[key]float64) (all []key) {
	for k := range measured {
		if !slices.ContainsFunc(rows, func(r reference) bool { return r.key() == k }) {
			all = append(all, k)
		}
	}
	return all
}

// updateGuard measures all rows several times, and writes the file.
func updateGuard(ctx context.Context, o options) error {
	if o.guard == "" {
		return errors.New("-update needs -guard")
	}
	if err := narrow(guardProcessors); err != nil {
		return err
	}
	runs := map[key][]float64{}
	for n := range o.update {
		say("measurement %d of %d", n+1, o.update)
		measured, err := o.guarded(ctx, guardRounds, nil)
		if err != nil {
			return err
		}
		for k, v := range measured {
			runs[k] = append(runs[k], v)
		}
	}
	file := references{Comment: guardComment, Rows: refer(runs)}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.guard, append(text, '\n'), 0o644)
}

// refer derives references from the medians of several measurements.
func refer(runs map[key][]float64) (rows []reference) {
	for k, medians := range runs {
		least, most := slices.Min(medians), slices.Max(medians)
		tolerance := min(max(spreads*(most-least)/most, leastTolerance), mostTolerance)
		if k.engine == postgresEngine || k.row == workload.PatchName {
			tolerance = waitingTolerance
		}
		rows = append(rows, reference{k.engine, k.row, k.ratio, digits(least), digits(tolerance)})
	}
	slices.SortFunc(rows, func(a, b reference) int {
		return strings.Compare(a.Engine+a.Row+a.Ratio, b.Engine+b.Row+b.Ratio)
	})
	return rows
}

// digits rounds to three significant digits.
func digits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // parses its own output
	return rounded
}

// guarded measures the guarded rows, or only those of the given references, and returns
// the medians of their ratios.
func (o options) guarded(ctx context.Context, rounds int, only []reference) (map[key]float64, error) {
	o.rounds, o.round, o.accounts = rounds, guardRound, guardAccounts
	measured := map[key]float64{}
	for _, engine := range []string{sqliteEngine, postgresEngine} {
		names := slices.DeleteFunc(slices.Clone(guarded[engine]), func(name string) bool {
			return !o.wants(name) || only != nil && !slices.ContainsFunc(only, func(r reference) bool { return r.Engine == engine && r.Row == name })
		})
		if len(names) == 0 || !o.on(engine) {
			continue
		}
		if err := o.guardedOn(ctx, engine, names, measured); err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
	}
	return measured, nil
}

func (o options) guardedOn(ctx context.Context, engine string, names []string, measured map[key]float64) error {
	database, settle := "", func(*server.Atrium, *workload.Workload) error { return nil }
	if engine == postgresEngine {
		db, url, err := startPostgres() //nolint:contextcheck // it is for tests, and takes no context
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		database = url
		settle = func(node *server.Atrium, w *workload.Workload) error {
			return o.settle(ctx, db.Bin(), url, w.Kinds(), node)
		}
	}
	node, err := o.startAtrium(ctx, database)
	if err != nil {
		return err
	}
	defer node.Stop()
	w, err := workload.Prepare(ctx, node, o.size())
	if err != nil {
		return err
	}
	if err := settle(node, w); err != nil {
		return err
	}
	bare, err := server.StartBare(ctx)
	if err != nil {
		return err
	}
	defer bare.Stop()
	for _, k := range w.Kinds() {
		if !slices.Contains(names, k.Name) {
			continue
		}
		say("guard, %s: %s", engine, k.Name)
		size, err := sizeOf(node.Addr(), k)
		if err != nil {
			return err
		}
		figures, err := alternate(ctx, o.rounds, o.requests(k, node), o.requests(server.BareKind(bare.Addr(), size), bare))
		if err != nil {
			return err
		}
		p := pair{ours: figures[0], theirs: figures[1]}
		measured[key{engine, k.Name, rateRatio}] = median(p.ratios())
		measured[key{engine, k.Name, processorRatio}] = median(p.costs())
	}
	return nil
}
