// Command package packages the Helm chart of a release, as helm package does:
//
//	package -version v1.2.3 -created 2026-01-31T12:00:00Z deploy/helm/atrium dist
//
// It writes atrium-chart-1.2.3.tgz. The version of the chart is that of the release, and its appVersion the
// tag of the image. The same chart and arguments give the same bytes, which those of helm package are not: it
// stores the times of the files.
package main

import (
	"cmp"
	"errors"
	"flag"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("package: ")
	version := flag.String("version", "", "version of the release, such as v1.2.3")
	created := flag.String("created", "", "time of the commit, in RFC 3339")
	flag.Parse()
	at, err := time.Parse(time.RFC3339, *created)
	if err != nil || *version == "" || flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := save(flag.Arg(0), flag.Arg(1), *version, at.UTC()); err != nil {
		log.Fatal(err)
	}
}

// save packages the chart in a directory.
func save(chart, dist, version string, created time.Time) (err error) {
	c, err := loader.LoadDir(chart)
	if err != nil {
		return err
	}
	c.Metadata.Version = strings.TrimPrefix(version, "v")
	c.Metadata.AppVersion = strings.ReplaceAll(c.Metadata.Version, "+", "_") // tools/packages/image does the same
	c.ModTime, c.SchemaModTime = created, created
	for _, files := range [][]*common.File{c.Raw, c.Templates, c.Files} {
		slices.SortFunc(files, func(a, b *common.File) int { return cmp.Compare(a.Name, b.Name) })
		for _, f := range files {
			f.ModTime = created
		}
	}
	dir, err := os.MkdirTemp(dist, "chart")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := util.Save(c, dir)
	if err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dist, "atrium-chart-"+c.Metadata.Version+".tgz"))
}
