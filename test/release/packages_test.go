//go:build release

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxImage is the largest size of an image, compressed.
const maxImage = 25 << 20

// An image is an unpacked container image, in the format of docker save.
type image struct {
	root   string // with the files of its layers
	config struct {
		Config struct {
			User                  string
			Env, Entrypoint, Cmd  []string
			StopSignal            string
			Labels                map[string]string
			Healthcheck           struct{ Test []string }
			Volumes, ExposedPorts map[string]struct{}
		} `json:"config"`
		Architecture, OS string
	}
}

func unpack(t *testing.T, path string) *image {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(bytes.NewReader(readFile(t, path)))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("%d manifests, %v", len(manifest), err)
	}
	i := &image{root: filepath.Join(t.TempDir(), "root")}
	if err := json.Unmarshal(files[manifest[0].Config], &i.config); err != nil {
		t.Fatal(err)
	}
	// what an engine adds
	for _, dir := range []string{"", "proc", "dev"} {
		if err := os.Mkdir(filepath.Join(i.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, layer := range manifest[0].Layers {
		i.add(t, files[layer])
	}
	return i
}

// add unpacks a layer. It needs the permission to give files to other users.
func (i *image) add(t *testing.T, layer []byte) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(i.root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o644)
			}
		}
		// not os.Chmod, which knows the sticky bit by another number
		if err = errors.Join(err, os.Chown(path, h.Uid, h.Gid), syscall.Chmod(path, uint32(h.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}

// A container runs commands as an engine does: as the user of the image, with its root file system
// read-only, and with a volume.
type container struct {
	image       *image
	volume      string
	authorities string // a file with certificates that are trusted as well
	env         []string
}

// mounts makes the root of a container, and executes a command there.
const mounts = `set -e
root=$1 volume=$2 authorities=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount --bind "$volume" "$root/data"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
touch "$root/etc/ssl/certs/own.crt"
mount --bind "$authorities" "$root/etc/ssl/certs/own.crt"
mount -o remount,ro,bind "$root"
exec chroot --userspec="$user" "$root" "$@"`

func (c *container) command(args ...string) *exec.Cmd {
	config := c.image.config.Config
	own := []string{"--mount", "--propagation", "private", "sh", "-c", mounts, "sh", c.image.root, c.volume, c.authorities, config.User}
	cmd := exec.Command("unshare", slices.Concat(own, config.Entrypoint, args)...)
	cmd.Env = slices.Concat([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, config.Env, c.env)
	return cmd
}

// run returns what a command prints.
func (c *container) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := c.command(args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

// serve starts the image's own command, and returns a function that stops it as an engine does.
func (c *container) serve(t *testing.T) (stop func()) {
	t.Helper()
	cmd := c.command(c.image.config.Config.Cmd...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	check := c.image.config.Config.Healthcheck.Test
	if len(check) < 2 || check[0] != "CMD" || check[1] != c.image.config.Config.Entrypoint[0] {
		t.Fatalf("the health check is %q", check)
	}
	for deadline := time.Now().Add(time.Minute); c.command(check[2:]...).Run() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the health check fails for a minute")
		}
	}
	return func() {
		if c.image.config.Config.StopSignal != "SIGTERM" {
			t.Errorf("it is stopped by %q", c.image.config.Config.StopSignal)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after SIGTERM: %v", err)
			}
		case <-time.After(10 * time.Second): // of docker stop
			t.Error("it does not stop within 10 seconds")
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// post sends an entry and returns the status.
func post(t *testing.T, addr, key, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v0/account_logs", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// testImage runs the image: it serves as an unprivileged user, keeps its data, stops gracefully, and
// delivers events over TLS.
func testImage(t *testing.T, dist string) {
	if os.Getuid() != 0 {
		t.Fatal("running an image needs root, for mounts and users")
	}
	path := filepath.Join(dist, "atrium-image-"+runtime.GOARCH+".tar")
	if info, err := os.Stat(path); err != nil || info.Size() > maxImage {
		t.Fatalf("%v has more than %d bytes (%v)", info, maxImage, err)
	}
	i := unpack(t, path)
	config := i.config.Config
	if i.config.OS != "linux" || i.config.Architecture != runtime.GOARCH || len(config.Volumes) != 1 || len(config.ExposedPorts) != 1 {
		t.Errorf("the configuration is %+v", i.config)
	}
	for _, label := range []string{"title", "description", "version", "revision", "created", "licenses"} {
		if config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("it has no label %s", label)
		}
	}
	roots := readFile(t, filepath.Join(i.root, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Error("it has too few certificates of public authorities")
	}

	received := make(chan string, 10)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
	}))
	defer receiver.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
	authorities := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(authorities, own, 0o644); err != nil {
		t.Fatal(err)
	}
	// A new volume has the owner and mode of the directory in the image.
	volume := filepath.Join(t.TempDir(), "volume")
	run(t, ".", nil, "cp", "-a", filepath.Join(i.root, "data"), volume)
	for dir := volume; dir != "/"; dir = filepath.Dir(dir) { // which other users can reach
		if dir != volume && strings.HasPrefix(dir, os.TempDir()+"/") {
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	addr := freeAddr(t)
	c := &container{image: i, volume: volume, authorities: authorities, env: []string{
		"ATRIUM_ADDR=" + addr, "ATRIUM_SECRETS_KEY_FILE=/data/secrets-keys", "ATRIUM_WEBHOOK_ALLOW=127.0.0.0/8",
	}}
	c.run(t, "secrets", "add-key")
	stop := c.serve(t)
	tenant := regexp.MustCompile(`tenant_\w+`).FindString(c.run(t, "tenants", "create", "--name", "first"))
	key := regexp.MustCompile(`atr_\w+`).FindString(c.run(t, "keys", "create", "--tenant", tenant, "--name", "first"))
	c.run(t, "webhooks", "create", "--tenant", tenant, "--url", receiver.URL)
	entry := `{"source":"crm","type":"deal.won","domain":"acme.example","payload":{"first":true},"idempotencyKey":"one"}`
	if status := post(t, addr, key, entry); status != http.StatusCreated {
		t.Fatalf("an entry gets %d", status)
	}
	select {
	case body := <-received:
		if !strings.Contains(body, "account") {
			t.Errorf("the event is %s", body)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event is delivered over TLS for a minute")
	}
	stop()

	stop = c.serve(t)
	if list := c.run(t, "entries", "list", "--tenant", tenant); !strings.Contains(list, "deal.won") {
		t.Errorf("after a restart, the entries are %s", list)
	}
	stop()
}

// throwaway runs a script in a copy of this machine's files, of which nothing remains. $packages has the
// packages.
func throwaway(t *testing.T, packages, script string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("installing packages needs root")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(packages, "script"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", `set -e
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir changed work root
mount -t overlay overlay -o lowerdir=/,upperdir=changed,workdir=work root
mount -t tmpfs tmpfs root/tmp
mount -t tmpfs tmpfs root/run
mount -t proc proc root/proc
mount --bind /dev root/dev
mkdir root/tmp/packages
cp "$2"/* root/tmp/packages/
exec chroot root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root packages=/tmp/packages sh -eux /tmp/packages/script`,
		"sh", dir, packages)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A person installs the package, uses it, upgrades it, and removes it. The functions install, remove
// and purge differ.
const lifeOfAPackage = `
as_atrium='setpriv --reuid atrium --regid atrium --clear-groups env ATRIUM_CONFIG=/etc/atrium/atrium.yaml atrium'

install_version old
[ "$(stat -c %U:%a /etc/atrium /etc/atrium/atrium.yaml /var/lib/atrium /var/backups/atrium /var/backups/atrium-audit /usr/bin/atrium | tr '\n' ' ')" = \
  'atrium:700 atrium:600 atrium:700 atrium:700 atrium:700 root:755 ' ]
systemd-analyze verify --man=no atrium.service atrium-backup.service atrium-backup.timer atrium-audit.service atrium-audit.timer
[ -s /usr/share/man/man1/atrium.1 ]
[ -s /usr/share/doc/atrium/copyright ]
setpriv --reuid atrium --regid atrium --clear-groups cat /usr/share/doc/atrium/licenses/*/*/*/LICENSE* >/dev/null
bash -c '. /usr/share/bash-completion/completions/atrium'
cd /
# The command in the file of settings creates the keys of the setting after it.
setpriv --reuid atrium --regid atrium --clear-groups $(sed -n 's/^# *sudo -u atrium //p' /etc/atrium/atrium.yaml)
sed -i 's/^#secrets-key-file:/secrets-key-file:/' /etc/atrium/atrium.yaml
$as_atrium serve & server=$!
until $as_atrium health; do sleep 0.1; done
$as_atrium tenants create --name first
$as_atrium webhooks create --tenant "$($as_atrium tenants list | grep -o 'tenant_[a-z0-9]*' | head -n 1)" --url https://hooks.example/
$as_atrium backup /var/backups/atrium/
$as_atrium-audit-export /var/backups/atrium-audit
[ -s /var/backups/atrium-audit/*/heads ]
kill $server
wait $server

echo 'log-level: warn' >>/etc/atrium/atrium.yaml
install_version new
grep 'log-level: warn' /etc/atrium/atrium.yaml
[ "$(stat -c %U:%a /etc/atrium/atrium.yaml)" = atrium:600 ]
$as_atrium tenants list | grep first

remove
[ ! -e /usr/bin/atrium ]
[ ! -e /usr/lib/systemd/system/atrium.service ]
[ -s /var/lib/atrium/atrium.db ]
ls /var/backups/atrium/*.db*
cat /etc/atrium/atrium.yaml* | grep 'log-level: warn'
purge
[ -s /var/lib/atrium/atrium.db ]
[ -s /etc/atrium/secrets-keys ] # without which the database has lost its secrets
getent passwd atrium
`

// testPackage installs a package as an operator does. formats are deb and rpm.
func testPackage(t *testing.T, dist, format, functions string) {
	packages := t.TempDir()
	source, err := filepath.Abs(filepath.Dir(dist))
	if err != nil {
		t.Fatal(err)
	}
	nfpm := filepath.Join(t.TempDir(), "nfpm")
	run(t, filepath.Join(source, "tools", "packages"), nil, "go", "build", "-o", nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	// The package of an earlier version, with the same files.
	run(t, source, []string{"ARCH=" + runtime.GOARCH, "VERSION=0.0.0-1", "SOURCE_DATE_EPOCH=0"},
		nfpm, "package", "--config", "deploy/packages/nfpm.yaml", "--packager", format, "--target", filepath.Join(packages, "old."+format))
	released := filepath.Join(dist, fmt.Sprintf("atrium-linux-%s.%s", runtime.GOARCH, format))
	if err := os.WriteFile(filepath.Join(packages, "new."+format), readFile(t, released), 0o644); err != nil {
		t.Fatal(err)
	}
	throwaway(t, packages, functions+lifeOfAPackage)
}
