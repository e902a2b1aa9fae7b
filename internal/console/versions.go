package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A version is a version of an audience as the API shows it.
type version struct {
	ID            string         `json:"id"`
	VersionNumber int64          `json:"versionNumber"`
	Archived      bool           `json:"archived"`
	Published     bool           `json:"published"`
	Note          string         `json:"note"`
	CreatedAt     string         `json:"createdAt"`
	Content       jsontext.Value `json:"content"`
}

// Raw returns the content as text.
func (v version) Raw() string { return indent(v.Content) }

func (r *request) audiencePath() string {
	return r.pagePath() + "/audiences/" + url.PathEscape(r.http.PathValue("audience_id"))
}

func (r *request) versionPath() string {
	return r.audiencePath() + "/versions/" + url.PathEscape(r.http.PathValue("number"))
}

// own returns the path of a page about the audience.
func (r *request) own() string {
	return r.path("pages", r.http.PathValue("page_id"), "audiences", r.http.PathValue("audience_id"))
}

type audiencePage struct {
	Page     sitePage
	Audience audience
	Tag      string // what the user has seen of Audience
	Versions list[version]
	Own      string        // the path of the page
	Next     int64         // the number of the next version
	State    audienceState // what visitors see
	Base     int64         // the version that a new one starts from; 0 for none
	Other    int64         // a version that it could start from instead; Base for none
	Draft    string        // the content that a new version starts with
	Texts    []contentText // of Draft
	Note     string
}

// Open reports whether versions can be written and published.
func (p *audiencePage) Open() bool { return !p.Audience.Archived && p.Page.DeletedAt == "" }

// Visible reports whether visitors see the published version, if there is one.
func (p *audiencePage) Visible() bool { return !p.Audience.Archived && p.Page.Live() }

func (c *Console) createAudience(r *request) error {
	a, err := r.call(call{method: http.MethodPost, path: r.pagePath() + "/audiences", body: map[string]any{"name": r.form("name")}})
	if err != nil {
		return err
	}
	var made audience
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id"), "audiences", string(made.AudienceID)), "audiencecreated")
}

func (c *Console) showAudience(r *request) error {
	return r.showAudience(audiencePage{})
}

func (r *request) showAudience(p audiencePage) error {
	if _, err := r.get(&p.Page, r.pagePath(), nil); err != nil {
		return err
	}
	var err error
	if p.Tag, err = r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	if p.Versions, err = readList[version](r, r.audiencePath()+"/versions"); err != nil {
		return err
	}
	newest := p.Versions
	if r.query("cursor") != "" {
		if _, err := r.get(&newest, r.audiencePath()+"/versions", nil); err != nil {
			return err
		}
	}
	p.Own, p.Next = r.own(), 1
	read := r.versionReader()
	if p.State, err = r.audienceState(&p.Audience, newest.Items, read); err != nil {
		return err
	}
	if len(newest.Items) > 0 {
		p.Next = newest.Items[0].VersionNumber + 1
	}
	if p.Draft == "" && p.Next > 1 {
		p.startFrom(r.query("base"), newest.Items[0])
		base, err := read(p.Base)
		if err != nil {
			return err
		}
		if err := r.heavily(func() error { p.Draft = base.Raw(); return nil }); err != nil {
			return err
		}
	}
	if p.Draft == "" {
		p.Draft = firstContent
	}
	if err := r.heavily(func() error { p.Texts = contentTexts(p.Draft); return nil }); err != nil {
		return err
	}
	return r.show("audience", "pages", p.Audience.Name, &p)
}

// startFrom sets the version that a new one starts from: the chosen one, or the newest. If the published one is older, but was
// published after the newest was written, it was restored, and a new version starts from it.
func (p *audiencePage) startFrom(chosen string, newest version) {
	published := p.State.Published.VersionNumber
	p.Base, p.Other = newest.VersionNumber, published
	if published != 0 && published < p.Base && p.State.By.At > newest.CreatedAt {
		p.Base = published
	}
	if n, err := strconv.ParseInt(chosen, 10, 64); err == nil && n > 0 && n <= newest.VersionNumber {
		p.Base = n
	}
	if p.Other == p.Base || p.Other == 0 {
		p.Other = newest.VersionNumber
	}
}

// An audienceState says what is published for an audience, and what a newer version changes.
type audienceState struct {
	Published version // zero for none
	By        record  // of the audit log, about the publication; zero if it is unknown
	Newer     version // the newest one that could be published; zero for none
	Changes   *difference
}

