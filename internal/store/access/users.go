package access

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const userColumns = "user_id, tenant_id, name, role, issuer, subject, created_at, updated_at"

func scanUser(r engine.Row) atrium.User {
	return atrium.User{
		ID: kernel.IDAt[atrium.UserID](r, 0), TenantID: tenantAt(r, 1), Name: r.Text(2), Role: atrium.Role(r.Text(3)),
		Issuer: r.Text(4), Subject: r.Text(5), CreatedAt: atrium.Time(r.Int(6)), UpdatedAt: atrium.Time(r.Int(7)),
	}
}

// tenantAt reads the tenant of a user, "" for operators.
func tenantAt(r engine.Row, column int) atrium.TenantID {
	if id := kernel.IDAt[atrium.TenantID](r, column); id != atrium.OperatorChain {
		return id
	}
	return ""
}

func userFields(u *atrium.User) kernel.Fields {
	fields := kernel.Fields{"name": u.Name, "role": u.Role}
	if u.Issuer != "" {
		fields["issuer"], fields["subject"] = u.Issuer, u.Subject
	}
	return fields
}

// notDeleting is a condition on a table. Rows of a tenant that is being deleted do not exist.
func notDeleting(table string) string {
	return " AND NOT EXISTS (SELECT 1 FROM tenants x WHERE x.tenant_id = " + table + ".tenant_id AND x.deleting_at IS NOT NULL)"
}

// CreateUser stores a user of the tenant of the change, or an operator for atrium.OperatorChain. It
// returns the user with its times, and whether the same request created it before. It returns Conflict
// if there are atrium.MaxUsers, or if the tenant has a user with this issuer and subject.
func (s *Store) CreateUser(ctx context.Context, c atrium.Change, u atrium.User) (atrium.User, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.User, error) {
		return insertUser(tx, u)
	})
}

// count returns how many rows a table has of the tenant of the change: most at most.
func count(tx *kernel.Mutation, table string, most int) (n int64, err error) {
	err = engine.Find(tx.Query, "SELECT COUNT(*) FROM (SELECT 1 FROM "+table+" WHERE tenant_id = $1 LIMIT $2) x",
		engine.Args{kernel.IDArg(tx.Change.TenantID), int64(most)}, func(r engine.Row) { n = r.Int(0) })
	return n, err
}

// insertUser stores a user of the tenant of the change.
func insertUser(tx *kernel.Mutation, u atrium.User) (atrium.User, error) {
	u.CreatedAt, u.UpdatedAt = tx.At, tx.At
	if u.TenantID = tx.Change.TenantID; u.TenantID == atrium.OperatorChain {
		u.TenantID = ""
	}
	if err := tx.LockChain(); err != nil {
		return u, err
	}
	users, err := count(tx, "users", atrium.MaxUsers)
	if err != nil {
		return u, err
	}
	if users >= atrium.MaxUsers {
		return u, atrium.Errorf(atrium.CodeConflict, "There are %d users, the maximum. Remove one first.", users)
	}
	tx.Record("user.create", string(u.ID), nil, userFields(&u))
	_, err = tx.Exec("INSERT INTO users (tenant_id, user_id, name, role, issuer, subject, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		kernel.IDArg(tx.Change.TenantID), kernel.IDArg(u.ID), u.Name, string(u.Role), u.Issuer, u.Subject, int64(u.CreatedAt), int64(u.UpdatedAt))
	if engine.ClassOf(err) == engine.Conflict {
		err = atrium.Errorf(atrium.CodeConflict, "There is a user with this subject of the identity provider.")
	}
	return u, err
}

const selectUser = "SELECT " + userColumns + " FROM users WHERE tenant_id = $1 AND user_id = $2"

// User returns a user of a tenant, or an operator for atrium.OperatorChain, or NotFound.
func (s *Store) User(ctx context.Context, tenant atrium.TenantID, id atrium.UserID) (u atrium.User, err error) {
	err = s.db.Find(ctx, selectUser+notDeleting("users"), engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { u = scanUser(r) })
	return u, err
}

var usersByID = engine.NewBatch("SELECT users.user_id, users.tenant_id, name FROM batch JOIN users ON users.user_id = batch.user_id", "user_id bytea")

// EachUserName calls f with the tenant and the name of each of the users that exist, in one query. The
// tenant of an operator is "".
func (s *Store) EachUserName(ctx context.Context, ids []atrium.UserID, f func(id atrium.UserID, tenant atrium.TenantID, name string)) error {
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(id)}
	}
	return s.db.Read(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(usersByID, rows, func(r engine.Row) error {
			f(kernel.IDAt[atrium.UserID](r, 0), tenantAt(r, 1), r.Text(2))
			return nil
		})
		return err
	})
}

