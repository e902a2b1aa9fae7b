package auth_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// A sessionStore is an in-memory store with one user, one login link and the session that it begins.
type sessionStore struct {
	user    atrium.User
	link    atrium.LoginLink
	hash    []byte // of the link; nil once it is used
	session atrium.Session
	secret  []byte // hash of the secret of the session; nil for none
	lookups int
	uses    int
	err     error // if set, the store is unavailable
}

func (s *sessionStore) LoginLink(_ context.Context, id atrium.LoginLinkID) (atrium.LoginLink, []byte, error) {
	s.lookups++
	if s.err != nil {
		return atrium.LoginLink{}, nil, atrium.Unavailable(s.err)
	}
	if id != s.link.ID || s.hash == nil {
		return atrium.LoginLink{}, nil, atrium.NotFound()
	}
	return s.link, s.hash, nil
}

func (s *sessionStore) UseLoginLink(_ context.Context, link atrium.LoginLink, session atrium.Session, hash []byte, _ string) (atrium.Session, error) {
	if s.hash == nil {
		return session, atrium.NotFound()
	}
	session.UserID, session.TenantID, session.UsedAt = link.UserID, link.TenantID, atrium.At(time.Now())
	s.hash, s.session, s.secret = nil, session, hash
	return session, nil
}

func (s *sessionStore) Session(_ context.Context, id atrium.SessionID) (atrium.Session, atrium.User, []byte, error) {
	if s.err != nil {
		return atrium.Session{}, atrium.User{}, nil, atrium.Unavailable(s.err)
	}
	if id != s.session.ID || s.secret == nil {
		return atrium.Session{}, atrium.User{}, nil, atrium.NotFound()
	}
	return s.session, s.user, s.secret, nil
}

func (s *sessionStore) UseSession(context.Context, *atrium.Session) error {
	s.uses++
	s.session.UsedAt = atrium.At(time.Now())
	return nil
}

func (s *sessionStore) EndSession(_ context.Context, c atrium.Change, user atrium.UserID, id atrium.SessionID, check func(atrium.Session) error) error {
	if id != s.session.ID || user != s.user.ID || c.Actor != string(user) {
		return atrium.NotFound()
	}
	s.secret = nil
	return check(s.session)
}

// inSessions runs a test on a fake clock with a user of a role and the token of a login link.
func inSessions(t *testing.T, role atrium.Role, f func(t *testing.T, s *sessionStore, a *auth.Sessions, link string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		id, token, hash := auth.NewLoginToken()
		u := atrium.User{ID: atrium.NewID[atrium.UserID](), TenantID: atrium.NewID[atrium.TenantID](), Role: role}
		if role == atrium.RoleOperator {
			u.TenantID = ""
		}
		s := &sessionStore{user: u, hash: hash, link: atrium.LoginLink{ID: id, UserID: u.ID, TenantID: u.TenantID}}
		f(t, s, auth.NewSessions(s, time.Now, limit.NewRates[netip.Addr](allowed, time.Hour, 100)), token)
	})
}

func signIn(t *testing.T, a *auth.Sessions, link string) string {
	t.Helper()
	token, _, err := a.SignIn(t.Context(), client, link, "Mozilla/5.0", "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestALoginLinkSignsInOnce(t *testing.T) {
	inSessions(t, atrium.RoleEditor, func(t *testing.T, s *sessionStore, a *auth.Sessions, link string) {
		token := signIn(t, a, link)
		who, err := a.Authenticate(t.Context(), client, token)
		if err != nil || who.UserID != s.user.ID || who.TenantID != s.user.TenantID || who.Operator || who.KeyID != "" || who.Actor() != string(s.user.ID) {
			t.Errorf("%+v, %v", who, err)
		}
		if !who.Scopes.Has(atrium.ScopeManagePages) || who.Scopes.Has(atrium.ScopeManageKeys) {
			t.Errorf("an editor has %v", who.Scopes)
		}
		if s.session.Browser != "Mozilla/5.0" {
			t.Errorf("the browser is %q", s.session.Browser)
		}
		_, _, err = a.SignIn(t.Context(), client, link, "", "")
		if atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestEveryLinkThatDoesNotWorkGetsTheSameError(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, _ *sessionStore, a *auth.Sessions, link string) {
		_, _, first := a.SignIn(t.Context(), client, "", "", "")
		_, unknown, _ := auth.NewLoginToken()
		for _, wrong := range []string{unknown, link[1:], link + "0", swap(link, len(link)-8), strings.Replace(link, "atl_", "atr_", 1)} {
			if _, _, err := a.SignIn(t.Context(), client, wrong, "", ""); err == nil || err.Error() != first.Error() {
				t.Errorf("%q: %v, want %v", wrong, err, first)
			}
		}
		signIn(t, a, link) // wrong links did not use it
	})
}

func TestAClientCannotGuessLinks(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, s *sessionStore, a *auth.Sessions, link string) {
		for range 2 * allowed {
			_, unknown, _ := auth.NewLoginToken()
			_, _, _ = a.SignIn(t.Context(), client, unknown, "", "")
		}
		if s.lookups > allowed {
			t.Errorf("%d lookups for one client", s.lookups)
		}
		if _, _, err := a.SignIn(t.Context(), client, link, "", ""); atrium.CodeOf(err) != atrium.CodeRateLimited {
			t.Errorf("above the rate: %v", err)
		}
		if _, _, err := a.SignIn(t.Context(), netip.MustParseAddr("198.51.100.1"), link, "", ""); err != nil {
			t.Errorf("another client: %v", err)
		}
	})
}

