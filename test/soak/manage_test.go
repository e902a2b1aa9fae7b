package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"atrium"
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

// take sends an idempotent change and records its acknowledgement. An attempt without a
// response may have been executed: the next one may then find a state in which the change
// is rejected, with one of the statuses of again.
func (m *manager) take(op, method, path string, body any, fact map[string]any, at string, again ...int) bool {
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
	m.take("update brand", http.MethodPatch, path, map[string]any{"name": name}, map[string]any{"name": name}, path)
}

// changeAccount creates an account, or renames one with If-Match.
func (m *manager) changeAccount() {
	if len(m.accounts) < 10 {
		if id := m.make("create account", "/accounts", "accountId", map[string]any{"domain": m.unique() + "." + m.of.mark + ".example", "name": m.text()}); id != "" {
			m.accounts = append(m.accounts, id)
		}
		return
	}
	path := "/accounts/" + m.accounts[m.rng.IntN(len(m.accounts))]
	read := m.sure(m.managing("get account", http.MethodGet, path, nil, http.StatusOK))
	if read.status != http.StatusOK {
		return
	}
	name := m.text()
	a := m.sure(m.managing("update account", http.MethodPatch, path, map[string]any{"name": name}).with("If-Match: " + read.header.Get("ETag")))
	switch {
	case a.status == http.StatusOK, a.status == http.StatusPreconditionFailed && a.repeated:
		m.s.ledger.learn(m.of, path, map[string]any{"name": name})
		again := m.sure(m.managing("update account, stale", http.MethodPatch, path, map[string]any{"name": "stale"}).with("If-Match: " + read.header.Get("ETag")))
		if again.status != http.StatusPreconditionFailed && !again.failed() {
			m.wrong("a change based on a former state: %d %.200s", again.status, again.body)
		}
	case !a.failed():
		m.wrong("update account: %d %.200s", a.status, a.body)
	}
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
		if m.take(action+" page", http.MethodPost, p.path+"/"+action, nil, map[string]any{"status": status}, p.path, http.StatusConflict) {
			p.status = status
		}
	}
	switch n := m.rng.IntN(12); {
	case n < 3:
		fields := map[string]any{"name": m.text(), "metadata": map[string]any{"mark": m.of.mark}}
		m.take("update page", http.MethodPatch, p.path, fields, map[string]any{"name": fields["name"]}, p.path)
	case n < 4:
		name := m.text()
		m.take("update audience", http.MethodPatch, p.audience, map[string]any{"name": name}, map[string]any{"name": name}, p.audience)
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
			m.take("publish version", http.MethodPost, path+"/publish", nil, map[string]any{"publishedVersion": float64(p.versions)}, p.audience, http.StatusConflict)
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

// entries posts entries with these members until they are acknowledged.
func (m *manager) entries(n int, members map[string]any) (all []*posting) {
	for range n {
		p := &posting{tenant: m.of, marker: m.of.mark + "-" + m.unique(), source: "operator", kind: atrium.DefaultType}
		p.key = "key-" + strings.TrimPrefix(p.marker, m.of.mark)
		given := map[string]any{"source": p.source, "idempotencyKey": p.key}
		for name, value := range members {
			given[name] = value
		}
		m.post(m.fill(p, given, 64+m.rng.IntN(512)))
		if p.receipt.EntryID == "" {
			return nil
		}
		p.body = nil
		all = append(all, p)
	}
	return all
}

// merge merges two accounts with entries, and usually splits them again.
func (m *manager) merge() {
	domains := []string{m.unique() + "." + m.of.mark + ".example", m.unique() + "." + m.of.mark + ".example"}
	one, other := m.entries(2, map[string]any{"domain": domains[0]}), m.entries(1, map[string]any{"domain": domains[1]})
	if one == nil || other == nil {
		return
	}
	gone, survivor := string(one[0].receipt.AccountID), string(other[0].receipt.AccountID)
	a := m.sure(m.managing("merge accounts", http.MethodPost, "/accounts/"+gone+"/merge", map[string]any{"into": survivor}, http.StatusOK))
	if a.status != http.StatusOK {
		return
	}
	m.s.ledger.learn(m.of, "/accounts/"+gone, map[string]any{"accountId": survivor})
	for _, p := range m.entries(1, map[string]any{"domain": domains[0]}) {
		if string(p.receipt.AccountID) != survivor {
			m.wrong("an entry for %s, which was merged into %s, went to %s", domains[0], survivor, p.receipt.AccountID)
		}
	}
	if a := m.sure(m.external("GET /v0/accounts/{id}", http.MethodGet, "/v0/accounts/"+gone, nil, http.StatusOK)); !a.failed() && a.text("accountId") != survivor {
		m.wrong("%s was merged into %s and shows %.200s", gone, survivor, a.body)
	}
	if m.rng.IntN(3) == 0 {
		return
	}
	a = m.sure(m.managing("split account", http.MethodPost, "/accounts/"+survivor+"/split", map[string]any{"accountId": gone}))
	if a.status == http.StatusOK || a.status == http.StatusNotFound && a.repeated {
		m.s.ledger.learn(m.of, "/accounts/"+gone, map[string]any{"accountId": gone})
	} else if !a.failed() {
		m.wrong("split account: %d %.200s", a.status, a.body)
	}
}

// move moves entries without an account to one by a rule, and sometimes back.
func (m *manager) move() {
	name := m.text()
	entries := m.entries(2, map[string]any{"name": name})
	to := m.make("create account", "/accounts", "accountId", map[string]any{"domain": m.unique() + "." + m.of.mark + ".example"})
	if entries == nil || to == "" {
		return
	}
	m.s.ledger.rehomed(entries, "", stays)
	a := m.sure(m.making("move entries", "/moves", map[string]any{"to": to, "rule": map[string]any{"claimedName": name}}))
	if a.status != http.StatusCreated {
		return
	}
	var made struct {
		Move  struct{ MoveID string }
		Moved int
	}
	if err := json.Unmarshal(a.body, &made); err != nil || made.Moved != len(entries) {
		m.wrong("a move of %d entries: %.200s", len(entries), a.body)
		return
	}
	m.s.ledger.rehomed(entries, atrium.AccountID(to), stays)
	m.s.ledger.learn(m.of, "/moves/"+made.Move.MoveID, map[string]any{"moved": float64(len(entries)), "toAccountId": to})
	if m.rng.IntN(2) == 0 {
		return
	}
	m.s.ledger.rehomed(entries, "", stays)
	a = m.sure(m.managing("undo move", http.MethodPost, "/moves/"+made.Move.MoveID+"/undo", nil))
	if a.status == http.StatusOK || a.status == http.StatusConflict && a.repeated {
		m.s.ledger.learn(m.of, "/moves/"+made.Move.MoveID, map[string]any{"undoneAt": anyValue})
		m.s.ledger.rehomed(entries, entries[0].receipt.AccountID, stays)
	} else if !a.failed() {
		m.wrong("undo move: %d %.200s", a.status, a.body)
	}
}

// erase erases an account, whose data must not reappear.
func (m *manager) erase() {
	entries := m.entries(1+m.rng.IntN(3), map[string]any{"domain": m.unique() + "." + m.of.mark + ".example"})
	if entries == nil {
		return
	}
	m.s.ledger.rehomed(entries, "", open)
	path := "/accounts/" + string(entries[0].receipt.AccountID)
	a := m.sure(m.managing("erase account", http.MethodDelete, path, nil))
	// 202 means that entries remain in the database for now. They are not visible either.
	if a.status == http.StatusNoContent || a.status == http.StatusAccepted || a.status == http.StatusNotFound && a.repeated {
		m.s.ledger.rehomed(entries, "", erased)
		m.s.ledger.forget(m.of, path)
		m.sure(m.external("GET /v0/accounts/{id}, erased", http.MethodGet, "/v0"+path, nil, http.StatusNotFound))
	} else if !a.failed() {
		m.wrong("erase account: %d %.200s", a.status, a.body)
	}
}

// batch sends many entries in one request, until each of them is acknowledged.
func (m *manager) batch() {
	var all []*posting
	for range 5 + m.rng.IntN(40) {
		p := m.newPosting(true)
		if p.header || len(p.body) > 64<<10 {
			continue // its key is not in the body, or it is large: posted alone
		}
		all = append(all, p)
	}
	for len(all) > 0 {
		entries := make([]rawJSON, len(all))
		for i, p := range all {
			entries[i] = p.body
			m.s.ledger.sending(p)
		}
		a := m.sure(m.managing("post entries", http.MethodPost, "/account_logs", map[string]any{"entries": entries}, http.StatusOK))
		if a.repeated || a.failed() {
			for _, p := range all {
				m.s.ledger.undecided(p)
			}
		}
		if a.status != http.StatusOK {
			return
		}
		all = m.outcomes(all, a)
	}
}

// outcomes records the outcome of each of many entries, and returns those to retry.
func (m *manager) outcomes(all []*posting, a answer) (again []*posting) {
	var said struct{ Outcomes []json.RawMessage }
	if err := json.Unmarshal(a.body, &said); err != nil || len(said.Outcomes) != len(all) {
		m.wrong("%d entries: %.300s", len(all), a.body)
		return nil
	}
	for i, p := range all {
		var o struct {
			Status   int
			Replayed bool
			receipt
		}
		if err := json.Unmarshal(said.Outcomes[i], &o); err != nil {
			m.wrong("an outcome: %v: %s", err, said.Outcomes[i])
			continue
		}
		switch o.Status {
		case http.StatusCreated:
			if err := m.s.ledger.acknowledged(p, encode(o.receipt), o.Replayed); err != nil {
				m.wrong("%s in a batch: %v", p.marker, err)
			}
			p.body = nil
		case http.StatusServiceUnavailable:
			m.s.ledger.undecided(p)
			m.s.tally.refusal()
			again = append(again, p)
		default:
			m.wrong("%s in a batch: %s", p.marker, said.Outcomes[i])
		}
	}
	return again
}

// prospect creates a prospect and links it to an account, which then shows it.
func (m *manager) prospect() {
	if len(m.accounts) == 0 {
		return
	}
	id := m.make("create prospect", "/prospects", "prospectId", map[string]any{"name": m.text(), "email": m.unique() + "@" + m.of.mark + ".example"})
	if id == "" {
		return
	}
	account := m.accounts[m.rng.IntN(len(m.accounts))]
	link := "/accounts/" + account + "/prospects/" + id
	if a := m.sure(m.managing("link prospect", http.MethodPut, link, nil)); a.status >= 300 {
		m.wrong("link prospect: %d %.200s", a.status, a.body)
		return
	}
	shows := func() bool {
		a := m.sure(m.external("GET /v0/accounts/{id}", http.MethodGet, "/v0/accounts/"+account, nil, http.StatusOK))
		return bytes.Contains(a.body, []byte(id))
	}
	if !shows() {
		m.wrong("%s does not show the prospect %s", account, id)
	}
	name := m.text()
	m.take("update prospect", http.MethodPatch, "/prospects/"+id, map[string]any{"name": name}, map[string]any{"name": name}, "/prospects/"+id)
	if m.rng.IntN(8) == 0 {
		return // keeps accounts from collecting thousands of them
	}
	m.sure(m.managing("unlink prospect", http.MethodDelete, link, nil, http.StatusNoContent, http.StatusNotFound))
	if shows() {
		m.wrong("%s still shows the prospect %s", account, id)
	}
	if a := m.sure(m.managing("delete prospect", http.MethodDelete, "/prospects/"+id, nil, http.StatusNoContent, http.StatusAccepted, http.StatusNotFound)); !a.failed() {
		m.s.ledger.forget(m.of, "/prospects/"+id)
	}
}

// look reads what operators read.
func (m *manager) look() {
	paths := []string{"/accounts?limit=20&q=mark", "/prospects?limit=20", "/moves?limit=20", "/keys", "/audit?limit=20", "/audit/head", "/tenant", "/brands"}
	if id := m.s.ledger.accountOf(m.of, m.rng.IntN); id != "" {
		paths = append(paths, "/accounts/"+string(id)+"/activity?limit=50", "/accounts/"+string(id)+"/activity/counts")
	}
	path := paths[m.rng.IntN(len(paths))]
	m.sure(m.managing("look around", http.MethodGet, path, nil, http.StatusOK))
}

// A carrier exports a tenant that no other client writes to, and imports it into another
// one, which must then have the same data.
type carrier struct {
	*client
	to *client
}

func (s *soak) newCarrier(from, to *tenant) *carrier {
	return &carrier{s.newClient("carrier", from), s.newClient("receiver", to)}
}

func (x *carrier) step() {
	for range 5 {
		p := x.newPosting(true)
		if x.made < 1000 && len(p.body) < 8<<10 { // everything is exported and imported repeatedly
			x.post(p)
			p.body = nil
		}
	}
	export := func(c *client) []byte {
		a := c.sure(c.managing("export", http.MethodGet, "/export", nil, http.StatusOK))
		if a.status != http.StatusOK {
			return nil
		}
		return a.body
	}
	all := export(x.client)
	if all == nil {
		return
	}
	in := x.to.managing("import", http.MethodPost, "/import", all, http.StatusOK).with("Content-Type: application/x-ndjson")
	if a := x.to.sure(in); a.status != http.StatusOK {
		return
	}
	if got := export(x.to); got != nil && !bytes.Equal(got, all) {
		x.s.tally.fault(&x.s.tally.wrong, "what was imported is exported as %d bytes, not the same %d", len(got), len(all))
	}
}
