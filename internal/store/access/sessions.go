package access

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// CreateLoginLink stores a login link with the hash of its secret. An earlier link of the user stops
// working. CreateLoginLink first calls check with the user; an error of check ends the call. It returns
// NotFound if there is no such user.
func (s *Store) CreateLoginLink(ctx context.Context, c atrium.Change, link atrium.LoginLink, hash []byte, check func(atrium.User) error) (atrium.LoginLink, error) {
	made, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.LoginLink, error) {
		u, err := lockUser(tx, link.UserID)
		if err != nil {
			return link, err
		}
		if err := check(u); err != nil {
			return link, err
		}
		made := link
		made.TenantID, made.ExpiresAt = u.TenantID, atrium.At(tx.At.Std().Add(atrium.LoginLinkLife))
		tx.Record("user.login_link", string(u.ID), nil, kernel.Fields{"loginLinkId": made.ID, "expiresAt": made.ExpiresAt})
		_, err = tx.Exec(`INSERT INTO login_links (tenant_id, user_id, link_id, secret_hash, expires_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant_id, user_id) DO UPDATE SET link_id = excluded.link_id, secret_hash = excluded.secret_hash, expires_at = excluded.expires_at`,
			kernel.IDArg(c.TenantID), kernel.IDArg(u.ID), kernel.IDArg(made.ID), hash, int64(made.ExpiresAt))
		return made, err
	})
	return made, err
}

// LoginLink returns a login link that has not expired, with the hash of its secret, or NotFound.
func (s *Store) LoginLink(ctx context.Context, id atrium.LoginLinkID) (link atrium.LoginLink, hash []byte, err error) {
	err = s.db.Find(ctx, "SELECT link_id, user_id, tenant_id, expires_at, secret_hash FROM login_links WHERE link_id = $1 AND expires_at > $2"+notDeleting("login_links"),
		engine.Args{kernel.IDArg(id), int64(atrium.At(s.db.Now()))}, func(r engine.Row) {
			link = atrium.LoginLink{ID: kernel.IDAt[atrium.LoginLinkID](r, 0), UserID: kernel.IDAt[atrium.UserID](r, 1), TenantID: tenantAt(r, 2), ExpiresAt: atrium.Time(r.Int(3))}
			hash = r.Bytes(4)
		})
	return link, hash, err
}

// chainOf returns the audit log of changes by a user of a tenant, "" for an operator.
func chainOf(tenant atrium.TenantID) atrium.TenantID {
	if tenant == "" {
		return atrium.OperatorChain
	}
	return tenant
}

// UseLoginLink deletes a login link and begins a session of its user, whose times it sets. It returns
// NotFound if the link was used or has expired: a link begins one session.
func (s *Store) UseLoginLink(ctx context.Context, link atrium.LoginLink, session atrium.Session, hash []byte, requestID string) (atrium.Session, error) {
	c := atrium.Change{TenantID: chainOf(link.TenantID), Actor: string(link.UserID), RequestID: requestID}
	made, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Session, error) {
		u, err := lockUser(tx, link.UserID)
		if err != nil {
			return session, err
		}
		var current atrium.LoginLink // of the user, who is locked
		args := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(u.ID)}
		if err := engine.Find(tx.Query, "SELECT link_id, expires_at FROM login_links WHERE tenant_id = $1 AND user_id = $2", args, func(r engine.Row) {
			current.ID, current.ExpiresAt = kernel.IDAt[atrium.LoginLinkID](r, 0), atrium.Time(r.Int(1))
		}); err != nil {
			return session, err
		}
		if current.ID != link.ID || current.ExpiresAt <= tx.At {
			return session, atrium.NotFound()
		}
		if _, err := tx.Exec("DELETE FROM login_links WHERE tenant_id = $1 AND user_id = $2", args...); err != nil {
			return session, err
		}
		return beginSession(tx, &u, session, hash)
	})
	return made, err
}

