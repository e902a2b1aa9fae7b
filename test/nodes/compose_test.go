package nodes_test

import (
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"atrium/internal/config"
	"atrium/test/nodes"
)

// composition has the members of deploy/compose.yaml that the tests read. tools/packages checks the file by
// the compose specification.
type composition struct {
	Node     composed            `yaml:"x-node"`
	Services map[string]composed `yaml:"services"`
	Volumes  map[string]any      `yaml:"volumes"`
	Networks struct {
		Default struct {
			IPAM struct {
				Config []struct {
					Subnet  netip.Prefix `yaml:"subnet"`
					IPRange netip.Prefix `yaml:"ip_range"`
				} `yaml:"config"`
			} `yaml:"ipam"`
		} `yaml:"default"`
	} `yaml:"networks"`
}

type composed struct {
	Image           string            `yaml:"image"`
	Command         []string          `yaml:"command"`
	Environment     map[string]string `yaml:"environment"`
	Volumes         []string          `yaml:"volumes"`
	Ports           []string          `yaml:"ports"`
	Profiles        []string          `yaml:"profiles"`
	DependsOn       yaml.Node         `yaml:"depends_on"`
	Healthcheck     map[string]any    `yaml:"healthcheck"`
	Restart         string            `yaml:"restart"`
	StopSignal      string            `yaml:"stop_signal"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Networks        struct {
		Default struct {
			Address netip.Addr `yaml:"ipv4_address"`
		} `yaml:"default"`
	} `yaml:"networks"`
}

// needs returns the services that must start first.
func (c *composed) needs(t *testing.T) (names []string) {
	t.Helper()
	var conditions map[string]struct {
		Condition string `yaml:"condition"`
		Required  *bool  `yaml:"required"`
	}
	if c.DependsOn.Kind == yaml.SequenceNode {
		if err := c.DependsOn.Decode(&names); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if err := c.DependsOn.Decode(&conditions); err != nil {
		t.Fatal(err)
	}
	for name, when := range conditions {
		if !slices.Contains([]string{"service_started", "service_healthy"}, when.Condition) {
			t.Errorf("depends_on %s: condition %q", name, when.Condition)
		}
		names = append(names, name)
	}
	return names
}

func readComposition(t *testing.T) (c composition) {
	t.Helper()
	if err := yaml.Unmarshal(nodes.Deployed(t, "compose.yaml"), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeFileRefersToExistingFiles(t *testing.T) {
	c := readComposition(t)
	for _, name := range []string{"postgres", "pgbouncer", "node1", "node2", "node3", "haproxy"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("unknown service %s", name)
		}
	}
	for name, s := range c.Services {
		if s.Image == "" || s.Image == "latest" || s.Restart == "" {
			t.Errorf("%s has the image %q and restarts %q", name, s.Image, s.Restart)
		}
		for _, other := range s.needs(t) {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on unknown service %s", name, other)
			}
		}
		for _, v := range s.Volumes {
			source, target, ok := strings.Cut(v, ":")
			if !ok || !path.IsAbs(strings.TrimSuffix(target, ":ro")) {
				t.Errorf("%s has the volume %q", name, v)
			}
			if file, local := strings.CutPrefix(source, "./"); local {
				nodes.Deployed(t, file)
			} else if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s has the volume %s, which is none", name, source)
			}
		}
		for _, p := range s.Ports {
			if !regexp.MustCompile(`^(127\.0\.0\.1:)?\d+:\d+$`).MatchString(p) {
				t.Errorf("%s has the port %q", name, p)
			}
		}
	}
	if len(c.Services["pgbouncer"].Profiles) == 0 {
		t.Error("pgbouncer is not optional")
	}
	if postgres := c.Services["postgres"]; postgres.Healthcheck == nil || len(postgres.Ports) > 0 {
		t.Error("postgres has no health check, or is open to all")
	}
}

func TestComposeFileAndHAProxyHaveTheSameNodes(t *testing.T) {
	c := readComposition(t)
	front := c.Services["haproxy"]
	for _, name := range []string{"node1", "node2", "node3"} {
		variable := strings.ToUpper(name)
		if want := name + ":8080"; front.Environment[variable] != want || !strings.Contains(string(nodes.Deployed(t, "haproxy.cfg")), `"${`+variable+"-"+want+`}"`) {
			t.Errorf("haproxy has %s at %q, want %s", variable, front.Environment[variable], want)
		}
		if !slices.Contains(front.needs(t), name) {
			t.Errorf("haproxy does not wait for %s", name)
		}
	}
}

func TestComposeFileTrustsOnlyHAProxy(t *testing.T) {
	c := readComposition(t)
	proxy := c.Services["haproxy"].Networks.Default.Address
	for _, name := range []string{"node1", "node2", "node3"} {
		if trusted := c.Services[name].Environment["ATRIUM_TRUSTED_PROXIES"]; trusted != proxy.String() {
			t.Errorf("%s trusts %q, and haproxy has %s", name, trusted, proxy)
		}
	}
	pools := c.Networks.Default.IPAM.Config
	if len(pools) != 1 || !pools[0].Subnet.Contains(proxy) || pools[0].IPRange.Contains(proxy) || !pools[0].Subnet.Contains(pools[0].IPRange.Addr()) {
		t.Errorf("haproxy has %s, and the network %v", proxy, pools)
	}
}

// fallback matches a variable with a default.
var fallback = regexp.MustCompile(`^\$\{\w+:-(.*)\}$`)

func TestComposeFileUsesExistingSettings(t *testing.T) {
	c := readComposition(t)
	var settings config.Config
	for _, name := range []string{"node1", "node2", "node3"} {
		left := maps.Clone(c.Services[name].Environment)
		settings = config.Default()
		_, err := config.Bind(pflag.NewFlagSet("", pflag.ContinueOnError), &settings).Load(func(variable string) (string, bool) {
			value, ok := left[variable]
			delete(left, variable)
			return fallback.ReplaceAllString(value, "$1"), ok
		})
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v; no settings: %v", name, err, left)
		}
	}
	if u, err := url.Parse(settings.Database); err != nil || u.Hostname() != "postgres" || u.Path != "/atrium" {
		t.Errorf("the database is %s: %v", settings.Database, err)
	}
	if settings.ShutdownDelay == 0 {
		t.Error("nodes stop before HAProxy notices")
	}
}
