package doctor

import (
	"context"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store"
)

// cluster checks the servers and tables of a Citus cluster. A plain server has no such check.
func (d *checkup) cluster(ctx context.Context, s *store.Store) {
	server, err := s.Server(ctx)
	if err != nil {
		d.fail("cluster", "check that the workers are running, and that the coordinator can connect to them", "cannot query the cluster: %s", explain(err))
		return
	}
	if server != nil && server.Cluster != nil {
		d.clusterState(server.Cluster)
	}
}

func (d *checkup) clusterState(c *store.Cluster) {
	sound := true
	problem := func(fix, format string, args ...any) {
		d.fail("cluster", fix, format, args...)
		sound = false
	}
	versions := slices.DeleteFunc(slices.Clone(c.Versions), func(v string) bool { return v == "" })
	if away := len(c.Versions) - len(versions); away > 0 {
		problem("start the servers, or check the network: SELECT * FROM citus_check_cluster_node_health() shows which",
			"%d of %d servers do not respond to the others", away, len(c.Versions))
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		problem("install one version of Citus on every server and run ALTER EXTENSION citus UPDATE there",
			"the servers have the Citus versions %s", strings.Join(versions, ", "))
	}
	if len(c.NotDistributed) > 0 {
		problem("stop the nodes and run atrium migrate --distribute=citus",
			"tables are not distributed: %s", strings.Join(c.NotDistributed, ", "))
	}
	if c.Colocations > 1 {
		problem("SELECT table_name, colocation_id FROM citus_tables shows the tables: "+
			"run update_distributed_table_colocation on those that differ from accounts",
			"the tables of a tenant are in %d groups, which may be on different servers", c.Colocations)
	}
	if sound {
		d.ok("cluster", "%s with Citus %s, and all tables are distributed",
			atrium.Count(len(c.Versions), "server", "servers"), strings.Join(versions, ""))
	}
}