// Users returns up to limit users of a tenant, or operators for atrium.OperatorChain, by descending
// identifier, after the position, or from the first if it is nil. more reports whether others follow.
func (s *Store) Users(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (users []atrium.User, more bool, err error) {
	q := kernel.Select("SELECT "+userColumns+" FROM users WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND user_id < ", idBefore(after))
	q.Add(" ORDER BY user_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, scanUser)
}

// lockUser locks a user of the tenant of the change until the end of the transaction.
func lockUser(tx *kernel.Mutation, id atrium.UserID) (u atrium.User, err error) {
	err = engine.Find(tx.Lock, selectUser, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}, func(r engine.Row) { u = scanUser(r) })
	return u, err
}

// UpdateUser sets the name and the role of a user, unless they are nil. A new role ends the user's sessions
// and login link. UpdateUser first calls check with the current user; an error of check ends the call. It returns
// NotFound if there is no such user.
func (s *Store) UpdateUser(ctx context.Context, c atrium.Change, id atrium.UserID, name *string, role *atrium.Role, check func(atrium.User) error) (atrium.User, error) {
	u, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.User, error) {
		u, err := lockUser(tx, id)
		if err != nil {
			return u, err
		}
		if err := check(u); err != nil {
			return u, err
		}
		return changeUser(tx, u, orElse(name, u.Name), orElse(role, u.Role))
	})
	return u, err
}

// orElse returns what a pointer points to, or otherwise if it is nil.
func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// changeUser sets the name and the role of a user, who is locked. A new role ends the user's sessions and login
// link.
func changeUser(tx *kernel.Mutation, former atrium.User, name string, role atrium.Role) (atrium.User, error) {
	u := former
	u.Name, u.Role = name, role
	if u == former {
		return u, nil
	}
	if u.Role != former.Role {
		if err := signOut(tx, u.ID); err != nil {
			return u, err
		}
	}
	u.UpdatedAt = *tx.NotBefore(u.UpdatedAt)
	tx.Record("user.update", string(u.ID), userFields(&former), userFields(&u))
	_, err := tx.Exec("UPDATE users SET name = $1, role = $2, updated_at = $3 WHERE tenant_id = $4 AND user_id = $5",
		u.Name, string(u.Role), int64(u.UpdatedAt), kernel.IDArg(tx.Change.TenantID), kernel.IDArg(u.ID))
	return u, err
}

// RemoveUser deletes a user with its sessions and login link. It first calls check with the user; an error of
// check ends the call. It returns NotFound if there is no such user.
func (s *Store) RemoveUser(ctx context.Context, c atrium.Change, id atrium.UserID, check func(atrium.User) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		u, err := lockUser(tx, id)
		if err != nil {
			return none, err
		}
		if err := check(u); err != nil {
			return none, err
		}
		if err := signOut(tx, id); err != nil {
			return none, err
		}
		tx.Record("user.remove", string(id), userFields(&u), nil)
		_, err = tx.Exec("DELETE FROM users WHERE tenant_id = $1 AND user_id = $2", kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return none, err
	})
	return err
}
