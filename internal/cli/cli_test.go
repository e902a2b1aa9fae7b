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
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/cli"
	"atrium/internal/store/engine/postgrestest"
)

func TestMain(m *testing.M) {
	testscript.Main(server{m}, map[string]func(){
		"atrium": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// A server runs the tests, and then stops the database server that they used.
type server struct{ *testing.M }

func (s server) Run() int { return postgrestest.Main(s.M) }

// The scripts are the specification of the command line. $DEPLOY is the directory deploy. In addition to the standard commands of
// testscript, they can use:
//
//	exits CODE COMMAND…          run COMMAND; its exit code is CODE
//	json FILE [MEMBER VARIABLE]… FILE is one JSON value; set variables to members, named by path
//	same ONE OTHER               the two texts are equal
//	waitaddr FILE                wait until a server has logged its address to FILE; set $ADDR
//	waitline FILE TEXT           wait until a command has written TEXT to FILE
//	http STATUS METHOD PATH [BODY]
//	                             send a request to $ADDR, with the key $KEY if it is set; print
//	                             the body of the response
//	post PATH FILE               send each line of FILE to the server; every response is 201
//	sql FILE SCRIPT              run SQL on a SQLite file
//	refused TIME METHOD PATH     send requests until one gets 401; all that start
//	                             after TIME must
//	curls N FILE                 run the N curl lines in FILE; all succeed
func TestCommandLine(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "testdata/script"}, nil)
}

// The commands behave the same on PostgreSQL. $ATRIUM_DATABASE and $OTHER_DATABASE name empty
// databases.
func TestCommandLineOnPostgreSQL(t *testing.T) {
	both, err := filepath.Glob("testdata/postgres/*.txtar")
	if err != nil || len(both) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range []string{"accounts", "brands", "copy", "counts", "csv", "domains", "entries", "erasures", "export", "import",
		"import_resume", "keys_revoke", "keys_rotate", "listing", "persons", "retention", "serve_revoke", "tenant_default", "tenants"} {
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
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "json": jsonMembers, "same": same, "waitaddr": waitAddr, "waitline": waitLine,
		"http": httpRequest, "post": post, "sql": runSQL, "refused": expectRefused, "curls": curls,
	}
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // report races without a delay at exit
		env.Setenv("ATRIUM_LOG_FORMAT", "text")   // waitaddr parses it
		env.Setenv("DEPLOY", deploy)
		if setup != nil {
			setup(env)
		}
		return nil
	}
	p.RequireExplicitExec = true
	p.RequireUniqueNames = true
	testscript.Run(t, p)
}

// waitTimeout limits waits in scripts that have no other limit.
const waitTimeout = 30 * time.Second

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
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &value)) // fails if anything follows the value
	for i := 1; i < len(args); i += 2 {
		member := value
		for name := range strings.SplitSeq(args[i], ".") {
			switch v := member.(type) {
			case map[string]any:
				member = v[name]
			case []any:
				n, err := strconv.Atoi(name)
				if err != nil || n >= len(v) {
					ts.Fatalf("no member %s", args[i])
				}
				member = v[n]
			}
		}
		if member == nil {
			ts.Fatalf("no member %s", args[i])
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

var servingLine = regexp.MustCompile(`msg=serving addr=(\S+)`)

func waitAddr(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 1 && !neg, "waitaddr FILE")
	ts.Setenv("ADDR", waitFor(ts, args[0], servingLine)[1])
}

func waitLine(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "waitline FILE TEXT")
	waitFor(ts, args[0], regexp.MustCompile(regexp.QuoteMeta(args[1])))
}

// waitFor waits for a match of a pattern in a file that a command writes.
func waitFor(ts *testscript.TestScript, file string, pattern *regexp.Regexp) []string {
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(file)) // the file may not exist yet
		if m := pattern.FindStringSubmatch(string(text)); err == nil && m != nil {
			return m
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s has no %s: %s", file, pattern, text)
		}
	}
}

func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "sql FILE SCRIPT")
	c, err := sqlite.OpenConn(ts.MkAbs(args[0]), sqlite.OpenReadWrite)
	ts.Check(err)
	ts.Check(errors.Join(sqlitex.ExecuteScript(c, args[1], nil), c.Close()))
}

func httpRequest(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, (len(args) == 3 || len(args) == 4) && !neg, "http STATUS METHOD PATH [BODY]")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	status, body := sendRequest(ts, args[1], args[2], strings.Join(args[3:], ""))
	_, _ = ts.Stdout().Write(body)
	if status != want {
		ts.Fatalf("status %d, want %d", status, want)
	}
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "post PATH FILE")
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if status, body := sendRequest(ts, http.MethodPost, args[0], line); status != http.StatusCreated {
			ts.Fatalf("status %d: %s", status, body)
		}
	}
}

func sendRequest(ts *testscript.TestScript, method, path, body string) (status int, response []byte) {
	r, err := http.NewRequest(method, "http://"+ts.Getenv("ADDR")+path, strings.NewReader(body))
	ts.Check(err)
	if key := ts.Getenv("KEY"); key != "" {
		r.Header.Set("x-api-key", key)
	}
	return doRequest(ts, r)
}

func doRequest(ts *testscript.TestScript, r *http.Request) (status int, response []byte) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: waitTimeout}).Do(r)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	response, err = io.ReadAll(res.Body)
	ts.Check(err)
	return res.StatusCode, response
}

func expectRefused(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 3 && !neg, "refused TIME METHOD PATH")
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		elapsed := time.Since(begin)
		status, body := sendRequest(ts, args[1], args[2], "")
		switch {
		case status == http.StatusUnauthorized:
			return
		case elapsed > limit:
			ts.Fatalf("status %d after %s: %s", status, elapsed, body)
		}
	}
}
