package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/terraform/internal/client"
	"atrium/terraform/internal/provider"
)

// The programs that the tests run. TestMain builds those that are not given.
var (
	tofuFlag   = flag.String("tofu", "", "OpenTofu `program`, or Terraform; default: the one of tools/tofu")
	atriumFlag = flag.String("atrium", "", "Atrium `program`; default: the one of this repository")
)

var programs struct{ tofu, atrium, provider string }

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "terraform-provider-atrium")
	if err == nil {
		err = buildPrograms(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	stopServer()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func buildPrograms(dir string) error {
	programs.tofu, programs.atrium, programs.provider = absolute(*tofuFlag), absolute(*atriumFlag), filepath.Join(dir, "terraform-provider-atrium")
	if programs.tofu == "" {
		programs.tofu = filepath.Join(dir, "tofu")
		if output, err := exec.Command("../scripts/tofu", programs.tofu).CombinedOutput(); err != nil {
			return fmt.Errorf("build OpenTofu: %w\n%s", err, output)
		}
	}
	if programs.atrium == "" {
		programs.atrium = filepath.Join(dir, "atrium")
		if err := build("..", programs.atrium, "./cmd/atrium"); err != nil {
			return err
		}
	}
	return build(".", programs.provider, ".")
}

// absolute returns the absolute path of a program, "" for none.
func absolute(program string) string {
	if program == "" {
		return ""
	}
	path, err := filepath.Abs(program)
	if err != nil {
		return program
	}
	return path
}

func build(dir, out, pkg string) error {
	cmd := exec.Command("go", "build", "-C", dir, "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// A server is a running Atrium on SQLite.
type server struct {
	url, operatorKey string
	client           *client.Client // with the operator key
}

var startServer = sync.OnceValues(func() (*server, error) {
	dir, err := os.MkdirTemp("", "atrium-terraform")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close()
	env := append(withoutAtrium(os.Environ()), "ATRIUM_DATABASE=sqlite:"+filepath.Join(dir, "atrium.db"), "ATRIUM_SECRETS_KEY_FILE="+filepath.Join(dir, "secrets-keys"),
		"ATRIUM_PUBLIC_URL=http://"+addr)
	atrium := func(args ...string) ([]byte, error) {
		cmd := exec.Command(programs.atrium, args...)
		cmd.Env, cmd.Dir = env, dir
		return cmd.Output()
	}
	if _, err := atrium("secrets", "add-key"); err != nil {
		return nil, fmt.Errorf("secrets add-key: %w", err)
	}
	serve := exec.Command(programs.atrium, "serve", "--addr", addr)
	serve.Env, serve.Dir = env, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	serve.Stdout, serve.Stderr = log, log
	if err := serve.Start(); err != nil {
		return nil, err
	}
	stopServer = func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
		_ = os.RemoveAll(dir)
	}
	url := "http://" + addr
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			content, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the server does not start: %w\n%s", err, content)
		}
	}
	out, err := atrium("keys", "create", "--operator", "--name", "platform", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("keys create: %w", err)
	}
	var key struct{ Key string }
	if err := json.Unmarshal(out, &key); err != nil {
		return nil, err
	}
	c, err := client.New(url, key.Key, "test")
	return &server{url, key.Key, c}, err
})

var stopServer = func() {}

func withoutAtrium(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "ATRIUM_") || strings.HasPrefix(v, "TF_") })
}

func atriumServer(t *testing.T) *server {
	t.Helper()
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call sends a request, and decodes the response into out unless it is nil.
func (s *server) call(t *testing.T, method, tenant, path string, body, out any) {
	t.Helper()
	r := client.Request{Method: method, Path: path, Tenant: tenant, Body: body}
	if method == http.MethodPatch {
		r.IfMatch = "*"
	}
	resp, err := s.client.Do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if out != nil {
		if err := resp.Decode(out); err != nil {
			t.Fatal(err)
		}
	}
}

// status returns the status of the response to a GET.
func (s *server) status(t *testing.T, tenant, path string) int {
	t.Helper()
	_, err := s.client.Do(t.Context(), client.Request{Method: http.MethodGet, Path: path, Tenant: tenant})
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p.Status
	}
	if err != nil {
		t.Fatal(err)
	}
	return http.StatusOK
}

// newTenant creates a tenant with a key that has the scope manage.
func (s *server) newTenant(t *testing.T, name string) (tenant, key string) {
	t.Helper()
	var made struct{ TenantID, Key string }
	s.call(t, http.MethodPost, "", "/tenants", map[string]any{"name": name}, &made)
	tenant = made.TenantID
	s.call(t, http.MethodPost, tenant, "/keys", map[string]any{"name": "terraform", "scopes": []string{"manage"}}, &made)
	return tenant, made.Key
}

// A workspace is a directory with a configuration and its state.
type workspace struct {
	t   *testing.T
	dir string
	env map[string]string
}

// newWorkspace returns a workspace whose provider is the one under test, without installation.
func newWorkspace(t *testing.T, env map[string]string) *workspace {
	t.Helper()
	w := &workspace{t, t.TempDir(), map[string]string{"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_CLI_CONFIG_FILE": "tofu.rc"}}
	maps.Copy(w.env, env)
	w.file("tofu.rc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n  }\n}\n", provider.Address, filepath.Dir(programs.provider)))
	w.file("versions.tf", fmt.Sprintf("terraform {\n  required_providers {\n    atrium = {\n      source = %q\n    }\n  }\n}\n", provider.Address))
	return w
}

