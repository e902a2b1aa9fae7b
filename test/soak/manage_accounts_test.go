package soak

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"atrium"
)

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
func (m *manager) outcomes(all []*posting, a response) (again []*posting) {
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
	m.change("update prospect", http.MethodPatch, "/prospects/"+id, map[string]any{"name": name}, map[string]any{"name": name}, "/prospects/"+id)
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
