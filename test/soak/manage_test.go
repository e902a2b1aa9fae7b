package soak

import (
	"fmt"
	"net/http"
)

// A manager does what operators do, one request after the other, and records what was
// acknowledged.
type manager struct {
	*client
	brand    string
	accounts []string // that it may rename
	pages    []*managedPage
	keys     []string // identifiers of active keys
	secrets  map[string]string
}

// A managedPage is created, changed and deleted.
type managedPage struct {
	path     string
	audience string // path of its audience
	status   string
	versions int
}

func (s *soak) newManager(of *tenant) *manager {
	return &manager{client: s.newClient("manager", of), secrets: map[string]string{}}
}

func (m *manager) step() {
	if m.brand == "" {
		m.brand = m.make("create brand", "/brands", "brandId", map[string]any{"name": m.text()})
		return
	}
	switch n := m.rng.IntN(100); {
	case n < 10:
		m.changeBrand()
	case n < 20:
		m.changeAccount()
	case n < 48:
		m.changePage()
	case n < 58:
		m.changeKey()
	case n < 66:
		m.merge()
	case n < 73:
		m.move()
	case n < 80:
		m.erase()
	case n < 90:
		m.batch()
	case n < 96:
		m.prospect()
	default:
		m.look()
	}
}

// text returns a unique name with the mark of the tenant.
func (m *manager) text() string { return m.of.mark + " " + m.unique() }

// make creates a resource, records its members as facts and returns its identifier.
func (m *manager) make(op, path, id string, members map[string]any) string {
	a := m.sure(m.making(op, path, members))
	made := a.text(id)
	if made == "" {
		return ""
	}
	m.s.ledger.learn(m.of, path+"/"+made, members)
	return made
}

// change sends an idempotent change and records its acknowledgement. An attempt without a
// response may have been executed: the next one may then find a state in which the change
// is rejected, with one of the statuses of again.
func (m *manager) change(op, method, path string, body any, fact map[string]any, at string, again ...int) bool {
	q := m.managing(op, method, path, body)
	if method == http.MethodPatch {
		q = q.with("If-Match: *")
	}
	a := m.sure(q)
	switch {
	case a.failed():
		return false
	case a.status < 300:
	case a.repeated:
		for _, status := range again {
			if a.status == status {
				m.s.ledger.learn(m.of, at, fact)
				return true
			}
		}
		fallthrough
	default:
		m.wrong("%s: %d %.200s", op, a.status, a.body)
		return false
	}
	m.s.ledger.learn(m.of, at, fact)
	shown := a.decode()
	for name, want := range fact {
		if want != anyValue && shown[name] != nil && shown[name] != want {
			m.wrong("%s shows %s as %v, not %v", op, name, shown[name], want)
		}
	}
	return true
}

func (m *manager) wrong(format string, args ...any) {
	m.s.tally.fault(&m.s.tally.wrong, format, args...)
}

func (m *manager) changeBrand() {
	if m.rng.IntN(4) == 0 { // a temporary one
		id := m.make("create brand", "/brands", "brandId", map[string]any{"name": m.text()})
		if id == "" {
			return
		}
		path := "/brands/" + id
		if a := m.sure(m.managing("delete brand", http.MethodDelete, path, nil, http.StatusNoContent, http.StatusNotFound)); a.status == http.StatusNoContent || a.repeated {
			m.s.ledger.forget(m.of, path)
		}
		return
	}
	name, path := m.text(), "/brands/"+m.brand
	m.change("update brand", http.MethodPatch, path, map[string]any{"name": name}, map[string]any{"name": name}, path)
}

const managedPages = 6

