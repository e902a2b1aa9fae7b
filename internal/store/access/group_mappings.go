package access

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const mappingColumns = "mapping_id, group_mappings.tenant_id, group_mappings.issuer, group_mappings.group_name, role, created_at"

func scanMapping(r engine.Row) atrium.GroupMapping {
	return atrium.GroupMapping{
		ID: kernel.IDAt[atrium.GroupMappingID](r, 0), TenantID: tenantAt(r, 1), Issuer: r.Text(2), Group: r.Text(3),
		Role: atrium.Role(r.Text(4)), CreatedAt: atrium.Time(r.Int(5)),
	}
}

func mappingFields(m *atrium.GroupMapping) kernel.Fields {
	return kernel.Fields{"issuer": m.Issuer, "group": m.Group, "role": m.Role}
}

// CreateGroupMapping stores a mapping to a role in the tenant of the change, or of operators for
// atrium.OperatorChain. It returns the mapping with its time, and whether the same request created it before.
// It returns Conflict if there are atrium.MaxGroupMappings, or if the tenant has a mapping of the group.
func (s *Store) CreateGroupMapping(ctx context.Context, c atrium.Change, m atrium.GroupMapping) (atrium.GroupMapping, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.GroupMapping, error) {
		made := m
		made.CreatedAt = tx.At
		if made.TenantID = c.TenantID; c.TenantID == atrium.OperatorChain {
			made.TenantID = ""
		}
		if err := tx.LockChain(); err != nil {
			return made, err
		}
		n, err := count(tx, "group_mappings", atrium.MaxGroupMappings)
		if err != nil {
			return made, err
		}
		if n >= atrium.MaxGroupMappings {
			return made, atrium.Errorf(atrium.CodeConflict, "There are %d group mappings, the maximum. Delete one first.", n)
		}
		tx.Record("group_mapping.create", string(made.ID), nil, mappingFields(&made))
		_, err = tx.Exec("INSERT INTO group_mappings (tenant_id, mapping_id, issuer, group_name, role, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
			kernel.IDArg(c.TenantID), kernel.IDArg(made.ID), made.Issuer, made.Group, string(made.Role), int64(made.CreatedAt))
		if engine.ClassOf(err) == engine.Conflict {
			err = atrium.Errorf(atrium.CodeConflict, "There is a mapping of this group. Delete it first to give the group another role.")
		}
		return made, err
	})
}

const selectMapping = "SELECT " + mappingColumns + " FROM group_mappings WHERE tenant_id = $1 AND mapping_id = $2"

// GroupMapping returns a mapping of a tenant, or of operators for atrium.OperatorChain, or NotFound.
func (s *Store) GroupMapping(ctx context.Context, tenant atrium.TenantID, id atrium.GroupMappingID) (m atrium.GroupMapping, err error) {
	err = s.db.Find(ctx, selectMapping+notDeleting("group_mappings"), engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)},
		func(r engine.Row) { m = scanMapping(r) })
	return m, err
}

// GroupMappings returns up to limit mappings of a tenant, or of operators for atrium.OperatorChain, by
// descending identifier, after the position, or from the first if it is nil. more reports whether others
// follow.
func (s *Store) GroupMappings(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (mappings []atrium.GroupMapping, more bool, err error) {
	q := kernel.Select("SELECT "+mappingColumns+" FROM group_mappings WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND mapping_id < ", idBefore(after))
	q.Add(" ORDER BY mapping_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, scanMapping)
}

// DeleteGroupMapping deletes a mapping. Users whom it has created stay: they are refused when they sign in
// again. It first calls check with the mapping; an error of check ends the call. It returns NotFound if there
// is no such mapping.
func (s *Store) DeleteGroupMapping(ctx context.Context, c atrium.Change, id atrium.GroupMappingID, check func(atrium.GroupMapping) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		var m atrium.GroupMapping
		args := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}
		if err := engine.Find(tx.Lock, selectMapping, args, func(r engine.Row) { m = scanMapping(r) }); err != nil {
			return none, err
		}
		if err := check(m); err != nil {
			return none, err
		}
		tx.Record("group_mapping.delete", string(id), mappingFields(&m), nil)
		_, err = tx.Exec("DELETE FROM group_mappings WHERE tenant_id = $1 AND mapping_id = $2", args...)
		return none, err
	})
	return err
}

