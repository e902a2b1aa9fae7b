//go:build exhaustive

package test

import (
	"testing"
	"time"

	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

func TestScriptsOnThreeNodes(t *testing.T) {
	clusters := map[string]*cluster{"three nodes": startCluster(t, false), "three nodes on a pool": startCluster(t, true)}
	runScripts(t, func(name string, run runner) {
		for way, c := range clusters {
			addr := c.front
			if wireLevel[name] {
				addr = c.wire
			}
			run(way, func(t *testing.T) *service { return c.service(t, addr) })
		}
	})
}

// A cluster is three processes on one PostgreSQL database behind HAProxy, which sends
// consecutive requests to different nodes.
type cluster struct {
	db    engine.DB
	store *store.Store
	nodes []string // their addresses
	front string   // HTTP front end, as in deploy/haproxy.cfg
	wire  string   // TCP front end, which forwards bytes unchanged
}

// startCluster starts a cluster. If pooled, its nodes share a small connection pool.
func startCluster(t *testing.T, pooled bool) *cluster {
	t.Helper()
	server := postgrestest.Shared(t)
	database := server.NewDatabase(t)
	db, err := postgres.Open(t.Context(), database, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{db: db, store: store.New(db, time.Now)}
	t.Cleanup(func() { _ = c.store.Close() })
	file := secretKeys(t)
	keys, err := secrets.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c.store.UseSecrets(keys)
	flags := []string{"--secrets-key-file", file}
	if pooled {
		database, flags = nodes.Pool(t, server, database), append(flags, "--database-statements", "unprepared")
	}
	started := nodes.Start(t, 3, database, flags...)
	for _, node := range started {
		c.nodes = append(c.nodes, node.Addr)
	}
	c.front, c.wire = nodes.Proxy(t, started).Addr, nodes.RoundRobin(t, started).Addr
	return c
}

// service returns the cluster with new tenants.
func (c *cluster) service(t *testing.T, addr string) *service {
	t.Helper()
	s := &service{addr: addr, nodes: c.nodes, db: c.db, store: c.store, vars: map[string]string{}}
	s.fill(t)
	return s
}
