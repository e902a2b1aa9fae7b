package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// describe records the machine and the versions.
func (r *report) describe() error {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	sync, err := syncTime()
	if err != nil {
		return err
	}
	r.machine = []string{
		fmt.Sprintf("%s, %d cores, %s of memory, Linux %s.", field(cpuinfo, "model name"), runtime.NumCPU(), memory(field(meminfo, "MemTotal")), strings.TrimSpace(string(kernel))),
		fmt.Sprintf("The files are on %s, where 4 KB are written and synced in %s ms (median of %d).", fileSystem(mounts, os.TempDir()), millis(sync), syncs),
	}
	r.versions = slices.Concat(r.binaries(), r.versions)
	return nil
}

// binaries returns the versions of the measured programs, from their build information.
func (r *report) binaries() (versions []string) {
	if out, err := exec.Command(r.atrium, "version").Output(); err == nil {
		versions = append(versions, strings.Replace(strings.TrimSpace(string(out)), "atrium", "Atrium", 1))
	}
	if v, err := sqliteVersion(); err == nil {
		versions = append(versions, "SQLite "+v)
	}
	if info, err := buildinfo.ReadFile(r.pocketbase); err == nil {
		of := map[string]string{}
		for _, d := range info.Deps {
			of[d.Path] = d.Version
		}
		const sqlite = "modernc.org/sqlite"
		versions = append(versions, fmt.Sprintf("PocketBase %s (%s %s)", of["github.com/pocketbase/pocketbase"], sqlite, of[sqlite]))
	}
	return versions
}

func sqliteVersion() (version string, err error) {
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	return version, sqlitex.ExecuteTransient(c, "SELECT sqlite_version()", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		version = s.ColumnText(0)
		return nil
	}})
}

// field returns the first value of a field in a file of /proc with one field per line.
func field(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if n, value, _ := strings.Cut(line, ":"); strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown " + name
}

// memory formats a value of /proc/meminfo, in kB.
func memory(kilobytes string) string {
	n, err := strconv.ParseInt(strings.TrimSuffix(kilobytes, " kB"), 10, 64)
	if err != nil {
		return kilobytes
	}
	return fmt.Sprintf("%.1f GB", float64(n)*1024/1e9)
}

// fileSystem returns the type and the device of the file system of a directory
// (/proc/self/mountinfo, proc(5)).
func fileSystem(mounts []byte, dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	longest, found := -1, "an unknown file system"
	for line := range strings.Lines(string(mounts)) {
		place, source, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(place), strings.Fields(source)
		if len(where) < 5 || len(what) < 2 {
			continue
		}
		if inside, err := filepath.Rel(where[4], dir); err == nil && filepath.IsLocal(inside) && len(where[4]) >= longest {
			longest, found = len(where[4]), what[0]+" ("+what[1]+")"
		}
	}
	return found
}

const syncs = 200

// syncTime returns the median time to write and sync 4 KB.
func syncTime() (time.Duration, error) {
	file, err := os.CreateTemp("", "atrium-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	times := make([]time.Duration, 0, syncs)
	block := make([]byte, 4096)
	for range syncs {
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	return median(times), nil
}
