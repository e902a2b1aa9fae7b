package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// newImages builds the images of two binaries, and returns the directory with them.
func newImages(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"atrium-linux-amd64", "atrium-linux-arm64", "atrium-linux-amd64.tar.gz", "atrium-darwin-arm64"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := release{version: "v1.2.3+four", revision: "abc", created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	if err := build(r, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readTar returns the files of an archive.
func readTar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// An index is an OCI image index.
type index struct {
	Manifests []struct {
		MediaType   string
		Digest      string
		Annotations map[string]string
		Platform    struct{ OS, Architecture string }
	}
}

func parse[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// skopeo copy --all and others refuse a layout with several images: "more than one image in oci, choose an image".
func TestTheLayoutHasOneIndexOfAllArchitectures(t *testing.T) {
	files := readTar(t, filepath.Join(newImages(t), "atrium-image.tar"))
	blob := func(digest string) []byte { return files["blobs/sha256/"+digest[len("sha256:"):]] }
	top := parse[index](t, files["index.json"])
	if len(top.Manifests) != 1 || top.Manifests[0].MediaType != "application/vnd.oci.image.index.v1+json" || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3_four" {
		t.Fatalf("the layout has %s", files["index.json"])
	}
	var platforms []string
	for _, m := range parse[index](t, blob(top.Manifests[0].Digest)).Manifests {
		platforms = append(platforms, m.Platform.OS+"/"+m.Platform.Architecture)
		if m.MediaType != "application/vnd.oci.image.manifest.v1+json" || len(blob(m.Digest)) == 0 {
			t.Errorf("%+v is no image of the layout", m)
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it has images for %v", platforms)
	}
	if len(files["oci-layout"]) == 0 {
		t.Error("it has no oci-layout")
	}
}

func TestImagesHaveTheVersionAndLatestAsTags(t *testing.T) {
	dir := newImages(t)
	for _, arch := range []string{"amd64", "arm64"} {
		files := readTar(t, filepath.Join(dir, "atrium-image-"+arch+".tar"))
		manifest := parse[[]struct {
			Config           string
			RepoTags, Layers []string
		}](t, files["manifest.json"])
		if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"atrium:1.2.3_four", "atrium:latest"}) || len(manifest[0].Layers) != 2 {
			t.Fatalf("%s has %+v", arch, manifest)
		}
		for _, name := range append(manifest[0].Layers, manifest[0].Config) {
			if len(files[name]) == 0 {
				t.Errorf("%s has no %s", arch, name)
			}
		}
	}
}

func TestTwoBuildsMakeTheSameImages(t *testing.T) {
	first := newImages(t)
	for range 5 { // an order of two would be the same by chance
		again := newImages(t)
		for _, name := range []string{"atrium-image-amd64.tar", "atrium-image-arm64.tar", "atrium-image.tar"} {
			a, err := os.ReadFile(filepath.Join(first, name))
			b, other := os.ReadFile(filepath.Join(again, name))
			if err != nil || other != nil || !bytes.Equal(a, b) {
				t.Errorf("%s differs: %v, %v", name, err, other)
			}
		}
	}
}
