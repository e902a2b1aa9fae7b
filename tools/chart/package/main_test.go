package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

const chart = "../../../deploy/helm/atrium"

func TestThePackageInstallsTheImageOfItsRelease(t *testing.T) {
	dist := t.TempDir()
	if err := save(chart, dist, "v1.2.3+four", time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(filepath.Join(dist, "atrium-chart-1.2.3+four.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.2.3+four" || c.Metadata.AppVersion != "1.2.3_four" {
		t.Errorf("the package has version %s and appVersion %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	values, err := util.ToRenderValues(c, map[string]any{"image": map[string]any{"repository": "registry.example/atrium"}}, common.ReleaseOptions{Name: "atrium", Namespace: "default"}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	if deployment := files["atrium/templates/deployment.yaml"]; !bytes.Contains([]byte(deployment), []byte(`image: "registry.example/atrium:1.2.3_four"`)) {
		t.Errorf("the deployment is %s", deployment)
	}
	if files, err := os.ReadDir(dist); err != nil || len(files) != 1 {
		t.Errorf("dist has %v, %v", files, err)
	}
}

func TestTwoPackagesOfAChartAreIdentical(t *testing.T) {
	first, second, other := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "atrium")
	created := time.Unix(1700000000, 0)
	// Another checkout has other times.
	if err := errors.Join(os.CopyFS(other, os.DirFS(chart)), save(chart, first, "v1.2.3", created), save(other, second, "v1.2.3", created)); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(filepath.Join(first, "atrium-chart-1.2.3.tgz"))
	b, again := os.ReadFile(filepath.Join(second, "atrium-chart-1.2.3.tgz"))
	if err != nil || again != nil || !bytes.Equal(a, b) {
		t.Errorf("they differ: %v, %v", err, again)
	}
}