// audienceState reads the state of an audience, of which newest has the newest versions.
func (r *request) audienceState(u *audience, newest []version, read func(int64) (version, error)) (s audienceState, err error) {
	var published int64
	if u.PublishedVersion != nil {
		published = *u.PublishedVersion
		if s.Published, err = read(published); err != nil {
			return s, err
		}
		var records list[record]
		if _, err := r.get(&records, "/audit", url.Values{"subject": {s.Published.ID}, "action": {"version.publish"}, "limit": {"1"}}); err != nil {
			return s, err
		}
		if len(records.Items) > 0 {
			s.By = records.Items[0]
		}
	}
	for _, v := range newest {
		if v.VersionNumber <= published || v.Archived {
			continue
		}
		if s.Newer, err = read(v.VersionNumber); err != nil || published == 0 {
			return s, err
		}
		return s, r.heavily(func() error { s.Changes = compare(s.Published.Content, s.Newer.Content); return nil })
	}
	return s, nil
}

// versionReader returns a function that reads a version of the audience with its content, each once.
func (r *request) versionReader() func(number int64) (version, error) {
	known := map[int64]version{}
	return func(number int64) (v version, err error) {
		v, ok := known[number]
		if !ok {
			_, err = r.get(&v, r.audiencePath()+"/versions/"+strconv.FormatInt(number, 10), nil)
			known[number] = v
		}
		return v, err
	}
}

// firstContent is what the first version of an audience starts with. What sites read in it is up to them.
const firstContent = `{
  "headline": "",
  "text": ""
}`

func (c *Console) createVersion(r *request) error {
	p := audiencePage{Draft: lines(r.http.PostForm.Get("content")), Note: r.form("note")}
	var content jsontext.Value
	err := r.heavily(func() error {
		if err := r.changeTexts(&p); err != nil {
			return err
		}
		content = jsontext.Value(strings.TrimSpace(p.Draft))
		if fault := faultOf(content); fault != "" {
			return wrong("content", "%s", fault)
		}
		return nil
	})
	if err == nil {
		err = r.checkNext()
	}
	var a answer
	if err == nil {
		a, err = r.call(call{method: http.MethodPost, path: r.audiencePath() + "/versions", body: map[string]any{"content": content, "note": p.Note}})
	}
	if atrium.CodeOf(err) == atrium.CodePreconditionFailed {
		r.refused = err
	} else if err := r.refuse(err); err != nil {
		return err
	}
	if r.refused != nil {
		return r.showAudience(p)
	}
	var made version
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	number := strconv.FormatInt(made.VersionNumber, 10)
	if r.form("publish") == "" {
		return r.redirect(r.own(), "version", number)
	}
	message, err := r.publishVersion(r.audiencePath() + "/versions/" + number)
	if _, ok := asError(err); ok {
		r.refused, r.kept = err, "Version "+number+" is saved, but not published."
		return r.showAudience(audiencePage{})
	}
	if err != nil {
		return err
	}
	return r.redirect(r.own(), message, number)
}

// checkNext returns an error if a version was saved since the user opened the form.
func (r *request) checkNext() error {
	next, err := r.nextVersion()
	if seen := r.form("next"); err == nil && seen != "" && seen != strconv.FormatInt(next, 10) {
		return atrium.Errorf(atrium.CodePreconditionFailed, "A version was saved since you opened this page. Compare it with yours, then save again.")
	}
	return err
}

// nextVersion returns the number of the next version of the audience.
func (r *request) nextVersion() (int64, error) {
	var newest list[version]
	if _, err := r.get(&newest, r.audiencePath()+"/versions", url.Values{"limit": {"1"}}); err != nil || len(newest.Items) == 0 {
		return 1, err
	}
	return newest.Items[0].VersionNumber + 1, nil
}

// publishVersion publishes a version, and returns the message about it.
func (r *request) publishVersion(path string) (message string, err error) {
	if _, err := r.call(call{method: http.MethodPost, path: path + "/publish"}); err != nil {
		return "", err
	}
	var p sitePage
	if _, err := r.get(&p, r.pagePath(), nil); err != nil {
		return "", err
	}
	if !p.Live() {
		return "publishedlater", nil
	}
	return "published", nil
}

// changeTexts puts the texts of the form into the content. The form has the content that they are based on.
func (r *request) changeTexts(p *audiencePage) error {
	base := lines(r.http.PostForm.Get("base:content"))
	changed, _ := changeTexts(base, r.http.PostForm) // without texts, that is the base
	switch {
	case changed == base: // only JSON is changed
	case p.Draft == base:
		p.Draft = changed
	default:
		return wrong("content", "is changed both as JSON and in its texts. The texts are as in the JSON that you have entered")
	}
	return nil
}

