package console

import (
	"net/url"
	"strconv"
	"time"

	"atrium"
	"atrium/internal/rest"
)

// A refused is a refused request as the API shows it.
type refused struct {
	At        string        `json:"at"`
	Count     int64         `json:"count"`
	RequestID string        `json:"requestId"`
	Method    string        `json:"method"`
	Route     string        `json:"route"`
	Status    int           `json:"status"`
	Code      atrium.Code   `json:"code"`
	Detail    string        `json:"detail"`
	Errors    []fault       `json:"errors"`
	KeyID     atrium.KeyID  `json:"keyId"`
	UserID    atrium.UserID `json:"userId"`
	ActorName string        `json:"actorName"`
	UserAgent string        `json:"userAgent"`

	Ended *endedKey `json:"-"` // why the key was refused; nil if it was not
}

// An endedKey is why a key no longer works: it was revoked or has expired at a time, or has another secret now.
type endedKey struct {
	Name string
	How  string // "was revoked" or "expired"; "" for another secret
	At   string
}

// endedOf returns why a key that has worked before is refused.
func endedOf(k key, now time.Time) *endedKey {
	expires, err := time.Parse(time.RFC3339Nano, k.ExpiresAt)
	switch {
	case k.RevokedAt != "":
		return &endedKey{k.Name, "was revoked", k.RevokedAt}
	case err == nil && !expires.After(now):
		return &endedKey{k.Name, "expired", k.ExpiresAt}
	}
	return &endedKey{Name: k.Name}
}

// maxEndedKeys is how many keys a page of refused requests explains.
const maxEndedKeys = 5

// explainKeys says of refused keys why they no longer work. Clients get the same response for any key that does not work.
func (r *request) explainKeys(items []refused) error {
	known := map[atrium.KeyID]*endedKey{}
	for i := range items {
		f := &items[i]
		if f.Code != atrium.CodeUnauthenticated || f.KeyID == "" {
			continue
		}
		ended, ok := known[f.KeyID]
		if !ok && len(known) < maxEndedKeys {
			var k key
			switch _, err := r.get(&k, "/keys/"+url.PathEscape(string(f.KeyID)), nil); atrium.CodeOf(err) {
			case atrium.CodeNotFound, atrium.CodeForbidden:
			default:
				if err != nil {
					return err
				}
				ended = endedOf(k, time.Now())
			}
			known[f.KeyID] = ended
		}
		f.Ended = ended
	}
	return nil
}

// A fault is a fault of a request as the API shows it.
type fault struct {
	Pointer   *string `json:"pointer"`
	Parameter string  `json:"parameter"`
	Header    string  `json:"header"`
	Detail    string  `json:"detail"`
}

// Where names the place of a fault.
func (f fault) Where() string {
	switch {
	case f.Parameter != "":
		return "parameter " + f.Parameter
	case f.Header != "":
		return "header " + f.Header
	case f.Pointer == nil || *f.Pointer == "":
		return "body"
	}
	return *f.Pointer
}

// Remedy says how to fix requests with the code.
func (f refused) Remedy() string { return rest.Info(f.Code).Remedy }

// refusedCounts are the numbers of requests that were refused within a day, by code.
type refusedCounts struct {
	Since string `json:"since"`
	Count int64  `json:"count"`
	Codes []struct {
		Code  atrium.Code `json:"code"`
		Title string      `json:"title"`
		Count int64       `json:"count"`
	} `json:"codes"`
}

type refusedPage struct {
	Code, Route, KeyID, RequestID string
	SentBy                        string // "programs", "people", or "" for both
	Status, Since, Until          string // in links only
	Codes                         []rest.CodeInfo
	Day                           refusedCounts
	Requests                      list[refused]
}

// Filtered reports whether the page has a filter.
func (p refusedPage) Filtered() bool {
	return p.Code+p.Route+p.KeyID+p.RequestID+p.SentBy+p.Status+p.Since+p.Until != ""
}

// refusedFilters are the parameters of the list of refused requests.
var refusedFilters = []string{"code", "route", "keyId", "requestId", "sentBy", "status", "since", "until"}

func (c *Console) listRefused(r *request) error {
	p := refusedPage{
		Code: r.query("code"), Route: r.query("route"), KeyID: r.query("keyId"), RequestID: r.query("requestId"),
		SentBy: r.query("sentBy"), Status: r.query("status"), Since: r.query("since"), Until: r.query("until"), Codes: rest.Codes,
	}
	var err error
	if p.Requests, err = readList[refused](r, "/refused_requests", refusedFilters...); err != nil {
		return err
	}
	if err := r.explainKeys(p.Requests.Items); err != nil {
		return err
	}
	of := url.Values{}
	if p.SentBy != "" {
		of.Set("sentBy", p.SentBy)
	}
	if _, err = r.get(&p.Day, "/refused_requests/counts", of); err != nil {
		return err
	}
	return r.show("refused", "refused", "Refused requests", p)
}

// Times says how many requests a row stands for, "" for one.
func (f refused) Times() string {
	if f.Count == 1 {
		return ""
	}
	return "× " + strconv.FormatInt(f.Count, 10)
}