// beginSession stores a session of a user, who is locked, and ends expired ones and those above
// atrium.MaxSessions.
func beginSession(tx *kernel.Mutation, u *atrium.User, session atrium.Session, hash []byte) (atrium.Session, error) {
	session.UserID, session.TenantID = u.ID, u.TenantID
	session.CreatedAt, session.UsedAt, session.ExpiresAt = tx.At, tx.At, atrium.At(tx.At.Std().Add(atrium.SessionLife))
	tenant, user := kernel.IDArg(tx.Change.TenantID), kernel.IDArg(u.ID)
	if _, err := tx.Exec("DELETE FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND (expires_at <= $3 OR used_at <= $4)",
		tenant, user, int64(tx.At), int64(atrium.At(tx.At.Std().Add(-atrium.SessionIdleLife)))); err != nil {
		return session, err
	}
	type use struct {
		at      int64
		session []byte
	}
	var uses []use
	if err := tx.Query("SELECT used_at, session_id FROM sessions WHERE tenant_id = $1 AND user_id = $2", engine.Args{tenant, user}, func(r engine.Row) error {
		uses = append(uses, use{r.Int(0), r.Bytes(1)})
		return nil
	}); err != nil {
		return session, err
	}
	slices.SortFunc(uses, func(a, b use) int { return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.session, b.session)) })
	for _, oldest := range uses[:max(0, len(uses)-atrium.MaxSessions+1)] {
		if _, err := tx.Exec("DELETE FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND session_id = $3", tenant, user, oldest.session); err != nil {
			return session, err
		}
	}
	tx.Record("session.create", string(session.ID), nil, kernel.Fields{"userId": u.ID, "browser": session.Browser, "expiresAt": session.ExpiresAt})
	_, err := tx.Exec("INSERT INTO sessions (tenant_id, session_id, user_id, secret_hash, browser, created_at, used_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		tenant, kernel.IDArg(session.ID), user, hash, session.Browser, int64(session.CreatedAt), int64(session.UsedAt), int64(session.ExpiresAt))
	return session, err
}

const sessionColumns = "session_id, sessions.user_id, sessions.tenant_id, sessions.created_at, used_at, expires_at, browser"

func scanSession(r engine.Row) atrium.Session {
	return atrium.Session{
		ID: kernel.IDAt[atrium.SessionID](r, 0), UserID: kernel.IDAt[atrium.UserID](r, 1), TenantID: tenantAt(r, 2),
		CreatedAt: atrium.Time(r.Int(3)), UsedAt: atrium.Time(r.Int(4)), ExpiresAt: atrium.Time(r.Int(5)), Browser: r.Text(6),
	}
}

// Session returns a session that has not expired, its user, and the hash of its secret, or NotFound, also if its
// tenant is being deleted.
func (s *Store) Session(ctx context.Context, id atrium.SessionID) (session atrium.Session, u atrium.User, hash []byte, err error) {
	err = s.db.Find(ctx, "SELECT "+sessionColumns+", users.name, role, issuer, subject, users.created_at, updated_at, secret_hash, tenants.name "+
		"FROM sessions JOIN users ON users.user_id = sessions.user_id LEFT JOIN tenants ON tenants.tenant_id = sessions.tenant_id "+
		"WHERE session_id = $1 AND deleting_at IS NULL", engine.Args{kernel.IDArg(id)}, func(r engine.Row) {
		session = scanSession(r)
		session.TenantName = r.Text(14)
		u = atrium.User{
			ID: session.UserID, TenantID: session.TenantID, Name: r.Text(7), Role: atrium.Role(r.Text(8)), Issuer: r.Text(9),
			Subject: r.Text(10), CreatedAt: atrium.Time(r.Int(11)), UpdatedAt: atrium.Time(r.Int(12)),
		}
		hash = r.Bytes(13)
	})
	if err == nil && !session.WorksAt(atrium.At(s.db.Now())) {
		err = atrium.NotFound()
	}
	if err != nil {
		return atrium.Session{}, atrium.User{}, nil, err
	}
	return session, u, hash, nil
}

// UseSession stores that a session is used now. It ignores a session that has ended.
func (s *Store) UseSession(ctx context.Context, session *atrium.Session) error {
	return s.db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // none: no cached response has sessions
		now := int64(atrium.At(s.db.Now()))
		_, err := tx.Exec("UPDATE sessions SET used_at = $1 WHERE tenant_id = $2 AND user_id = $3 AND session_id = $4",
			now, kernel.IDArg(chainOf(session.TenantID)), kernel.IDArg(session.UserID), kernel.IDArg(session.ID))
		return err
	})
}

// Sessions returns the sessions of a user of a tenant, or of an operator for atrium.OperatorChain, that
// have not expired, newest first: at most atrium.MaxSessions. It returns NotFound if there is no such
// user.
func (s *Store) Sessions(ctx context.Context, tenant atrium.TenantID, user atrium.UserID) (sessions []atrium.Session, err error) {
	if _, err := s.User(ctx, tenant, user); err != nil {
		return nil, err
	}
	now := atrium.At(s.db.Now())
	err = s.db.Query(ctx, "SELECT "+sessionColumns+" FROM sessions WHERE tenant_id = $1 AND user_id = $2 ORDER BY session_id DESC",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(user)}, func(r engine.Row) error {
			if session := scanSession(r); session.WorksAt(now) {
				sessions = append(sessions, session)
			}
			return nil
		})
	return sessions, err
}

