package storetest

import (
	"fmt"
	"time"

	"atrium"
	"atrium/internal/store"
)

// A filled tenant has rows in every table of the register.
type filled struct {
	accounts  []atrium.AccountID // the first one was merged into the second one
	alone     atrium.AccountID   // not merged
	long      atrium.AccountID   // has a long domain
	prospect  atrium.ProspectID
	page      atrium.ScheduledPage
	audience  atrium.Audience
	key       atrium.KeyID
	undoable  atrium.MoveID
	submitted *atrium.Draft // was appended
	receipt   atrium.Receipt
	erasure   atrium.ErasureID // not begun; it selects an entry, a prospect, the rule of a move, and a stored result
}

// fill stores rows in every table.
func (e *env) fill(t tb) (f filled) {
	t.Helper()
	e.enableEvents(t)
	var moved atrium.EntryID // of the last account
	for i := range 4 {
		domain := fmt.Sprintf("filled%d.example", i)
		r := e.record(t, atrium.Claim{Domain: domain, Name: fmt.Sprint("Filled ", i)}, key(domain))
		f.accounts, moved = append(f.accounts, r.AccountID), r.EntryID
		if i > 0 {
			e.rename(t, f.accounts[i], fmt.Sprint("Renamed ", i))
		}
	}
	e.clock.step(2 * time.Minute) // so that the next entry changes the minute of its account
	f.submitted = e.draft(t, byDomain("filled0.example"), key("retried"), payload(`{"n":1.50}`))
	f.submitted.SubmittedBy, f.submitted.RequestID = atrium.ActorCommandLine, "filled"
	f.receipt = receipts(t, e.append(t, f.submitted))[0]
	f.long = e.longDomains(t, 2, 3000)[0]

	p, _, err := e.CreateProspect(t.Context(), e.keyed("prospect", "same"), atrium.Prospect{Name: pointer("Dana"), Email: pointer("dana@filled.example")})
	if err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
	f.prospect = p.ID
	for _, id := range f.accounts[:3] {
		if _, err := e.LinkProspect(t.Context(), e.change(), id, p.ID, accept); err != nil {
			t.Fatalf("link: %v", err)
		}
	}
	other, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Name: pointer("Robin")})
	if err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
	if _, err := e.LinkProspect(t.Context(), e.change(), f.accounts[2], other.ID, accept); err != nil {
		t.Fatalf("link: %v", err)
	}
	e.merge(t, f.accounts[0], f.accounts[1])
	f.alone = f.accounts[2]
	e.move(t, moved, f.accounts[1])

	unnamed := e.record(t, byName("nobody"))
	e.undo(t, e.move(t, unnamed.EntryID, f.accounts[3]).ID)
	rule := atrium.MoveRequest{From: unnamed.AccountID, To: f.alone, Rule: atrium.MoveRule{ClaimedName: "nobody", Given: []byte(`{"claimedName":"nobody"}`)}, Limit: 10}
	c := e.keyed("move", "same")
	report, _, err := e.Move(t.Context(), c, rule)
	if err != nil || report.Moved != 1 {
		t.Fatalf("move: %+v, %v", report, err)
	}
	f.undoable = report.Move.ID

	e.sequence(t) // the events after these stay in the outbox
	f.page = e.createPage(t)
	e.schedule(t, f.page.ID, e.in(time.Hour), e.in(2*time.Hour))
	f.audience = e.createAudience(t, f.page.ID, "Visitors")
	for i := range 3 {
		if _, _, err := e.CreateVersion(t.Context(), e.change(), f.page.ID, f.audience.ID, fmt.Appendf(nil, `{"n":%d.0}`, i), "note"); err != nil {
			t.Fatalf("create a version: %v", err)
		}
	}
	e.createPreview(t, f.audience, 1, time.Hour)
	f.key = e.newKey(t, atrium.NewID[atrium.KeyID]()).ID
	u := e.createUser(t, atrium.RoleEditor)
	e.mapGroup(t, newIssuer(), "staff", atrium.RoleViewer)
	e.signIn(t, u)
	e.newLink(t, u)
	gone := e.record(t, byDomain("gone.example"), key("gone")).AccountID
	e.erase(t, gone)
	e.eraseAll(t)
	e.put(t, &atrium.Tombstone{EntryID: atrium.NewID[atrium.EntryID](), AccountID: gone, CreatedAt: e.clock.instant(), Source: "crm", Type: "webhook", ExpiresAt: e.in(3 * time.Hour)})
	e.fillOptional(t, f.alone)
	e.fillPerson(t)
	f.erasure = e.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID
	e.setRules(t, atrium.RetentionRule{Source: "crm", Days: 30})
	e.putSummary(t, "crm", "", "{/name}")
	e.record(t, byDomain("filled1.example"))
	e.countAll(t)
	e.sql(t, "INSERT INTO erasures (tenant_id, account_id, requested_at) VALUES ($1, $2, $3)", storedID(e.tenant), storedID(atrium.NewID[atrium.AccountID]()), int64(0))
	e.sql(t, "INSERT INTO tenant_deletions (tenant_id, actor, deleted_rows, deleted_entries) VALUES ($1, $2, $3, $4)", storedID(e.tenant), "key_test", int64(0), int64(0))
	e.fillWebhooks(t)
	e.deriveID(t, store.ByEmail, atrium.Prospect{Email: pointer("filled@filled.example")})
	receiver := e.newReceiver(t, nil)
	e.quarantine(t, receiver, `{"to":"`+person+`"}`)
	e.quarantine(t, receiver, `{"to":"somebody else"}`)
	e.storeRefused(t, e.newRefused())
	e.storeReads(t, e.newRead(func(r *atrium.Read) { r.At -= atrium.Time((atrium.ReadLife - 2*days).Microseconds()) }))
	for table, rows := range e.dump(t) {
		if len(rows) == 0 {
			t.Errorf("no rows in %s", table)
		}
	}
	return f
}

