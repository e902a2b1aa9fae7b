// Command image builds the container images of a release, without a container engine:
//
//	image -version v1.2.3 -revision COMMIT -created 2026-01-31T12:00:00Z dist
//
// It reads the binaries atrium-linux-ARCH in the directory, and writes there
//
//   - atrium-image-ARCH.tar for each of them, which docker load and podman load read as atrium:VERSION and
//     atrium:latest, and
//   - atrium-image.tar, an OCI image layout with an index of all of them, for registries.
//
// The same binaries, arguments and release of Go give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of the process: the number that images without a shell mostly use.
const user = 65532

// A release is what the labels of its images say.
type release struct {
	version, revision string
	created           time.Time
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3")
	flag.StringVar(&r.revision, "revision", "", "commit of the release")
	created := flag.String("created", "", "time of the commit, in RFC 3339")
	flag.Parse()
	var err error
	if r.created, err = time.Parse(time.RFC3339, *created); err != nil || r.version == "" || r.revision == "" || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	r.created = r.created.UTC()
	if err := build(r, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func build(r release, dir string) error {
	binaries, err := filepath.Glob(filepath.Join(dir, "atrium-linux-*"))
	if err != nil {
		return err
	}
	// a tag cannot have the + of a version
	tag, err := name.NewTag("atrium:" + strings.ReplaceAll(strings.TrimPrefix(r.version, "v"), "+", "_"))
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range binaries {
		arch, ok := strings.CutPrefix(filepath.Base(binary), "atrium-linux-")
		if !ok || strings.Contains(arch, ".") { // an SBOM or an archive
			continue
		}
		image, err := r.image(binary, arch)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		if err := r.writeDocker(image, tag, filepath.Join(dir, "atrium-image-"+arch+".tar")); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	// The layout has one image, the index of all architectures: of several, a tool could not choose one.
	all := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": tag.TagStr()}},
	})
	return r.writeLayout(all, filepath.Join(dir, "atrium-image.tar"))
}

// image returns the image with a binary.
func (r release) image(binary, arch string) (v1.Image, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for what, files := range [][]file{
		{
			{name: "etc/", mode: 0o755},
			{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0::/:/\natrium:x:%d:%d::/data:/\n", user, user)},
			{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\natrium:x:%d:\n", user)},
			{name: "etc/ssl/", mode: 0o755},
			{name: "etc/ssl/certs/", mode: 0o755},
			{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots},
			{name: "tmp/", mode: 0o1777},
			{name: "data/", mode: 0o700, owner: user},
		},
		{{name: "atrium", mode: 0o755, content: program}},
	} {
		layer, err := r.layer(files)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: []string{"certificates and directories", "atrium"}[what]},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: r.created}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user),
		Env:  []string{"ATRIUM_ADDR=0.0.0.0:8080", "ATRIUM_DATABASE=sqlite:/data/atrium.db"},
		// docker run IMAGE doctor runs atrium doctor
		Entrypoint:   []string{"/atrium"},
		Cmd:          []string{"serve"},
		WorkingDir:   "/data",
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/atrium", "health"}, Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: time.Minute, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Atrium",
			"org.opencontainers.image.description": "Account activity, pages and audiences over HTTP",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
			"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// A file of an archive. A name that ends with a slash is a directory.
type file struct {
	name    string
	mode    fs.FileMode // with the sticky bit as 0o1000
	owner   int         // user and group
	content []byte
}

// writeTar writes files, all of them from the time of the release.
func (r release) writeTar(out io.Writer, files []file) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: r.created,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// layer returns a layer of files.
func (r release) layer(files []file) (v1.Layer, error) {
	var b bytes.Buffer
	if err := r.writeTar(&b, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9), tarball.WithCompressedCaching)
}

// authorities returns the certificates of public authorities that Mozilla's root program trusts, in PEM.
// It leaves out those with a constraint, such as a date after which they are distrusted: a file cannot
// have one.
func authorities() ([]byte, error) {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if b.Len() == 0 {
		return nil, errors.New("no certificates of public authorities")
	}
	return b.Bytes(), nil
}

// writeDocker writes an image as docker save does, with the tag and latest, in this order: that of
// tarball.MultiRefWrite is random.
func (r release) writeDocker(image v1.Image, tag name.Tag, path string) error {
	manifest, err := tarball.ComputeManifest(map[name.Reference]v1.Image{tag: image})
	if err != nil {
		return err
	}
	manifest[0].RepoTags = []string{tag.String(), "atrium:latest"}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	files := []file{{name: manifest[0].Config, mode: 0o644, content: config}}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for i, layer := range layers {
		content, err := readLayer(layer)
		if err != nil {
			return err
		}
		files = append(files, file{name: manifest[0].Layers[i], mode: 0o644, content: content})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	return r.writeFile(path, append(files, file{name: "manifest.json", mode: 0o644, content: text}))
}

func readLayer(layer v1.Layer) ([]byte, error) {
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// writeLayout writes an OCI image layout as one file.
func (r release) writeLayout(index v1.ImageIndex, path string) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), "layout")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in the order of their names
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name := filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))
		files = append(files, file{name: name, mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return err
	}
	return r.writeFile(path, files)
}

// writeFile writes a tar archive.
func (r release) writeFile(path string, files []file) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return r.writeTar(out, files)
}
