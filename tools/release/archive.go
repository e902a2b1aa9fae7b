package main

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// archive writes a zip archive of the files in a directory, in the order of their names. All have the same
// time, given as in RFC 3339, and are readable; those that anyone can execute stay so.
func archive(dir, path, at string) (err error) {
	modified, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := zip.NewWriter(f)
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: filepath.ToSlash(name), Method: zip.Deflate, Modified: modified.UTC()}
		h.SetMode(0o644 | info.Mode()&0o111)
		member, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = member.Write(content)
		return err
	}); err != nil {
		return err
	}
	return w.Close()
}

// readProvider returns the build information of the Terraform provider in an archive.
func readProvider(path string) (*buildinfo.BuildInfo, error) {
	r, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	for _, f := range r.File {
		if !strings.HasPrefix(f.Name, "terraform-provider-atrium_") {
			continue
		}
		member, err := f.Open()
		if err != nil {
			return nil, err
		}
		binary, err := io.ReadAll(member)
		if err != nil {
			return nil, err
		}
		return buildinfo.Read(bytes.NewReader(binary))
	}
	return nil, errors.New("the archive has no provider")
}
