package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
)

var users = []guarantee{
	{"users are created, changed and removed, each time with a record", usersChanged},
	{"users are listed by descending identifier, at any page size", usersListed},
	{"names of users are found together, with their tenants", userNames},
	{"operators are users of no tenant, and users of another tenant are NotFound", usersOfOthers},
	{"a repeated request creates one user", userMadeOnce},
	{concurrent + "a tenant has one user for a subject of an identity provider, and a limited number of users", usersBounded},
	{"a failed precondition leaves a user unchanged", userRefused},
}

func (e *env) createUser(t tb, role atrium.Role) atrium.User {
	t.Helper()
	u, replayed, err := e.CreateUser(t.Context(), e.change(), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Jane", Role: role})
	if err != nil || replayed {
		t.Fatalf("create a user: replayed %v, %v", replayed, err)
	}
	return u
}

func (e *env) wantUser(t tb, want atrium.User) {
	t.Helper()
	if got, err := e.User(t.Context(), e.tenant, want.ID); err != nil || got != want {
		t.Errorf("the user is %+v, %v, want %+v", got, err, want)
	}
}

func usersChanged(t *testing.T, e *env) {
	plain := atrium.User{ID: atrium.NewID[atrium.UserID](), Name: strings.Repeat("\U0001f600", atrium.MaxName), Role: atrium.RoleAdmin}
	known := atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Jane", Role: atrium.RoleViewer, Issuer: "https://id.example", Subject: "1"}
	for _, want := range []atrium.User{plain, known} {
		made, _, err := e.CreateUser(t.Context(), e.change(), want)
		want.TenantID, want.CreatedAt, want.UpdatedAt = e.tenant, e.clock.instant(), e.clock.instant()
		if err != nil || made != want {
			t.Fatalf("made %+v, %v, want %+v", made, err, want)
		}
		e.wantUser(t, want)
		e.clock.step(time.Minute)
		unchanged, err := e.UpdateUser(t.Context(), e.change(), want.ID, &want.Name, &want.Role, accept)
		if err != nil || unchanged != want {
			t.Errorf("without a change: %+v, %v", unchanged, err)
		}
		want.Name, want.Role, want.UpdatedAt = "Robin", atrium.RoleEditor, e.clock.instant()
		changed, err := e.UpdateUser(t.Context(), e.change(), want.ID, &want.Name, &want.Role, accept)
		if err != nil || changed != want {
			t.Errorf("changed to %+v, %v, want %+v", changed, err, want)
		}
		e.wantUser(t, want)
		if err := e.RemoveUser(t.Context(), e.change(), want.ID, accept); err != nil {
			t.Error(err)
		}
		_, err = e.User(t.Context(), e.tenant, want.ID)
		wantCode(t, err, atrium.CodeNotFound)
		wantCode(t, e.RemoveUser(t.Context(), e.change(), want.ID, accept), atrium.CodeNotFound)
		_, err = e.UpdateUser(t.Context(), e.change(), want.ID, nil, nil, accept)
		wantCode(t, err, atrium.CodeNotFound)
		e.wantAuditActions(t, string(want.ID), "user.create", "user.update", "user.remove")
	}
	e.wantSound(t, nil)
}

func usersListed(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	var want []atrium.UserID
	for range 5 {
		want = append(want, e.createUser(t, atrium.RoleViewer).ID)
		them.createUser(t, atrium.RoleViewer)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 6; limit++ {
		var got []atrium.UserID
		var after *atrium.Position
		for more := true; more; {
			page, left, err := e.Users(t.Context(), e.tenant, after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%d users, %v", len(page), err)
			}
			for _, u := range page {
				got, after = append(got, u.ID), atrium.PositionAt(0, u.ID)
			}
			more = left
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
	}
}

func userNames(t *testing.T, e *env) {
	operators, them := e.as(atrium.OperatorChain), e.as(e.newTenant(t))
	all := []atrium.User{e.createUser(t, atrium.RoleViewer), them.createUser(t, atrium.RoleAdmin), operators.createUser(t, atrium.RoleOperator)}
	var ids []atrium.UserID
	want := map[atrium.UserID]string{}
	for _, u := range all {
		ids, want[u.ID] = append(ids, u.ID), string(u.TenantID)+" "+u.Name
	}
	got := map[atrium.UserID]string{}
	ids = append(ids, atrium.NewID[atrium.UserID]()) // unknown
	if err := e.EachUserName(t.Context(), ids, func(id atrium.UserID, tenant atrium.TenantID, name string) {
		got[id] = string(tenant) + " " + name
	}); err != nil || !maps.Equal(got, want) {
		t.Errorf("the names are %v, %v, want %v", got, err, want)
	}
}

func usersOfOthers(t *testing.T, e *env) {
	operators, them := e.as(atrium.OperatorChain), e.as(e.newTenant(t))
	own, operator := e.createUser(t, atrium.RoleAdmin), operators.createUser(t, atrium.RoleOperator)
	if operator.TenantID != "" {
		t.Errorf("the operator is %+v", operator)
	}
	operators.wantUser(t, operator)
	for _, c := range []struct {
		e  *env
		id atrium.UserID
	}{{e, operator.ID}, {operators, own.ID}, {them, own.ID}, {them, operator.ID}} {
		_, err := c.e.User(t.Context(), c.e.tenant, c.id)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = c.e.UpdateUser(t.Context(), c.e.change(), c.id, pointer("x"), nil, accept)
		wantCode(t, err, atrium.CodeNotFound)
		wantCode(t, c.e.RemoveUser(t.Context(), c.e.change(), c.id, accept), atrium.CodeNotFound)
		_, err = c.e.CreateLoginLink(t.Context(), c.e.change(), atrium.LoginLink{ID: atrium.NewID[atrium.LoginLinkID](), UserID: c.id}, secretHash(1), accept)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = c.e.Sessions(t.Context(), c.e.tenant, c.id)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = c.e.EndSessions(t.Context(), c.e.change(), c.id, accept)
		wantCode(t, err, atrium.CodeNotFound)
	}
	e.wantUser(t, own)
	operators.wantUser(t, operator)
}

func userMadeOnce(t *testing.T, e *env) {
	first, replayed, err := e.CreateUser(t.Context(), e.keyed("a", "jane"), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Jane", Role: atrium.RoleViewer})
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	again, replayed, err := e.CreateUser(t.Context(), e.keyed("a", "jane"), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Jane", Role: atrium.RoleViewer})
	if err != nil || !replayed || again != first {
		t.Errorf("repeated: %+v, replayed %v, %v", again, replayed, err)
	}
	if all, _, err := e.Users(t.Context(), e.tenant, nil, 10); err != nil || len(all) != 1 {
		t.Errorf("%d users, %v", len(all), err)
	}
}

func usersBounded(t *testing.T, e *env) {
	known := func(e *env, subject string) error {
		u := atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Jane", Role: atrium.RoleViewer, Issuer: "https://id.example", Subject: subject}
		_, _, err := e.CreateUser(t.Context(), e.change(), u)
		return err
	}
	if err := known(e, "1"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, known(e, "1"), atrium.CodeConflict)
	if err := known(e.as(e.newTenant(t)), "1"); err != nil {
		t.Errorf("the same subject in another tenant: %v", err)
	}
	for i := range atrium.MaxUsers - 2 {
		e.sql(t, "INSERT INTO users (tenant_id, user_id, name, role, issuer, subject, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			storedID(e.tenant), storedID(atrium.NewID[atrium.UserID]()), strconv.Itoa(i), "viewer", "", "", int64(0), int64(0))
	}
	made := make([]error, 4)
	parallel(t, 4, func(i int) { made[i] = known(e, fmt.Sprint("last ", i)) })
	full := 0
	for _, err := range made {
		if err != nil {
			wantCode(t, err, atrium.CodeConflict)
			full++
		}
	}
	if full != 3 {
		t.Errorf("%d of 4 users were refused above the maximum, want 3", full)
	}
}

func userRefused(t *testing.T, e *env) {
	u := e.createUser(t, atrium.RoleViewer)
	e.clock.step(time.Second)
	refuse := func(got atrium.User) error {
		if got != u {
			t.Errorf("check was given %+v, want %+v", got, u)
		}
		return atrium.Errorf(atrium.CodePreconditionFailed, "no")
	}
	_, err := e.UpdateUser(t.Context(), e.change(), u.ID, pointer("x"), nil, refuse)
	wantCode(t, err, atrium.CodePreconditionFailed)
	wantCode(t, e.RemoveUser(t.Context(), e.change(), u.ID, refuse), atrium.CodePreconditionFailed)
	_, err = e.CreateLoginLink(t.Context(), e.change(), atrium.LoginLink{ID: atrium.NewID[atrium.LoginLinkID](), UserID: u.ID}, secretHash(1), refuse)
	wantCode(t, err, atrium.CodePreconditionFailed)
	e.wantUser(t, u)
	e.wantAuditActions(t, string(u.ID), "user.create")
}
