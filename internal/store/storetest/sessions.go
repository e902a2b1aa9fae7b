package storetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"atrium"
)

var sessions = []guarantee{
	{concurrent + "a login link begins one session, however many browsers use it at once", linkUsedOnce},
	{"a login link ends after ten minutes, with a newer one, and with a new role", linkEnds},
	{"a session ends after 12 hours without a request, and after seven days", sessionExpires},
	{"a session ends when it is ended, with a new role, and with its user", sessionEnds},
	{"a user has a limited number of sessions: a new one ends the least recently used one", sessionsBounded},
}

func (e *env) newLink(t tb, u atrium.User) atrium.LoginLink {
	t.Helper()
	link, err := e.CreateLoginLink(t.Context(), e.change(), atrium.LoginLink{ID: atrium.NewID[atrium.LoginLinkID](), UserID: u.ID}, secretHash(1), accept)
	if want := (atrium.LoginLink{ID: link.ID, UserID: u.ID, TenantID: u.TenantID, ExpiresAt: *e.in(10 * time.Minute)}); err != nil || link != want {
		t.Fatalf("made %+v, %v, want %+v", link, err, want)
	}
	return link
}

func (e *env) useLink(t tb, link atrium.LoginLink) (atrium.Session, error) {
	return e.UseLoginLink(t.Context(), link, atrium.Session{ID: atrium.NewID[atrium.SessionID](), Browser: "Browser/1"}, secretHash(2), "req_signin")
}

func (e *env) signIn(t tb, u atrium.User) atrium.Session {
	t.Helper()
	s, err := e.useLink(t, e.newLink(t, u))
	if err != nil {
		t.Fatalf("sign in: %v", err)
	}
	return s
}

// signedIn reports whether a session works.
func (e *env) signedIn(t tb, s atrium.Session, u atrium.User) bool {
	t.Helper()
	got, of, hash, err := e.Session(t.Context(), s.ID)
	if err != nil {
		wantCode(t, err, atrium.CodeNotFound)
		if hash != nil || got != (atrium.Session{}) || of != (atrium.User{}) {
			t.Errorf("a session that does not work is returned: %+v of %+v with %x", got, of, hash)
		}
		return false
	}
	s.UsedAt = got.UsedAt
	if u.TenantID != "" {
		tenant, err := e.Tenant(t.Context(), u.TenantID)
		if err != nil {
			t.Fatalf("the tenant of a session: %v", err)
		}
		s.TenantName = tenant.Name
	}
	if got != s || of != u || !bytes.Equal(hash, secretHash(2)) {
		t.Errorf("the session is %+v of %+v with %x, want %+v of %+v", got, of, hash, s, u)
	}
	return true
}

func linkUsedOnce(t *testing.T, e *env) {
	for _, e := range []*env{e, e.as(atrium.OperatorChain)} {
		u := e.createUser(t, atrium.RoleAdmin)
		link := e.newLink(t, u)
		if found, hash, err := e.LoginLink(t.Context(), link.ID); err != nil || found != link || !bytes.Equal(hash, secretHash(1)) {
			t.Errorf("found %+v with %x, %v, want %+v", found, hash, err, link)
		}
		made, errs := make([]atrium.Session, 8), make([]error, 8)
		parallel(t, 8, func(i int) { made[i], errs[i] = e.useLink(t, link) })
		began := 0
		for i, err := range errs {
			if err != nil {
				wantCode(t, err, atrium.CodeNotFound)
				continue
			}
			began++
			if !e.signedIn(t, made[i], u) {
				t.Error("the session does not work")
			}
			e.wantAuditActions(t, string(made[i].ID), "session.create")
		}
		if began != 1 {
			t.Errorf("%d sessions began, want 1", began)
		}
		_, _, err := e.LoginLink(t.Context(), link.ID)
		wantCode(t, err, atrium.CodeNotFound)
		e.wantAuditActions(t, string(u.ID), "user.create", "user.login_link")
	}
}

func linkEnds(t *testing.T, e *env) {
	u := e.createUser(t, atrium.RoleViewer)
	wantEnded := func(what string, link atrium.LoginLink) {
		t.Helper()
		_, _, err := e.LoginLink(t.Context(), link.ID)
		_, useErr := e.useLink(t, link)
		if atrium.CodeOf(err) != atrium.CodeNotFound || atrium.CodeOf(useErr) != atrium.CodeNotFound {
			t.Errorf("%s: %v, %v", what, err, useErr)
		}
	}
	first := e.newLink(t, u)
	second := e.newLink(t, u)
	wantEnded("with a newer one", first)
	e.clock.step(10 * time.Minute)
	wantEnded("after ten minutes", second)
	third := e.newLink(t, u)
	if _, err := e.UpdateUser(t.Context(), e.change(), u.ID, pointer("Robin"), nil, accept); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.LoginLink(t.Context(), third.ID); err != nil {
		t.Errorf("with a new name: %v", err)
	}
	if _, err := e.UpdateUser(t.Context(), e.change(), u.ID, nil, pointer(atrium.RoleAdmin), accept); err != nil {
		t.Fatal(err)
	}
	wantEnded("with a new role", third)
	fourth := e.newLink(t, u)
	e.beginDeletion(t)
	if _, _, err := e.LoginLink(t.Context(), fourth.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("while the tenant is deleted: %v", err)
	}
}