// changeAudience renames or archives an audience, or restores it. The form has the state that the user has seen.
func (c *Console) changeAudience(r *request) error {
	change := call{method: http.MethodPost, path: r.audiencePath() + "/" + r.http.PathValue("action"), ifMatch: r.form("tag")}
	switch r.http.PathValue("action") {
	case "rename":
		change.method, change.path, change.body = http.MethodPatch, r.audiencePath(), map[string]any{"name": r.form("name")}
	case "archive", "restore":
	default:
		return atrium.NotFound()
	}
	if _, err := r.call(change); err != nil {
		return err
	}
	return r.redirect(r.own(), r.http.PathValue("action")+"audience")
}

// endPreview makes a preview stop working.
func (c *Console) endPreview(r *request) error {
	if _, err := r.call(call{method: http.MethodDelete, path: r.pagePath() + "/previews/" + url.PathEscape(r.http.PathValue("preview_id"))}); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id")), "previewended")
}

// versionActions are the actions on a version that need nothing else.
var versionActions = map[string]string{"archive": "versionarchived", "restore": "versionrestored"}

func (c *Console) changeVersion(r *request) (err error) {
	action := r.http.PathValue("action")
	message, ok := versionActions[action]
	switch {
	case action == "preview":
		return r.createPreview()
	case action == "publish":
		message, err = r.publishVersion(r.versionPath())
	case ok:
		_, err = r.call(call{method: http.MethodPost, path: r.versionPath() + "/" + action})
	default:
		return atrium.NotFound()
	}
	if err != nil {
		return err
	}
	return r.redirect(r.own(), message, r.http.PathValue("number"))
}

type versionPage struct {
	Page     sitePage
	Audience audience
	Version  version
	Own      string
	Bytes    int64
	Laid     node // the content; zero for none
	Partly   bool // Laid is only a part of it
	Raw      string
	Cut      bool     // Raw is only the beginning
	Preview  *preview // just created; nil for none
}

// A preview is a preview of a version as the API shows it.
type preview struct {
	PreviewID     string            `json:"previewId"`
	AudienceID    atrium.AudienceID `json:"audienceId"`
	VersionNumber int64             `json:"versionNumber"`
	CreatedAt     string            `json:"createdAt"`
	ExpiresAt     string            `json:"expiresAt"`
	Token         string            `json:"token"` // only of a new one
	Address       string            `json:"-"`     // of what a site receives
}

func (c *Console) showVersion(r *request) error { return r.showVersion(nil) }

// createPreview shows a new preview in its response, because its token can be shown only once.
func (r *request) createPreview() error {
	number, err := strconv.ParseInt(r.http.PathValue("number"), 10, 64)
	if err != nil {
		return atrium.NotFound()
	}
	a, err := r.once(call{
		method: http.MethodPost, path: r.pagePath() + "/previews",
		body: map[string]any{"audienceId": r.http.PathValue("audience_id"), "versionNumber": number},
	})
	if err != nil {
		return err
	}
	var made preview
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	made.Address = r.server() + "/content/v0/" + string(r.tenant) + r.audiencePath() + "?preview=" + url.QueryEscape(made.Token)
	return r.showVersion(&made)
}

func (r *request) showVersion(made *preview) error {
	p := versionPage{Own: r.own(), Preview: made}
	if _, err := r.get(&p.Page, r.pagePath(), nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Version, r.versionPath(), nil); err != nil {
		return err
	}
	p.Bytes = int64(len(p.Version.Content))
	if err := r.heavily(func() error {
		p.Laid, p.Partly = layOut(p.Version.Content)
		p.Raw, p.Cut = raw(p.Version.Content)
		return nil
	}); err != nil {
		return err
	}
	return r.show("version", "pages", "Version "+strconv.FormatInt(p.Version.VersionNumber, 10), p)
}

type comparePage struct {
	Page       sitePage
	Audience   audience
	From, To   version
	Own        string
	Difference *difference
}

// compareVersions shows what differs between two versions.
func (c *Console) compareVersions(r *request) error {
	p := comparePage{Own: r.own()}
	if _, err := r.get(&p.Page, r.pagePath(), nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	for name, v := range map[string]*version{"from": &p.From, "to": &p.To} {
		if _, err := r.get(v, r.audiencePath()+"/versions/"+url.PathEscape(r.query(name)), nil); err != nil {
			return err
		}
	}
	if err := r.heavily(func() error { p.Difference = compare(p.From.Content, p.To.Content); return nil }); err != nil {
		return err
	}
	return r.show("compare", "pages", "Compare versions", p)
}