var mappingsOfGroups = engine.NewBatch("SELECT "+mappingColumns+" FROM batch JOIN group_mappings ON group_mappings.issuer = batch.issuer AND "+
	"group_mappings.group_name = batch.group_name WHERE true"+notDeleting("group_mappings"), "issuer text", "group_name text")

// maxMappingsOfPerson limits how many mappings the groups of one person may have, over all tenants.
const maxMappingsOfPerson = 1000

// MappingsOf returns the mappings of groups of an issuer in all tenants and of operators, in any order. It
// returns Conflict if there are more than a person may have.
func (s *Store) MappingsOf(ctx context.Context, issuer string, groups []string) (mappings []atrium.GroupMapping, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	rows := make([]engine.Args, len(groups))
	for i, group := range groups {
		rows[i] = engine.Args{issuer, group}
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		mappings = nil // of an earlier try
		_, err := tx.Batch(mappingsOfGroups, rows, func(r engine.Row) error {
			if len(mappings) == maxMappingsOfPerson {
				return atrium.Errorf(atrium.CodeConflict, "Your groups have roles in too many tenants.")
			}
			mappings = append(mappings, scanMapping(r))
			return nil
		})
		return err
	})
	return mappings, err
}

// UsersOf returns the users whom an identity provider knows by a subject, in all tenants and as an operator, in
// any order: at most one of each tenant, and at most 1,000.
func (s *Store) UsersOf(ctx context.Context, issuer, subject string) (users []atrium.User, err error) {
	err = s.db.Query(ctx, "SELECT "+userColumns+" FROM users WHERE issuer = $1 AND subject = $2 AND issuer <> ''"+notDeleting("users")+" LIMIT $3",
		engine.Args{issuer, subject, int64(maxMappingsOfPerson)}, func(r engine.Row) error {
			users = append(users, scanUser(r))
			return nil
		})
	return users, err
}

// SignInPerson begins a session of a person with the role that a mapping gives, in its tenant. It creates the
// user at the first sign-in, and updates the name and the role at later ones; a new role ends the other
// sessions. It sets the times of the session. It returns NotFound if the mapping is no longer there, and
// Conflict if the tenant has atrium.MaxUsers and not this one.
func (s *Store) SignInPerson(ctx context.Context, p atrium.Person, m atrium.GroupMapping, session atrium.Session, hash []byte, requestID string) (atrium.Session, error) {
	fresh := atrium.NewID[atrium.UserID]()
	c := atrium.Change{TenantID: chainOf(m.TenantID), RequestID: requestID}
	made, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Session, error) {
		if err := tx.LockChain(); err != nil { // two first sign-ins of a person create one user
			return session, err
		}
		var stored atrium.GroupMapping
		if err := engine.Find(tx.Query, selectMapping+notDeleting("group_mappings"), engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(m.ID)},
			func(r engine.Row) { stored = scanMapping(r) }); err != nil {
			return session, err
		}
		u := atrium.User{ID: fresh}
		err := engine.Find(tx.Lock, "SELECT "+userColumns+" FROM users WHERE issuer = $1 AND subject = $2 AND tenant_id = $3 AND issuer <> ''",
			engine.Args{p.Issuer, p.Subject, kernel.IDArg(c.TenantID)}, func(r engine.Row) { u = scanUser(r) })
		tx.Change.Actor = string(u.ID)
		switch {
		case errors.Is(err, engine.ErrNoRow):
			u, err = insertUser(tx, atrium.User{ID: fresh, Name: p.Name, Role: stored.Role, Issuer: p.Issuer, Subject: p.Subject})
		case err == nil:
			u, err = changeUser(tx, u, p.Name, stored.Role)
		}
		if err != nil {
			return session, err
		}
		return beginSession(tx, &u, session, hash)
	})
	return made, err
}

// UseOnce records that the thing with an unpredictable identifier is used, for a day. Its error's code is atrium.CodeConflict if it was
// used before, on any node, or if it is not known whether it is used now.
func (s *Store) UseOnce(ctx context.Context, id, requestID string) error {
	c := atrium.Change{TenantID: atrium.OperatorChain, RequestID: requestID, IdempotencyKey: "once " + id, Fingerprint: []byte("once")}
	_, used, err := kernel.Mutate(ctx, s.db, c, func(*kernel.Mutation) (struct{}, error) { return struct{}{}, nil })
	if err == nil && used {
		err = atrium.Errorf(atrium.CodeConflict, "It was used before.")
	}
	return err
}