func sessionExpires(t *testing.T, e *env) {
	u := e.createUser(t, atrium.RoleViewer)
	idle := e.signIn(t, u)
	e.clock.step(12*time.Hour - time.Second)
	if !e.signedIn(t, idle, u) {
		t.Error("it ended before 12 hours")
	}
	e.clock.step(time.Second)
	if e.signedIn(t, idle, u) {
		t.Error("it works after 12 hours without a request")
	}
	used := e.signIn(t, u)
	for range 13 {
		e.clock.step(12*time.Hour - time.Second)
		if err := e.UseSession(t.Context(), &used); err != nil {
			t.Fatal(err)
		}
		if !e.signedIn(t, used, u) {
			t.Fatal("it ended while it was used")
		}
	}
	if all, err := e.Sessions(t.Context(), e.tenant, u.ID); err != nil || len(all) != 1 || all[0].ID != used.ID || all[0].UsedAt != e.clock.instant() {
		t.Errorf("the sessions are %+v, %v", all, err)
	}
	e.clock.step(12*time.Hour + 13*time.Second)
	if e.signedIn(t, used, u) {
		t.Error("it works after seven days")
	}
	if err := e.UseSession(t.Context(), &used); err != nil || e.signedIn(t, used, u) {
		t.Errorf("a use after its end: %v", err)
	}
	if all, err := e.Sessions(t.Context(), e.tenant, u.ID); err != nil || len(all) != 0 {
		t.Errorf("the sessions are %+v, %v", all, err)
	}
	kept := e.as(e.newTenant(t))
	other := kept.signIn(t, kept.createUser(t, atrium.RoleViewer))
	e.newLink(t, u)
	expire := func() {
		t.Helper()
		for next := atrium.TenantID(""); ; {
			var err error
			if next, err = e.DeleteExpiredSessions(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if next == "" {
				return
			}
		}
	}
	if expire(); e.rowsOf(t, "sessions") != 0 || e.rowsOf(t, "login_links") != 1 {
		t.Errorf("after the deletion of expired sessions: %d sessions, %d links", e.rowsOf(t, "sessions"), e.rowsOf(t, "login_links"))
	}
	e.clock.step(10 * time.Minute)
	if expire(); e.rowsOf(t, "login_links") != 0 {
		t.Error("an expired link is kept")
	}
	if kept.rowsOf(t, "sessions") != 1 || other.ID == "" {
		t.Error("a session that works is deleted")
	}
	last := e.signIn(t, u)
	if n := e.rowsOf(t, "sessions"); n != 1 || !e.signedIn(t, last, u) {
		t.Errorf("%d sessions are stored, want 1: the others have expired", n)
	}
}

func sessionEnds(t *testing.T, e *env) {
	u, other := e.createUser(t, atrium.RoleViewer), e.createUser(t, atrium.RoleViewer)
	kept := e.signIn(t, other)
	first, second := e.signIn(t, u), e.signIn(t, u)
	wantCode(t, e.EndSession(t.Context(), e.change(), other.ID, first.ID, accept), atrium.CodeNotFound)
	them := e.as(e.newTenant(t))
	wantCode(t, them.EndSession(t.Context(), them.change(), u.ID, first.ID, accept), atrium.CodeNotFound)
	if err := e.EndSession(t.Context(), e.change(), u.ID, first.ID, accept); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.EndSession(t.Context(), e.change(), u.ID, first.ID, accept), atrium.CodeNotFound)
	if e.signedIn(t, first, u) || !e.signedIn(t, second, u) {
		t.Error("another session ended")
	}
	e.wantAuditActions(t, string(first.ID), "session.create", "session.end")
	for what, end := range map[string]func() error{
		"a sign-out": func() error { _, err := e.EndSessions(t.Context(), e.change(), u.ID, accept); return err },
		"a new role": func() error {
			changed, err := e.UpdateUser(t.Context(), e.change(), u.ID, nil, pointer(atrium.RoleAdmin), accept)
			u = changed
			return err
		},
	} {
		s := e.signIn(t, u)
		if err := end(); err != nil || e.signedIn(t, s, u) {
			t.Errorf("after %s: %v", what, err)
		}
	}
	last := e.signIn(t, u)
	if err := e.RemoveUser(t.Context(), e.change(), u.ID, accept); err != nil || e.signedIn(t, last, u) {
		t.Errorf("after the removal: %v", err)
	}
	if n := e.rowsOf(t, "sessions"); n != 1 || !e.signedIn(t, kept, other) {
		t.Errorf("%d sessions are stored, want that of the other user", n)
	}
	e.beginDeletion(t)
	if e.signedIn(t, kept, other) {
		t.Error("a session works while its tenant is deleted")
	}
}

func sessionsBounded(t *testing.T, e *env) {
	u := e.createUser(t, atrium.RoleViewer)
	var all []atrium.Session
	for range atrium.MaxSessions {
		all = append(all, e.signIn(t, u))
		e.clock.step(time.Minute)
	}
	if err := e.UseSession(t.Context(), &all[0]); err != nil {
		t.Fatal(err)
	}
	e.signIn(t, u)
	found, err := e.Sessions(t.Context(), e.tenant, u.ID)
	if err != nil || len(found) != atrium.MaxSessions {
		t.Errorf("%d sessions, %v, want %d", len(found), err, atrium.MaxSessions)
	}
	has := func(s atrium.Session) bool {
		return slices.ContainsFunc(found, func(f atrium.Session) bool { return f.ID == s.ID })
	}
	if !has(all[0]) || has(all[1]) {
		t.Error("another session than the least recently used one ended")
	}
}
