package console

import (
	"time"

	"atrium"
)

// ofServer is a list of what the server has, as the API shows it.
type ofServer[T any] struct {
	Host      string `json:"host"`
	Version   string `json:"version"`
	StartedAt string `json:"startedAt"`
	Items     []T    `json:"items"`
}

type setting struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"` // nil if it is hidden
	Source string  `json:"source"`
}

// A job is a background job with its last runs.
type job struct {
	Name            string `json:"name"`
	IntervalSeconds int64  `json:"intervalSeconds"`
	LastSuccessAt   string `json:"lastSuccessAt"`
	LastFailureAt   string `json:"lastFailureAt"`
	LastError       string `json:"lastError"`
}

// Interval returns the time between two runs, such as 10 min.
func (j job) Interval() string {
	d := time.Duration(j.IntervalSeconds) * time.Second
	if d%time.Minute == 0 {
		return showCount(int64(d/time.Minute)) + "\u00a0min"
	}
	return showCount(j.IntervalSeconds) + "\u00a0s"
}

// Failing reports whether the last run failed.
func (j job) Failing() bool {
	failure, err := time.Parse(time.RFC3339Nano, j.LastFailureAt)
	if err != nil {
		return false
	}
	success, err := time.Parse(time.RFC3339Nano, j.LastSuccessAt)
	return err != nil || failure.After(success)
}

type serverPage struct {
	Jobs         ofServer[job]
	Failing      int
	Set, Default []setting // settings by whether someone has set them
}

// showServer shows the server that responds to operators.
func (c *Console) showServer(r *request) error {
	if r.user.TenantID != "" {
		return atrium.NotFound()
	}
	var p serverPage
	if _, err := r.get(&p.Jobs, "/server/jobs", nil); err != nil {
		return err
	}
	for _, j := range p.Jobs.Items {
		if j.Failing() {
			p.Failing++
		}
	}
	var settings ofServer[setting]
	if _, err := r.get(&settings, "/server/settings", nil); err != nil {
		return err
	}
	for _, s := range settings.Items {
		if s.Source == "default" {
			p.Default = append(p.Default, s)
		} else {
			p.Set = append(p.Set, s)
		}
	}
	return r.show("server", "", "Server", p)
}

// A check is the result of a check of the server.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Fix    string `json:"fix"`
}

type checksPage struct {
	Checks           ofServer[check]
	Failed, Warnings int
}

// showChecks checks the server that responds to operators.
func (c *Console) showChecks(r *request) error {
	if r.user.TenantID != "" {
		return atrium.NotFound()
	}
	var p checksPage
	if _, err := r.get(&p.Checks, "/server/checks", nil); err != nil {
		return err
	}
	for _, found := range p.Checks.Items {
		switch found.Status {
		case "fail":
			p.Failed++
		case "warn":
			p.Warnings++
		}
	}
	return r.show("checks", "", "Server checks", p)
}
