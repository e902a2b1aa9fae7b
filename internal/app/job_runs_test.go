package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"atrium"
	"atrium/internal/config"
)

func TestTheLastSuccessAndFailureOfAJobAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := atrium.At(time.Now())
		n := 0
		a := &App{runs: newJobRuns(time.Now), log: slog.New(slog.DiscardHandler), jobs: []job{
			{"test", cleanupInterval, func(context.Context) (bool, error) {
				if n++; n == 2 {
					return false, errors.New("connect to postgres://me:s3cr3t@db/x:\nrefused")
				}
				return false, nil
			}}, {"idle", pollInterval, func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() }},
		}}
		succeeded := 0
		a.succeeded = func(string) { succeeded++ }
		ctx, stop := context.WithCancel(t.Context())
		startJobs(ctx, a.jobs, a.log, a.jobRan)
		synctest.Wait()
		first := a.jobStates()[0]
		if first.Name != "test" || first.IntervalSeconds != 600 || first.LastSuccessAt == nil || *first.LastSuccessAt != began || first.LastFailureAt != nil || first.LastError != "" {
			t.Errorf("after the first run: %+v", first)
		}
		time.Sleep(cleanupInterval * 5 / 4)
		time.Sleep(maxFailureInterval * 5 / 4)
		synctest.Wait()
		last := a.jobStates()[0]
		if last.LastFailureAt == nil || *last.LastFailureAt <= began || *last.LastSuccessAt <= *last.LastFailureAt || last.LastError != "connect to postgres://xxxxx@db/x: refused" {
			t.Errorf("after a failure and a success: %+v", last)
		}
		if succeeded != n-1 {
			t.Errorf("%d of %d runs were measured, want all except the failed one", succeeded, n)
		}
		stop()
		synctest.Wait()
		if idle := a.jobStates()[1]; idle.LastSuccessAt != nil || idle.LastFailureAt != nil {
			t.Errorf("a stopped run counts: %+v", idle)
		}
	})
}

func TestTheErrorOfAJobIsBounded(t *testing.T) {
	if text := jobError(errors.New(strings.Repeat("ä\xff\x00", 1000))); utf8.RuneCountInString(text) != maxJobError || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		t.Errorf("the error is %q", text)
	}
}

func TestOperatorsSeeNoContentOfFiles(t *testing.T) {
	a := &App{}
	info := a.serverInfo(Config{Origins: []config.Setting{
		{Name: "addr", Value: "", Source: config.FromDefault}, {Name: "database", Value: "postgres://me:xxxxx@db/x", Source: config.FromSecret},
	}})
	if s := info.Settings; len(s) != 2 || s[0].Value == nil || *s[0].Value != "" || s[1].Value != nil || s[1].Source != string(config.FromSecret) {
		t.Errorf("the settings are %+v", s)
	}
}