func TestASignInThatTheStoreCannotAnswerDoesNotCount(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, s *sessionStore, a *auth.Sessions, link string) {
		s.err = errors.New("no database")
		for range 2 * allowed {
			if _, _, err := a.SignIn(t.Context(), client, link, "", ""); atrium.CodeOf(err) != atrium.CodeUnavailable {
				t.Fatal(err)
			}
		}
		s.err = nil
		signIn(t, a, link)
	})
}

func TestASessionWorksUntilItEnds(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, _ *sessionStore, a *auth.Sessions, link string) {
		token := signIn(t, a, link)
		_, ended := a.Authenticate(t.Context(), client, "")
		if atrium.CodeOf(ended) != atrium.CodeUnauthenticated {
			t.Fatal(ended)
		}
		for _, wrong := range []string{link, token + "0", swap(token, len(token)-8), strings.Replace(token, "ats_", "atr_", 1)} {
			if _, err := a.Authenticate(t.Context(), client, wrong); err == nil || err.Error() != ended.Error() {
				t.Errorf("%q: %v, want %v", wrong, err, ended)
			}
		}
		if err := a.SignOut(t.Context(), token, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Authenticate(t.Context(), client, token); err == nil || err.Error() != ended.Error() {
			t.Errorf("after the sign-out: %v", err)
		}
		if err := a.SignOut(t.Context(), token, ""); err != nil {
			t.Errorf("signed out twice: %v", err)
		}
	})
}

// A store that returns an expired session together with the error must not make it work.
func TestAnErrorOfTheStoreIsNoSession(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, s *sessionStore, _ *auth.Sessions, link string) {
		a := auth.NewSessions(expired{s}, time.Now, nil)
		if _, _, err := a.SignIn(t.Context(), client, link, "", ""); atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("an expired link: %v", err)
		}
		token := signIn(t, auth.NewSessions(s, time.Now, nil), link)
		if _, err := a.Authenticate(t.Context(), client, token); atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("an expired session: %v", err)
		}
	})
}

// expired is a store whose links and sessions have expired.
type expired struct{ *sessionStore }

func (s expired) LoginLink(ctx context.Context, id atrium.LoginLinkID) (atrium.LoginLink, []byte, error) {
	link, hash, _ := s.sessionStore.LoginLink(ctx, id)
	return link, hash, atrium.NotFound()
}

func (s expired) Session(ctx context.Context, id atrium.SessionID) (atrium.Session, atrium.User, []byte, error) {
	session, u, hash, _ := s.sessionStore.Session(ctx, id)
	return session, u, hash, atrium.NotFound()
}

func TestTheUseOfASessionIsStoredEveryMinute(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, s *sessionStore, a *auth.Sessions, link string) {
		token := signIn(t, a, link)
		for range 300 {
			time.Sleep(time.Second)
			if _, _, err := a.User(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		if s.uses != 5 {
			t.Errorf("%d uses were stored in five minutes", s.uses)
		}
	})
}

func TestASessionReadsWhileTheDatabaseCannotBeWritten(t *testing.T) {
	inSessions(t, atrium.RoleViewer, func(t *testing.T, s *sessionStore, _ *auth.Sessions, link string) {
		a := auth.NewSessions(readOnly{s}, time.Now, nil)
		token := signIn(t, a, link)
		time.Sleep(time.Hour)
		if _, u, err := a.User(t.Context(), token); err != nil || u.ID != s.user.ID {
			t.Errorf("an hour later, the user is %q, %v", u.ID, err)
		}
	})
}

// readOnly is a store that cannot be written, as on a full disk.
type readOnly struct{ *sessionStore }

func (readOnly) UseSession(context.Context, *atrium.Session) error {
	return atrium.Unavailable(errors.New("the disk is full"))
}

func TestAnOperatorHasNoTenant(t *testing.T) {
	inSessions(t, atrium.RoleOperator, func(t *testing.T, _ *sessionStore, a *auth.Sessions, link string) {
		token := signIn(t, a, link)
		if who, err := a.Authenticate(t.Context(), client, token); err != nil || !who.Operator || who.TenantID != "" {
			t.Errorf("%+v, %v", who, err)
		}
		if err := a.SignOut(t.Context(), token, ""); err != nil {
			t.Error(err)
		}
		if _, _, err := a.User(t.Context(), token); atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("after the sign-out: %v", err)
		}
	})
}