// fillOptional stores records with values in the columns that are null in others.
func (e *env) fillOptional(t tb, account atrium.AccountID) {
	t.Helper()
	p := e.newProspect(&atrium.Account{ID: account})
	p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL = pointer("full.example"), pointer("full"), pointer("+1"), pointer("https://full.example")
	page := e.newPage(atrium.PageArchived)
	page.HeaderActionID, page.Metadata, page.DeletedAt = pointer("action"), []byte(`{"n":1.0}`), pointer(page.UpdatedAt)
	u := e.newAudience(page, false)
	entry := e.newEntry(&atrium.Account{ID: account}, "")
	entry.Source = "optional"
	entry.Claim, entry.OccurredAt = byID(account), pointer(entry.CreatedAt-1000)
	e.put(t, p, page, u, published(e.newVersion(u, 1)), entry)
}

// fillWebhooks stores a webhook with deliveries and a replay.
func (e *env) fillWebhooks(t tb) {
	t.Helper()
	w := e.newWebhook(t, nil)
	e.replay(t, w, 1, false)
	lease := e.claim(t, w.ID)
	event := &e.feed(t, 0, 1)[0]
	if err := e.ScheduleReplay(t.Context(), lease, e.replay(t, w, 1, false).ID, 1, nil); err != nil {
		t.Fatalf("schedule a replay: %v", err)
	}
	e.results(t, lease, 1, 0, e.attempted(event, atrium.DeliverySucceeded))
}

// fillPerson stores what a rule about a person selects.
func (e *env) fillPerson(t tb) {
	t.Helper()
	entry := e.record(t, byName("person"), payload(`{"to":"`+person+`"}`))
	rule := atrium.MoveRequest{From: entry.AccountID, To: e.record(t, byDomain("person.example")).AccountID, Limit: 10, Rule: atrium.MoveRule{
		ClaimedName: "person", Pointer: "/to", Equals: []byte(`"` + person + `"`), Given: []byte(`{"claimedName":"person","payload":{"pointer":"/to","equals":"` + person + `"}}`),
	}}
	if report, _, err := e.Move(t.Context(), e.keyed("move of a person", "same"), rule); err != nil || report.Moved != 1 {
		t.Fatalf("move: %+v, %v", report, err)
	}
	if _, _, err := e.CreateProspect(t.Context(), e.keyed("prospect of a person", "same"), atrium.Prospect{Email: pointer(person)}); err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
}
