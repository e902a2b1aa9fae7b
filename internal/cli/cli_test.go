package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"atrium/internal/cli"
	"atrium/internal/store/engine/postgrestest"
)

func TestMain(m *testing.M) {
	testscript.Main(server{m}, map[string]func(){
		"atrium": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// A server runs the tests, and then ends the database server that they have used.
type server struct{ *testing.M }

func (s server) Run() int { return postgrestest.Main(s.M) }

// The scripts are the specification of the command line. Beside the commands
// that every script has there are
//
//	exits CODE COMMAND…          run it; its exit code is CODE
//	json FILE [MEMBER VARIABLE]… FILE is one JSON value; note members, by their path
//	same ONE OTHER               they are the same text
//	waitaddr FILE                wait until a server has logged its address to FILE: $ADDR
//	waitline FILE TEXT           wait until a command has written the text to FILE
//	http STATUS METHOD PATH [BODY]
//	                             ask the server at $ADDR, with $KEY unless it is empty;
//	                             the body of the answer is stdout
//	post PATH FILE               send each line of FILE to the server; every answer is 201
//	refused TIME METHOD PATH     ask until the answer is 401, as every one must be that
//	                             was asked for after TIME
//	curls N FILE                 the curl lines in FILE, N of them, all succeed
func TestCommandLine(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "testdata/script"}, nil)
}

// The commands do the same on a server, whose databases are empty and named by
// $ATRIUM_DATABASE and $OTHER_DATABASE.
func TestCommandLineOnPostgreSQL(t *testing.T) {
	both, err := filepath.Glob("testdata/postgres/*.txtar")
	if err != nil || len(both) == 0 {
		t.Fatal("there are no scripts", err)
	}
	for _, name := range []string{"brands", "export", "import", "import_resume", "keys_revoke", "keys_rotate", "listing", "serve_revoke", "tenants"} {
		both = append(both, "testdata/script/"+name+".txtar")
	}
	server := postgrestest.Shared(t)
	runScripts(t, testscript.Params{Files: both}, func(env *testscript.Env) {
		env.Setenv("ATRIUM_DATABASE", server.NewDatabase(t))
		env.Setenv("OTHER_DATABASE", server.NewDatabase(t))
	})
}

func runScripts(t *testing.T, p testscript.Params, setup func(*testscript.Env)) {
	t.Helper()
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "json": jsonMembers, "same": same, "waitaddr": waitAddr, "waitline": waitLine,
		"http": httpRequest, "post": post, "refused": refused, "curls": curls,
	}
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // a race is reported without a wait at every exit
		env.Setenv("ATRIUM_LOG_FORMAT", "text")   // which waitaddr reads
		if setup != nil {
			setup(env)
		}
		return nil
	}
	p.RequireExplicitExec = true
	p.RequireUniqueNames = true
	testscript.Run(t, p)
}

// patience bounds how long a script waits for what has no limit of its own.
const patience = 30 * time.Second

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) >= 2 && !neg, "exits CODE COMMAND…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	err = ts.Exec(args[1], args[2:]...)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func jsonMembers(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args)%2 == 1 && !neg, "json FILE [MEMBER VARIABLE]…")
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &value)) // which fails if anything follows
	for i := 1; i < len(args); i += 2 {
		member := value
		for name := range strings.SplitSeq(args[i], ".") {
			switch v := member.(type) {
			case map[string]any:
				member = v[name]
			case []any:
				n, err := strconv.Atoi(name)
				if err != nil || n >= len(v) {
					ts.Fatalf("there is no %s", args[i])
				}
				member = v[n]
			}
		}
		if member == nil {
			ts.Fatalf("there is no %s", args[i])
		}
		ts.Setenv(args[i+1], fmt.Sprint(member))
	}
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] same ONE OTHER")
	if (args[0] == args[1]) == neg {
		ts.Fatalf("%q and %q", args[0], args[1])
	}
}

var serving = regexp.MustCompile(`msg=serving addr=(\S+)`)

func waitAddr(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 1 && !neg, "waitaddr FILE")
	ts.Setenv("ADDR", waitFor(ts, args[0], serving)[1])
}

func waitLine(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "waitline FILE TEXT")
	waitFor(ts, args[0], regexp.MustCompile(regexp.QuoteMeta(args[1])))
}

// waitFor returns the match of a pattern in a file that a command writes.
func waitFor(ts *testscript.TestScript, file string, pattern *regexp.Regexp) []string {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(file)) // there is none before the command has begun
		if m := pattern.FindStringSubmatch(string(text)); err == nil && m != nil {
			return m
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s has no %s: %s", file, pattern, text)
		}
	}
}

func httpRequest(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, (len(args) == 3 || len(args) == 4) && !neg, "http STATUS METHOD PATH [BODY]")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	status, body := request(ts, args[1], args[2], strings.Join(args[3:], ""))
	_, _ = ts.Stdout().Write(body)
	if status != want {
		ts.Fatalf("status %d, want %d", status, want)
	}
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "post PATH FILE")
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if status, body := request(ts, http.MethodPost, args[0], line); status != http.StatusCreated {
			ts.Fatalf("status %d: %s", status, body)
		}
	}
}

func request(ts *testscript.TestScript, method, path, body string) (status int, answer []byte) {
	r, err := http.NewRequest(method, "http://"+ts.Getenv("ADDR")+path, strings.NewReader(body))
	ts.Check(err)
	if key := ts.Getenv("KEY"); key != "" {
		r.Header.Set("x-api-key", key)
	}
	return do(ts, r)
}

func do(ts *testscript.TestScript, r *http.Request) (status int, answer []byte) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	ts.Check(err)
	return res.StatusCode, answer
}

func refused(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 3 && !neg, "refused TIME METHOD PATH")
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		asked := time.Since(begin)
		status, body := request(ts, args[1], args[2], "")
		switch {
		case status == http.StatusUnauthorized:
			return
		case asked > limit:
			ts.Fatalf("status %d to what was asked %s later: %s", status, asked, body)
		}
	}
}
