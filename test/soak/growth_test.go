package soak

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"atrium/test/nodes"
)

// growthLimits are the limits for the growth of a process between its first and last
// samples. Samples are taken without load and after a garbage collection. The remaining
// noise, from pooled connections and warming database caches, is small compared with a
// leak over many thousand requests.
var growthLimits = size{
	Goroutines: 40,
	Files:      40,
	Heap:       16 << 20,
	Anonymous:  64 << 20,
	Resident:   1 << 40, // reported but not checked: it includes pages of mapped files
}

// fileCaches is how much anonymous memory SQLite may additionally use for its caches as
// the file grows: 64 MiB for the writer, and 1 MiB for each of 64 readers.
const fileCaches = 128 << 20

func (s *soak) growthLimits() size {
	limits := growthLimits
	if s.file != "" {
		limits.Anonymous += fileCaches
	}
	return limits
}

// tellsGrowth is the minimum duration of a soak that can tell growth from warm-up.
const tellsGrowth = time.Minute

// A size has the resources of a process.
type size struct {
	Goroutines int64 `json:"goroutines"`
	Files      int64 `json:"files"`     // file descriptors
	Heap       int64 `json:"heap"`      // reachable bytes
	Anonymous  int64 `json:"anonymous"` // bytes of anonymous resident memory
	Resident   int64 `json:"resident"`  // bytes of resident memory
}

func (s size) each(other size, do func(name string, a, b int64)) {
	do("goroutines", s.Goroutines, other.Goroutines)
	do("files", s.Files, other.Files)
	do("heap", s.Heap, other.Heap)
	do("anonymous", s.Anonymous, other.Anonymous)
	do("resident", s.Resident, other.Resident)
}

// least returns the minimum of each figure.
func (s size) least(other size) size {
	return size{
		min(s.Goroutines, other.Goroutines), min(s.Files, other.Files), min(s.Heap, other.Heap),
		min(s.Anonymous, other.Anonymous), min(s.Resident, other.Resident),
	}
}

// A growth has the samples of each run of a process.
type growth struct {
	lives map[string][]size // by the name of the process
	order []string
}

func newGrowth() *growth { return &growth{lives: map[string][]size{}} }

func (g *growth) add(life string, s size) {
	if g.lives[life] == nil {
		g.order = append(g.order, life)
	}
	g.lives[life] = append(g.lives[life], s)
}

// judge returns which limits are exceeded. In a long run it compares the minimum of the
// first third of the samples with that of the last third.
func (g *growth) judge(limits size) (faults []string) {
	for _, life := range g.order {
		first, last := ends(g.lives[life])
		first.each(last, func(name string, before, after int64) {
			limits.each(limits, func(of string, limit, _ int64) {
				if of == name && after-before > limit {
					faults = append(faults, fmt.Sprintf("%s grew from %d to %d %s", life, before, after, name))
				}
			})
		})
	}
	return faults
}

// ends returns the minimum of the first third of samples, and of the last.
func ends(samples []size) (first, last size) {
	third := max(len(samples)/3, 1)
	first, last = samples[0], samples[len(samples)-1]
	for i := range third {
		first, last = first.least(samples[i]), last.least(samples[len(samples)-1-i])
	}
	return first, last
}

// calm is how long a sample waits for the minimum while connections are closed.
const calm = 4 * time.Second

// sample pauses the load and measures every process.
func (s *soak) sample() {
	s.load.Lock()
	defer s.load.Unlock()
	s.mu.Lock()
	for _, transport := range s.transports {
		transport.CloseIdleConnections()
	}
	s.mu.Unlock()
	for _, n := range s.nodes {
		m := s.newMeter(n)
		least := m.collect()
		for end := time.Now().Add(calm / time.Duration(len(s.nodes))); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			least = least.least(m.read())
		}
		s.growth.add(fmt.Sprintf("%s (process %d)", n.Addr, n.PID()), least)
	}
}

// A meter reads the metrics of a node.
type meter struct {
	s       *soak
	node    *nodes.Node
	metrics string // their address
	client  *http.Client
	lastGC  float64 // in seconds since 1970
}

var servesMetrics = regexp.MustCompile(`msg="serving metrics" addr=(\S+)`)

func (s *soak) newMeter(n *nodes.Node) *meter {
	addr := servesMetrics.FindStringSubmatch(n.Log())
	if addr == nil {
		s.t.Fatalf("%s serves no metrics", n.Addr)
	}
	return &meter{s: s, node: n, metrics: "http://" + addr[1] + "/metrics", client: nodes.Client(s.t)}
}

// collect makes the node collect its garbage twice, with rejected requests that need much
// memory, and returns its size.
func (m *meter) collect() size {
	least := m.read()
	body := bytes.Repeat([]byte(" "), 1_000_000)
	for cycles, last := 0, m.lastGC; cycles < 2; {
		r, err := http.NewRequest(http.MethodPost, "http://"+m.node.Addr+"/v0/account_logs", bytes.NewReader(body))
		if err != nil {
			m.s.t.Fatal(err)
		}
		r.Header.Set("x-api-key", m.s.tenants[0].key)
		res, err := m.client.Do(r)
		if err != nil || res.StatusCode != http.StatusBadRequest {
			m.s.t.Fatalf("a sample: %v, %v", res, err)
		}
		_ = res.Body.Close()
		least = least.least(m.read())
		if m.lastGC > last {
			cycles, last = cycles+1, m.lastGC
		}
	}
	return least
}

func (m *meter) read() (s size) {
	res, err := m.client.Get(m.metrics)
	if err != nil {
		m.s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		m.s.t.Fatal(err)
	}
	value := func(metric string) float64 {
		_, after, ok := strings.Cut(string(text), "\n"+metric+" ")
		line, _, _ := strings.Cut(after, "\n")
		f, err := strconv.ParseFloat(line, 64)
		if !ok || err != nil {
			m.s.t.Fatalf("the metric %s is %q", metric, line)
		}
		return f
	}
	m.lastGC = value("go_memstats_last_gc_time_seconds")
	return size{
		Goroutines: int64(value("go_goroutines")),
		Files:      int64(value("process_open_fds")),
		Heap:       int64(value("go_memstats_heap_alloc_bytes")),
		Anonymous:  anonymous(m.node.PID()),
		Resident:   int64(value("process_resident_memory_bytes")),
	}
}

// anonymous returns the anonymous memory of a process, or 0 if the system does not report
// it.
func anonymous(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for in := bufio.NewScanner(f); in.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(in.Text(), "RssAnon: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
