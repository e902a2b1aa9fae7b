package doctor

import (
	"strings"
	"testing"

	"atrium/internal/store"
)

func TestDoctorChecksACluster(t *testing.T) {
	for _, test := range []struct {
		cluster store.Cluster
		status  Status
		found   []string
	}{
		{store.Cluster{Versions: []string{"13.0-1", "13.0-1"}, Colocations: 1}, OK, []string{"2 servers with Citus 13.0-1"}},
		{store.Cluster{Versions: []string{"13.0-1", "", "13.0-1"}, Colocations: 1}, Fail, []string{"1 of 3 servers do not respond"}},
		{store.Cluster{Versions: []string{"13.0-1", "12.1-1"}, NotDistributed: []string{"brands"}, Colocations: 2}, Fail, []string{
			"versions 12.1-1, 13.0-1", "not distributed: brands", "in 2 groups",
		}},
	} {
		d := &checkup{}
		d.clusterState(&test.cluster)
		if len(d.findings) != len(test.found) {
			t.Errorf("%+v: found %+v, want %d findings", test.cluster, d.findings, len(test.found))
			continue
		}
		for i, f := range d.findings {
			if f.Check != "cluster" || f.Status != test.status || !strings.Contains(f.Found, test.found[i]) {
				t.Errorf("%+v: found %+v, want %s: %s", test.cluster, f, test.status, test.found[i])
			}
		}
	}
}
