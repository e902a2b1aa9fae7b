// Package packages tests how a release is deployed, with the parsers of those who deploy it.
package packages

import (
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// load reads a compose file as docker compose does: by the schema of the compose specification, with
// variables and references resolved.
func load(t *testing.T, name string, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join("..", "..", "deploy", name)}, cli.WithEnv(env), cli.WithProfiles([]string{"*"}), cli.WithName("test"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// isRestricted checks that a service of the image is restricted as the image allows.
func isRestricted(t *testing.T, s types.ServiceConfig, image string) {
	t.Helper()
	if s.Image != image || s.Build != nil {
		t.Errorf("%s has the image %q, want %q", s.Name, s.Image, image)
	}
	if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) == 0 || len(s.Tmpfs) != 1 || s.Tmpfs[0] != "/tmp" {
		t.Errorf("%s may do more than it needs: %+v", s.Name, s)
	}
	if s.StopGracePeriod == nil || s.Restart == "" || s.Privileged {
		t.Errorf("%s stops after %v and restarts %q", s.Name, s.StopGracePeriod, s.Restart)
	}
}

func TestComposeFileWithPostgreSQL(t *testing.T) {
	project := load(t, "compose.yaml", "ATRIUM_IMAGE=registry.example/atrium:1")
	for _, name := range []string{"node1", "node2", "node3"} {
		node, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		isRestricted(t, node, "registry.example/atrium:1")
		if len(node.Volumes) > 0 || len(node.Ports) > 0 {
			t.Errorf("%s has the volumes %v and ports %v", name, node.Volumes, node.Ports)
		}
	}
}

func TestComposeFileWithSQLite(t *testing.T) {
	project := load(t, "compose-sqlite.yaml")
	if len(project.Services) != 1 || len(project.Volumes) != 1 {
		t.Fatalf("%d services and %d volumes", len(project.Services), len(project.Volumes))
	}
	server, err := project.GetService("atrium")
	if err != nil {
		t.Fatal(err)
	}
	isRestricted(t, server, "atrium")
	if len(server.Volumes) != 1 || server.Volumes[0].Target != "/data" || server.Volumes[0].Type != types.VolumeTypeVolume {
		t.Errorf("the volumes are %+v", server.Volumes)
	}
	if len(server.Ports) != 1 || server.Ports[0].HostIP != "127.0.0.1" || server.Ports[0].Target != 8080 {
		t.Errorf("the ports are %+v", server.Ports)
	}
}