func (w *workspace) file(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// config writes the configuration.
func (w *workspace) config(content string) { w.t.Helper(); w.file("main.tf", content) }

// tofu runs a command and returns its output and exit code.
func (w *workspace) tofu(args ...string) (output string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), programs.tofu, args...)
	cmd.Dir, cmd.Env = w.dir, withoutAtrium(os.Environ())
	for name, value := range w.env {
		if name == "TF_CLI_CONFIG_FILE" {
			value = filepath.Join(w.dir, value)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out.String(), 0
}

// must runs a command that has to succeed.
func (w *workspace) must(args ...string) string {
	w.t.Helper()
	out, code := w.tofu(args...)
	if code != 0 {
		w.t.Fatalf("tofu %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func (w *workspace) apply() string {
	w.t.Helper()
	return w.must("apply", "-auto-approve", "-no-color", "-input=false")
}

// noChanges checks that the configuration, the state and the server agree.
func (w *workspace) noChanges() {
	w.t.Helper()
	if out, code := w.tofu("plan", "-detailed-exitcode", "-no-color", "-input=false"); code != 0 {
		w.t.Fatalf("the plan is not empty: exit code %d\n%s", code, out)
	}
}

// plan returns the planned actions by address, such as "update" or "delete,create", and stores the plan in the file plan.
func (w *workspace) plan() map[string]string {
	w.t.Helper()
	w.must("plan", "-no-color", "-input=false", "-out=plan")
	var shown struct {
		ResourceChanges []struct {
			Address string
			Change  struct{ Actions []string }
		} `json:"resource_changes"`
	}
	w.decode(w.must("show", "-json", "plan"), &shown)
	actions := map[string]string{}
	for _, c := range shown.ResourceChanges {
		if a := strings.Join(c.Change.Actions, ","); a != "no-op" && a != "read" {
			actions[c.Address] = a
		}
	}
	return actions
}

func (w *workspace) decode(output string, out any) {
	w.t.Helper()
	_, output, _ = strings.Cut(output, "{") // warnings come first
	if err := json.NewDecoder(strings.NewReader("{" + output)).Decode(out); err != nil {
		w.t.Fatalf("%v\n%s", err, output)
	}
}

// state returns the attributes of all resources by address.
func (w *workspace) state() map[string]map[string]any {
	w.t.Helper()
	var shown struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Address string
					Values  map[string]any
				}
			} `json:"root_module"`
		}
	}
	w.decode(w.must("show", "-json"), &shown)
	state := map[string]map[string]any{}
	for _, r := range shown.Values.RootModule.Resources {
		state[r.Address] = r.Values
	}
	return state
}

// A diagnostic is an error or a warning of a command.
type diagnostic struct {
	Severity, Summary, Detail, Address string
	Snippet                            struct{ Code string } // the line of the configuration
}

// errors runs a command that has to fail, and returns its errors.
func (w *workspace) errors(args ...string) (found []diagnostic) {
	w.t.Helper()
	out, code := w.tofu(slices.Insert(args, 1, "-json", "-no-color")...)
	if code == 0 {
		w.t.Fatalf("tofu %s succeeds\n%s", strings.Join(args, " "), out)
	}
	var whole struct{ Diagnostics []diagnostic }
	if json.Unmarshal([]byte(out), &whole) == nil && whole.Diagnostics != nil { // validate
		found = whole.Diagnostics
	} else {
		for line := range strings.Lines(out) {
			var message struct{ Diagnostic *diagnostic }
			if json.Unmarshal([]byte(line), &message) == nil && message.Diagnostic != nil {
				found = append(found, *message.Diagnostic)
			}
		}
	}
	return slices.DeleteFunc(found, func(d diagnostic) bool { return d.Severity != "error" })
}

// A fault is the first word of a line of the configuration, and a text of an error there.
type fault struct{ at, text string }

// wantErrors checks that there are these errors and no others.
func wantErrors(t *testing.T, found []diagnostic, want ...fault) {
	t.Helper()
	for _, d := range found {
		at, _, _ := strings.Cut(strings.TrimSpace(d.Snippet.Code), " ")
		i := slices.IndexFunc(want, func(f fault) bool { return f.at == at && strings.Contains(d.Summary+": "+d.Detail, f.text) })
		if i < 0 {
			t.Errorf("unexpected error at %q: %s: %s", d.Snippet.Code, d.Summary, d.Detail)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	for _, f := range want {
		t.Errorf("no error at %q with %q", f.at, f.text)
	}
}

func wantPlan(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("planned %v, want %v", got, want)
	}
}

// install puts the archive of the provider into a filesystem mirror, and returns the directory of the mirror.
func (w *workspace) install(version string) string {
	w.t.Helper()
	content, err := os.ReadFile(programs.provider)
	if err != nil {
		w.t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	header := &zip.FileHeader{Name: "terraform-provider-atrium_v" + version, Method: zip.Store}
	header.SetMode(0o755)
	entry, err := z.CreateHeader(header)
	if err == nil {
		_, err = entry.Write(content)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		w.t.Fatal(err)
	}
	mirror := filepath.Join(w.dir, "mirror")
	if err := os.MkdirAll(filepath.Join(mirror, filepath.FromSlash(provider.Address)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.file(filepath.Join("mirror", filepath.FromSlash(provider.Address), fmt.Sprintf("terraform-provider-atrium_%s_%s_%s.zip", version, runtime.GOOS, runtime.GOARCH)), archive.String())
	return mirror
}
