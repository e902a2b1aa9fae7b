package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
)

// sqlite measures a node on a file.
func (r *report) sqlite(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "atrium-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	database := "sqlite:" + filepath.Join(dir, "bench.db")
	say("SQLite: %d accounts", r.accounts)
	node, err := r.startAtrium(ctx, database)
	if err != nil {
		return err
	}
	defer node.Stop() // has no effect on a stopped node
	w, err := workload.Prepare(ctx, node, r.size())
	if err != nil {
		return err
	}
	if r.wants("process") {
		if err := r.idle(node); err != nil {
			return err
		}
	}
	peak := watch(node.Process)
	err = r.rows(ctx, node, w)
	if err == nil && r.wants("mixes") {
		err = r.mixes(ctx, node, w)
	}
	r.loaded = peak()
	if err != nil || !r.wants("process") {
		return err
	}
	node.Stop()
	return r.starts(ctx, database)
}

func (r *report) rows(ctx context.Context, node *server.Atrium, w *workload.Workload) error {
	bare, err := server.StartBare(ctx)
	if err != nil {
		return err
	}
	defer bare.Stop()
	peers := map[string]load.Kind{}
	var peer *server.PocketBase
	if r.pocketbase != "" {
		records, to := io.Pipe()
		go func() { _ = to.CloseWithError(workload.Write(to, r.accounts)) }()
		if peer, err = server.StartPocketBase(ctx, r.pocketbase, records); err != nil {
			return err
		}
		defer peer.Stop()
		for _, k := range workload.PocketBaseKinds(peer, r.accounts, r.payload) {
			peers[k.Name] = k
		}
	}
	var alone *engineAlone
	if r.wants(workload.PostEntry) || r.wants(workload.GetAccount) {
		if alone, err = r.openAlone(ctx); err != nil {
			return err
		}
		defer alone.close()
	}

	for _, k := range w.Kinds() {
		if !r.wants(k.Name) {
			continue
		}
		say("SQLite: %s", k.Name)
		size, err := sizeOf(node.Addr(), k)
		if err != nil {
			return err
		}
		subjects := []subject{r.requests(k, node), r.requests(server.BareKind(bare.Addr(), size), bare)}
		references := []string{"bare net/http"}
		switch k.Name {
		case workload.PostEntry:
			if alone.batch, err = r.batchOf(ctx, node, k); err != nil {
				return err
			}
			subjects, references = append(subjects, alone.write), append(references, fmt.Sprintf("SQLite alone, %d rows a commit", alone.batch))
		case workload.GetAccount:
			subjects, references = append(subjects, alone.read), append(references, "SQLite alone, the same select")
		}
		if like, ok := peers[k.Name]; ok {
			subjects, references = append(subjects, r.requests(like, peer)), append(references, "PocketBase")
		}
		figures, err := alternate(ctx, r.rounds, subjects...)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		for i, name := range references {
			r.pairs = append(r.pairs, pair{"SQLite", k.Name, name, size, figures[0], figures[1+i]})
		}
	}
	return nil
}

// batchOf returns the node's mean number of entries per commit under the load.
func (r *report) batchOf(ctx context.Context, node *server.Atrium, k load.Kind) (int, error) {
	committed := func() (entries, commits float64, err error) {
		entries, err = node.Metric("atrium_ingest_batch_entries_sum")
		if err == nil {
			commits, err = node.Metric("atrium_ingest_batch_entries_count")
		}
		return entries, commits, err
	}
	entriesBefore, commitsBefore, err := committed()
	if err != nil {
		say("no batch size from the node, SQLite alone uses half of the connections: %v", err)
		return max(1, r.connections/2), nil
	}
	if _, err := r.requests(k, node)(ctx); err != nil {
		return 0, err
	}
	entries, commits, err := committed()
	if err != nil {
		return 0, err
	}
	return max(1, int(math.Round((entries-entriesBefore)/(commits-commitsBefore)))), nil
}

// watch samples the anonymous memory of a process until stop is called, which returns the
// highest value.
func watch(p *server.Process) (stop func() int64) {
	end, most := make(chan struct{}), make(chan int64)
	go func() {
		var peak int64
		for {
			if now, err := p.Anonymous(); err == nil {
				peak = max(peak, now)
			}
			select {
			case <-end:
				most <- peak
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(end)
		return <-most
	}
}
