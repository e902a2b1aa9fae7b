package app

import (
	"os"
	"strings"
	"sync"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/manage"
)

// maxJobError is the maximum length of a stored error in code points.
const maxJobError = 500

// jobRuns stores the last runs of each job since the start.
type jobRuns struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]lastRuns // by the name of the job; guarded by mu
}

// lastRuns are the last runs of a job.
type lastRuns struct {
	success, failure *atrium.Time // nil for none
	err              string       // of the last failure
}

func newJobRuns(now func() time.Time) *jobRuns {
	return &jobRuns{now: now, all: map[string]lastRuns{}}
}

// ran stores the result of a run.
func (r *jobRuns) ran(job string, err error) {
	at := atrium.At(r.now())
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.all[job]
	if err == nil {
		last.success = &at
	} else {
		last.failure, last.err = &at, jobError(err)
	}
	r.all[job] = last
}

func (r *jobRuns) last(job string) lastRuns {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[job]
}

// jobError returns the text of an error on one line, without credentials.
func jobError(err error) string {
	text := publicLine(err.Error())
	if runes := []rune(text); len(runes) > maxJobError {
		return string(runes[:maxJobError-1]) + "…"
	}
	return text
}

// publicLine returns a text on one line, without credentials.
func publicLine(text string) string {
	return atrium.Printable(strings.Join(strings.Fields(config.RedactText(strings.ToValidUTF8(text, "\uFFFD"))), " "))
}

// jobRan stores and measures the result of a run.
func (a *App) jobRan(job string, err error) {
	a.runs.ran(job, err)
	if err == nil && a.succeeded != nil {
		a.succeeded(job)
	}
}

// serverInfo returns what operators can see of this process.
func (a *App) serverInfo(c Config) *manage.Server {
	host, _ := os.Hostname() // "" if it is unknown
	info := &manage.Server{
		Host: host, Version: c.Version, StartedAt: atrium.At(time.Now()), Jobs: a.jobStates, Checks: newChecks(c), Settings: make([]manage.Setting, len(c.Origins)),
	}
	for i, s := range c.Origins {
		info.Settings[i] = manage.Setting{Name: s.Name, Value: &s.Value, Source: string(s.Source)}
		if s.Source == config.FromSecret {
			info.Settings[i].Value = nil
		}
	}
	return info
}

// jobStates returns the jobs with their last runs.
func (a *App) jobStates() []manage.Job {
	all := make([]manage.Job, len(a.jobs))
	for i, j := range a.jobs {
		last := a.runs.last(j.name)
		all[i] = manage.Job{
			Name: j.name, IntervalSeconds: max(1, int64(j.interval/time.Second)), LastSuccessAt: last.success, LastFailureAt: last.failure, LastError: last.err,
		}
	}
	return all
}
