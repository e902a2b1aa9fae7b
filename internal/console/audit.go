package console

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auditlog"
)

// A record is a record of the audit log as the API shows it.
type record struct {
	Number    int64          `json:"number"`
	At        string         `json:"at"`
	Actor     string         `json:"actor"`
	ActorName string         `json:"actorName"`
	Action    string         `json:"action"`
	Subject   string         `json:"subject"`
	RequestID string         `json:"requestId"`
	Detail    jsontext.Value `json:"detail"`
	Redacted  bool           `json:"redacted"`
}

// Tree returns the detail of a record as a tree.
func (r record) Tree() node {
	tree, err := parseNode(r.Detail)
	if err != nil {
		return node{Kind: kindValue, Text: atrium.Shorten(maxText, string(r.Detail))}
	}
	return tree
}

type auditPage struct {
	Subject, Actor, Action, Since, Until string
	Page                                 sitePage // whose changes are shown, with those of its audiences and versions; zero for all
	Records                              list[record]
	Verified                             *verification // nil if it was not asked for
}

// Filtered reports whether the page shows some records only.
func (p auditPage) Filtered() bool {
	return p.Page.PageID != "" || p.Subject != "" || p.Actor != "" || p.Action != "" || p.Since != "" || p.Until != ""
}

// subjectSections are the sections that have a page for each subject, by the prefix of its identifier.
var subjectSections = map[string]string{
	"account": "accounts", "prospect": "prospects", "prospectlog": "activity", "page": "pages", "user": "people",
	"webhook": "webhooks", "receiver": "receivers",
}

// SubjectPath returns the path of the page about the subject whose records are shown; "" for none.
func (p auditPage) SubjectPath(f frame) string {
	kind, id, ok := strings.Cut(p.Subject, "_")
	section := subjectSections[kind]
	if !ok || id == "" || section == "" {
		return ""
	}
	return f.Path(section, p.Subject)
}

// A verification is the result of verifying the audit log.
type verification struct {
	auditlog.Report
	Against string // the head that the log had to contain; "" for none
}

// auditFilters are the parameters of the list of audit records.
var auditFilters = []string{"page", "subject", "actor", "action", "since", "until"}

// auditQuery returns the parameters of the API for the filters of the audit log, and those that addresses have. An
// actor that is the name of a user is that user.
func (r *request) auditQuery() (query, shown url.Values, err error) {
	query, shown = r.listParameters(auditFilters...)
	actor := r.query("actor")
	_, isUser := atrium.ParseID[atrium.UserID](actor)
	_, isKey := atrium.ParseID[atrium.KeyID](actor)
	if actor == "" || isUser || isKey || slices.Contains(atrium.OtherActors(), actor) {
		return query, shown, nil
	}
	id, err := r.findUser(actor)
	if id != "" {
		query.Set("actor", string(id))
	}
	return query, shown, at("actor", err)
}

// findUser returns the user with a name, in any case; "" for none.
func (r *request) findUser(name string) (id atrium.UserID, err error) {
	query := url.Values{"limit": {strconv.Itoa(csvPage)}}
	for range maxUserPages {
		var page list[person]
		if _, err := r.get(&page, "/users", query); err != nil {
			return "", err
		}
		for _, p := range page.Items {
			switch {
			case !strings.EqualFold(p.Name, name):
			case id != "":
				return "", atrium.Errorf(atrium.CodeConflict, "Several users are called %s: enter the ID of one, which is on the user's page.", atrium.Shorten(80, name))
			default:
				id = p.UserID
			}
		}
		if !page.HasMore {
			break
		}
		query.Set("cursor", page.NextCursor)
	}
	return id, nil
}

// maxUserPages is how many pages of users findUser reads.
const maxUserPages = 20

func (c *Console) auditCSV(r *request) error {
	query, _, err := r.auditQuery()
	if err != nil {
		return err
	}
	return r.sendCSV("/audit", "audit.csv", "atrium audit list -o csv", query)
}

func (c *Console) listAudit(r *request) error { return r.showAudit(nil) }

func (r *request) showAudit(verified *verification) error {
	p := auditPage{
		Subject: r.query("subject"), Actor: r.query("actor"), Action: r.query("action"), Since: r.query("since"), Until: r.query("until"),
		Verified: verified,
	}
	if id := r.query("page"); id != "" {
		if _, err := r.get(&p.Page, "/pages/"+url.PathEscape(id), nil); err != nil {
			return err
		}
	}
	query, shown, err := r.auditQuery()
	if err == nil {
		p.Records, err = readPages[record](r, "/audit", query, shown)
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	return r.show("audit", "audit", "Audit log", p)
}

// verifyAudit verifies the audit log as the command line does: it reads an export. The log must contain the head
// that the user has entered, or its present one.
func (c *Console) verifyAudit(r *request) error {
	known, against, err := r.knownHead()
	if err != nil {
		return err
	}
	read, write := io.Pipe()
	type result struct {
		report auditlog.Report
		err    error
	}
	verified := make(chan result, 1)
	go func() {
		report, err := auditlog.VerifyLines(read, r.tenant, known)
		_, _ = io.Copy(io.Discard, read) // the rest, after a fault
		verified <- result{report, err}
	}()
	aborted := true
	defer func() {
		if aborted { // by a panic of the call
			_ = write.CloseWithError(http.ErrAbortHandler)
		}
	}()
	err = r.streamCall(call{method: http.MethodGet, path: "/audit/export"}, func(http.Header) {}, write)
	aborted = false
	_ = write.CloseWithError(err) // nil is the end
	done := <-verified
	if err = errors.Join(err, done.err); err != nil {
		return err
	}
	if err := http.NewResponseController(r.w).SetWriteDeadline(time.Now().Add(partTimeout)); err != nil {
		return err
	}
	r.http = r.http.WithContext(r.http.Context())
	r.http.URL = &url.URL{Path: r.path("audit")} // the addresses of other pages do not verify again
	return r.showAudit(&verification{done.report, against})
}

// knownHead returns the head that the log must contain, and its text if the user has entered it.
func (r *request) knownHead() (known *auditlog.Head, entered string, err error) {
	if entered = r.query("head"); entered != "" {
		head, ok := auditlog.ParseHead(entered)
		if !ok {
			return nil, "", atrium.Errorf(atrium.CodeInvalidRequest, "A head is a number, a colon and 64 digits of 0-9 and a-f, as a verification or atrium audit head shows it.")
		}
		return &head, entered, nil
	}
	var present struct {
		Number int64  `json:"number"`
		Hash   string `json:"hash"`
	}
	if _, err := r.get(&present, "/audit/head", nil); err != nil || present.Number == 0 {
		return nil, "", err
	}
	hash, err := hex.DecodeString(present.Hash)
	return &auditlog.Head{Number: present.Number, Hash: hash}, "", err
}
