package auth

import (
	"context"
	"net/netip"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// A SessionStore is the store of login links and sessions. Its methods return an error whose code is
// atrium.CodeNotFound for a link or a session that does not exist or has expired.
type SessionStore interface {
	// LoginLink returns a login link and the hash of its secret.
	LoginLink(ctx context.Context, id atrium.LoginLinkID) (link atrium.LoginLink, secretHash []byte, err error)

	// UseLoginLink deletes a login link and begins a session of its user, whose times it sets.
	UseLoginLink(ctx context.Context, link atrium.LoginLink, session atrium.Session, secretHash []byte, requestID string) (atrium.Session, error)

	// Session returns a session, its user, and the hash of its secret.
	Session(ctx context.Context, id atrium.SessionID) (session atrium.Session, u atrium.User, secretHash []byte, err error)

	// UseSession stores that a session is used now.
	UseSession(ctx context.Context, session *atrium.Session) error

	// EndSession ends a session, unless check returns an error.
	EndSession(ctx context.Context, c atrium.Change, user atrium.UserID, id atrium.SessionID, check func(atrium.Session) error) error
}

// Sessions authenticate the users of the console. Every call reads the session, without a cache: one that
// was ended on any node works on none. Sessions are safe for concurrent use.
type Sessions struct {
	store    SessionStore
	now      func() time.Time
	failures *Failures
}

// NewSessions returns Sessions. now is the clock for the last use of a session. failures counts invalid
// login links, and may be nil for no limit.
func NewSessions(store SessionStore, now func() time.Time, failures *Failures) *Sessions {
	return &Sessions{store, now, failures}
}

// Now returns the time of the clock of the sessions.
func (s *Sessions) Now() time.Time { return s.now() }

// invalidLink is the same error for every reason why a login link does not work.
func invalidLink() error {
	return atrium.Errorf(atrium.CodeUnauthenticated, "The link has expired, was used before, or is not complete. Ask for a new one.")
}

// SignIn uses a login link, which a client has sent, and returns the token of the session that it begins. The
// error's code is atrium.CodeUnauthenticated for a link that does not work, and atrium.CodeRateLimited if the
// client has sent too many of these or of invalid keys.
func (s *Sessions) SignIn(ctx context.Context, from netip.Addr, link, userAgent, requestID string) (token string, session atrium.Session, err error) {
	from = limit.Network(from)
	b := s.failures.Take(from)
	if !b.OK {
		return "", session, tooMany(b, "This address has sent too many links or keys that are not valid.")
	}
	suffix, secret, ok := parseText(loginPrefix, link)
	if !ok {
		return "", session, invalidLink()
	}
	id := atrium.LoginLinkID("")
	found, hash, err := s.store.LoginLink(ctx, atrium.LoginLinkID(id.Prefix()+suffix))
	if err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
		s.failures.Return(from)
		return "", session, err
	}
	if matches := same(hashSecret(secret), hash); !matches || err != nil { // compared also if there is none
		return "", session, invalidLink()
	}
	session.ID = atrium.NewID[atrium.SessionID]()
	session.Browser = atrium.BrowserOf(userAgent)
	token, hash = newText(sessionPrefix, string(session.ID[len(session.ID.Prefix()):]))
	session, err = s.store.UseLoginLink(ctx, found, session, hash, requestID)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		err = invalidLink() // another request was first
	}
	if err != nil {
		return "", session, err
	}
	s.failures.Return(from)
	return token, session, nil
}

// sessionUseTime is how old the stored last use of a session may be.
const sessionUseTime = time.Minute

// User returns the session of a token and its user. The error's code is atrium.CodeUnauthenticated for a token
// that is malformed or unknown, and for a session that has ended.
func (s *Sessions) User(ctx context.Context, token string) (atrium.Session, atrium.User, error) {
	ended := atrium.Errorf(atrium.CodeUnauthenticated, "The session has ended. Sign in again.")
	suffix, secret, ok := parseText(sessionPrefix, token)
	if !ok {
		return atrium.Session{}, atrium.User{}, ended
	}
	id := atrium.SessionID("")
	session, u, hash, err := s.store.Session(ctx, atrium.SessionID(id.Prefix()+suffix))
	if err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
		return atrium.Session{}, atrium.User{}, err
	}
	if matches := same(hashSecret(secret), hash); !matches || err != nil { // compared also if there is none
		return atrium.Session{}, atrium.User{}, ended
	}
	if s.now().Sub(session.UsedAt.Std()) >= sessionUseTime {
		// A database that cannot be written, as on a full disk, does not end reading.
		if err := s.store.UseSession(ctx, &session); err != nil && atrium.CodeOf(err) != atrium.CodeUnavailable {
			return atrium.Session{}, atrium.User{}, err
		}
	}
	return session, u, nil
}

// Authenticate returns the principal of the token of a session. Its errors are those of User.
func (s *Sessions) Authenticate(ctx context.Context, _ netip.Addr, token string) (Principal, error) {
	_, u, err := s.User(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	return Principal{TenantID: u.TenantID, UserID: u.ID, Scopes: u.Role.Scopes(), Operator: u.TenantID == ""}, nil
}

// SignOut ends the session of a token. A session that has ended already is no error.
func (s *Sessions) SignOut(ctx context.Context, token, requestID string) error {
	session, u, err := s.User(ctx, token)
	if err != nil {
		if atrium.CodeOf(err) == atrium.CodeUnauthenticated {
			return nil
		}
		return err
	}
	tenant := u.TenantID
	if tenant == "" {
		tenant = atrium.OperatorChain
	}
	c := atrium.Change{TenantID: tenant, Actor: string(u.ID), RequestID: requestID}
	err = s.store.EndSession(ctx, c, u.ID, session.ID, func(atrium.Session) error { return nil })
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return nil
	}
	return err
}