// changePage takes one of a few pages through its life cycle: changes, versions and
// states, until it is deleted and replaced.
func (m *manager) changePage() {
	if len(m.pages) < managedPages {
		p := &managedPage{status: "draft"}
		members := map[string]any{"brandId": m.brand, "name": m.text(), "title": m.of.mark, "pageContext": randomFill(m.rng, m.rng.IntN(2000))}
		id := m.make("create page", "/pages", "pageId", members)
		if id == "" {
			return
		}
		p.path = "/pages/" + id
		audience := m.make("create audience", p.path+"/audiences", "audienceId", map[string]any{"name": m.text()})
		if audience == "" {
			return
		}
		p.audience = p.path + "/audiences/" + audience
		m.pages = append(m.pages, p)
		return
	}
	i := m.rng.IntN(len(m.pages))
	p := m.pages[i]
	state := func(action, status string) {
		if m.change(action+" page", http.MethodPost, p.path+"/"+action, nil, map[string]any{"status": status}, p.path, http.StatusConflict) {
			p.status = status
		}
	}
	switch n := m.rng.IntN(12); {
	case n < 3:
		fields := map[string]any{"name": m.text(), "metadata": map[string]any{"mark": m.of.mark}}
		m.change("update page", http.MethodPatch, p.path, fields, map[string]any{"name": fields["name"]}, p.path)
	case n < 4:
		name := m.text()
		m.change("update audience", http.MethodPatch, p.audience, map[string]any{"name": name}, map[string]any{"name": name}, p.audience)
	case n < 7:
		content := map[string]any{"mark": m.of.mark, "text": randomFill(m.rng, m.rng.IntN(20<<10))}
		a := m.sure(m.making("create version", p.audience+"/versions", map[string]any{"content": content}))
		if a.status != http.StatusCreated {
			return
		}
		p.versions++
		if number := a.decode()["versionNumber"]; number != float64(p.versions) {
			m.wrong("version %v of %s, not %d", number, p.audience, p.versions)
		}
		path := fmt.Sprintf("%s/versions/%d", p.audience, p.versions)
		m.s.ledger.learn(m.of, path, map[string]any{"content": content})
		if m.rng.IntN(2) == 0 {
			m.change("publish version", http.MethodPost, path+"/publish", nil, map[string]any{"publishedVersion": float64(p.versions)}, p.audience, http.StatusConflict)
		}
	case n < 11:
		switch {
		case p.status == "draft":
			state("publish", "published")
		case p.status == "archived":
			state("restore", "draft")
		case n < 9:
			state("unpublish", "draft")
		default:
			state("archive", "archived")
		}
	default:
		a := m.sure(m.managing("delete page", http.MethodDelete, p.path, nil, http.StatusNoContent))
		if a.failed() {
			return
		}
		m.s.ledger.learn(m.of, p.path, map[string]any{"deletedAt": anyValue})
		m.pages = append(m.pages[:i], m.pages[i+1:]...)
	}
}

// changeKey takes keys through their life cycle. The change applies immediately on one
// node; the other nodes are checked at the end.
func (m *manager) changeKey() {
	if len(m.keys) < 4 {
		a := m.sure(m.making("create key", "/keys", map[string]any{"name": m.text()}))
		id, secret := a.text("keyId"), a.text("key")
		if id == "" {
			return
		}
		m.s.ledger.learn(m.of, "/keys/"+id, map[string]any{"keyId": id})
		if secret != "" { // replays omit it
			m.secrets[id] = secret
			m.s.ledger.answersTo(secret, http.StatusOK)
			m.sure(call{op: "GET /v0/pages, new key", method: http.MethodGet, path: "/v0/pages?limit=1", key: secret, want: []int{http.StatusOK}})
		}
		m.keys = append(m.keys, id)
		return
	}
	i := m.rng.IntN(len(m.keys))
	id := m.keys[i]
	former := m.secrets[id]
	if m.rng.IntN(2) == 0 {
		a := m.sure(m.managing("rotate key", http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"graceSeconds": 0}))
		if a.status != http.StatusOK {
			if !a.failed() {
				m.wrong("rotate key: %d %.200s", a.status, a.body)
			}
			return
		}
		m.secrets[id] = a.text("key")
		if former != "" {
			m.s.ledger.answersTo(former, http.StatusUnauthorized)
		}
		m.s.ledger.answersTo(m.secrets[id], http.StatusOK)
		return
	}
	if a := m.sure(m.managing("revoke key", http.MethodPost, "/keys/"+id+"/revoke", nil, http.StatusOK)); a.failed() {
		return
	}
	m.s.ledger.learn(m.of, "/keys/"+id, map[string]any{"revokedAt": anyValue})
	if former != "" {
		m.s.ledger.answersTo(former, http.StatusUnauthorized)
	}
	m.keys = append(m.keys[:i], m.keys[i+1:]...)
}

// look reads what operators read.
func (m *manager) look() {
	paths := []string{"/accounts?limit=20&q=mark", "/prospects?limit=20", "/moves?limit=20", "/keys", "/audit?limit=20", "/audit/head", "/tenant", "/brands", "/account_logs?limit=50", "/account_logs?unattributed=true", "/account_logs?claimedName=nobody", "/activity/accounts"}
	if id := m.s.ledger.accountOf(m.of, m.rng.IntN); id != "" {
		paths = append(paths, "/accounts/"+string(id)+"/activity?limit=50", "/accounts/"+string(id)+"/activity/counts")
	}
	path := paths[m.rng.IntN(len(paths))]
	m.sure(m.managing("look around", http.MethodGet, path, nil, http.StatusOK))
}