// EndSession ends a session of a user of the tenant of the change. It first calls check with it; an error
// of check ends the call. It returns NotFound if the user has no such session.
func (s *Store) EndSession(ctx context.Context, c atrium.Change, user atrium.UserID, id atrium.SessionID, check func(atrium.Session) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		const of = "FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND session_id = $3"
		args := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(user), kernel.IDArg(id)}
		var session atrium.Session
		if err := engine.Find(tx.Lock, "SELECT "+sessionColumns+" "+of, args, func(r engine.Row) { session = scanSession(r) }); err != nil {
			return none, err
		}
		if err := check(session); err != nil {
			return none, err
		}
		tx.RecordDetail("session.end", string(id), map[string]any{"userId": user})
		_, err = tx.Exec("DELETE "+of, args...)
		return none, err
	})
	return err
}

// EndSessions ends all sessions of a user of the tenant of the change, and its login link, and returns the
// user. It first calls check with the user; an error of check ends the call. It returns NotFound if there
// is no such user.
func (s *Store) EndSessions(ctx context.Context, c atrium.Change, user atrium.UserID, check func(atrium.User) error) (atrium.User, error) {
	u, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.User, error) {
		u, err := lockUser(tx, user)
		if err == nil {
			err = check(u)
		}
		if err != nil {
			return u, err
		}
		tx.RecordDetail("user.sign_out", string(user), map[string]any{})
		return u, signOut(tx, user)
	})
	return u, err
}

// signOut deletes the sessions and the login link of a user, who is locked.
func signOut(tx *kernel.Mutation, user atrium.UserID) error {
	args := []any{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(user)}
	if _, err := tx.Exec("DELETE FROM sessions WHERE tenant_id = $1 AND user_id = $2", args...); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM login_links WHERE tenant_id = $1 AND user_id = $2", args...)
	return err
}

// expiryTenants is how many tenants one call of DeleteExpiredSessions handles.
const expiryTenants = 100

// DeleteExpiredSessions deletes expired sessions and login links of up to expiryTenants tenants after the given one, ""
// for the first, and with the first those of operators. It returns the tenant to continue after, "" at the end. Before
// they are deleted, they do not work either.
func (s *Store) DeleteExpiredSessions(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, expiryTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == expiryTenants {
		next = tenants[len(tenants)-1]
	}
	if after == "" {
		tenants = append(tenants, atrium.OperatorChain)
	}
	now := s.db.Now()
	idle := int64(atrium.At(now.Add(-atrium.SessionIdleLife)))
	for _, tenant := range tenants {
		args := engine.Args{kernel.IDArg(tenant), int64(atrium.At(now)), idle}
		if err := s.deleteExpired(ctx, "sessions", "session_id", "(expires_at <= $2 OR used_at <= $3)", args); err != nil {
			return after, err
		}
		if err := s.deleteExpired(ctx, "login_links", "link_id", "expires_at <= $2", args[:2]); err != nil {
			return after, err
		}
	}
	return next, nil
}

// maxExpired is how many rows of a tenant one call of deleteExpired deletes. Later calls delete the others.
const maxExpired = 500

// deleteExpired deletes expired rows of a table of a tenant: those that still are when it deletes them.
func (s *Store) deleteExpired(ctx context.Context, table, id, expired string, args engine.Args) error {
	var rows []engine.Args
	if err := s.db.Query(ctx, fmt.Sprintf("SELECT user_id, %s FROM %s WHERE tenant_id = $1 AND %s LIMIT %d", id, table, expired, maxExpired), args, func(r engine.Row) error {
		rows = append(rows, append(slices.Clone(args), r.Bytes(0), r.Bytes(1)))
		return nil
	}); err != nil || len(rows) == 0 {
		return err
	}
	key := fmt.Sprintf(" AND user_id = $%d AND %s = $%d", len(args)+1, id, len(args)+2)
	return s.db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // none: no cached response has sessions
		for _, row := range rows {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE tenant_id = $1 AND "+expired+key, row...); err != nil {
				return err
			}
		}
		return nil
	})
}
