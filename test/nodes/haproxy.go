package nodes

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A Front is an HAProxy in front of nodes.
type Front struct {
	Addr  string // address that it listens on
	Stats string // address of its statistics

	*process
	nodes []*Node
}

// Proxy starts HAProxy with deploy/haproxy.cfg in front of three nodes, and waits until it
// sends requests to all of them.
func Proxy(tb testing.TB, nodes []*Node) *Front {
	tb.Helper()
	if len(nodes) != 3 {
		tb.Fatalf("deploy/haproxy.cfg has three nodes, not %d", len(nodes))
	}
	return front(tb, Deployed(tb, "haproxy.cfg"), nodes, nil)
}

// TLSProxy is like Proxy, but terminates TLS with a certificate and its key (PEM), as the configuration says.
func TLSProxy(tb testing.TB, nodes []*Node, certificate []byte) *Front {
	tb.Helper()
	config, documented := string(Deployed(tb, "haproxy.cfg")), "bind :443 ssl crt /etc/haproxy/atrium.pem alpn h2,http/1.1"
	if !strings.Contains(config, documented) {
		tb.Fatalf("deploy/haproxy.cfg does not have %s", documented)
	}
	bind := strings.NewReplacer(":443", `"${FRONT}"`, "/etc/haproxy/", "").Replace(documented)
	return front(tb, []byte(strings.Replace(config, `bind "${FRONT-:8080}"`, bind, 1)), nodes, certificate)
}

// RoundRobin starts an HAProxy that forwards connections unchanged, each to the next node.
func RoundRobin(tb testing.TB, nodes []*Node) *Front {
	tb.Helper()
	return front(tb, []byte(`
defaults
    mode tcp
    timeout connect 5s
    timeout client  60s
    timeout server  60s
listen front
    bind "${FRONT}"
    balance roundrobin
    default-server check inter 500ms
    server node1 "${NODE1}"
    server node2 "${NODE2}"
    server node3 "${NODE3}"
frontend stats
    mode http
    bind "${STATS}"
    stats enable
    stats uri /
`), nodes, nil)
}

func front(tb testing.TB, config []byte, nodes []*Node, certificate []byte) *Front {
	tb.Helper()
	f := &Front{Addr: freeAddr(tb), Stats: freeAddr(tb), nodes: nodes}
	cmd := command(tb, "haproxy", map[string][]byte{"haproxy.cfg": config, "atrium.pem": certificate}, "-db", "-f", "haproxy.cfg")
	cmd.Env = append(cmd.Env, "FRONT="+f.Addr, "STATS="+f.Stats)
	for i, n := range nodes {
		cmd.Env = append(cmd.Env, fmt.Sprintf("NODE%d=%s", i+1, n.Addr))
	}
	f.process = run(tb, "haproxy", cmd)
	f.Await(tb, len(nodes))
	return f
}

// Await waits until the front sends requests to the given number of nodes.
func (f *Front) Await(tb testing.TB, up int) {
	tb.Helper()
	Until(tb, fmt.Sprintf("%d nodes at the front", up), waitLimit, func() bool {
		if f.ended() {
			tb.Fatalf("haproxy ended: %s\n%s", f.cmd.ProcessState, f.log)
		}
		n := 0
		for _, row := range f.table(tb) {
			if strings.HasPrefix(row["svname"], "node") && row["status"] == "UP" {
				n++
			}
		}
		return n == up
	})
}

// table returns the statistics of HAProxy, one row per frontend, server and backend. It is
// empty while HAProxy does not respond.
func (f *Front) table(tb testing.TB) (rows []map[string]string) {
	tb.Helper()
	response, err := Client(tb).Get("http://" + f.Stats + "/;csv")
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		tb.Fatalf("the statistics of haproxy: %s", response.Status)
	}
	all, err := csv.NewReader(response.Body).ReadAll()
	if err != nil {
		tb.Fatalf("the statistics of haproxy: %v", err)
	}
	for _, values := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[strings.TrimPrefix(name, "# ")] = values[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// Served returns how many responses of a node the front has forwarded.
func (f *Front) Served(tb testing.TB, node int) (responses int) {
	tb.Helper()
	for _, row := range f.table(tb) {
		if row["svname"] == fmt.Sprintf("node%d", node+1) {
			_, _ = fmt.Sscan(row["hrsp_2xx"], &responses) // empty before the first
		}
	}
	return responses
}
