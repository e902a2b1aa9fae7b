package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
)

var groupMappings = []guarantee{
	{"group mappings are created, listed and deleted, each time with a record", mappingsChanged},
	{concurrent + "a tenant has one mapping of a group, and a limited number of them", mappingsBounded},
	{"mappings of another tenant are NotFound, and those of groups are found in all tenants, by issuer", mappingsOfOthers},
	{concurrent + "the first sign-in of a person creates one user, however many browsers begin at once, and later ones update it", personSignsIn},
	{"a sign-in with a new role ends the other sessions, and one without its mapping is refused", personLosesRole},
	{"a person does not sign in above the maximum number of users", personBounded},
	{concurrent + "what is used once is used by one of several requests, on any node", usedOnce},
	{"users and mappings of a tenant that is being deleted are not found by their issuer", deletedMappings},
}

// newIssuer returns an issuer that no other test has: mappings of all tenants are found by it.
func newIssuer() string { return "https://" + string(atrium.NewID[atrium.TenantID]()) + ".example" }

func (e *env) mapGroup(t tb, issuer, group string, role atrium.Role) atrium.GroupMapping {
	t.Helper()
	m, replayed, err := e.CreateGroupMapping(t.Context(), e.change(), atrium.GroupMapping{ID: atrium.NewID[atrium.GroupMappingID](), Issuer: issuer, Group: group, Role: role})
	if err != nil || replayed {
		t.Fatalf("map a group: replayed %v, %v", replayed, err)
	}
	return m
}

func mappingsChanged(t *testing.T, e *env) {
	issuer := newIssuer()
	for _, e := range []*env{e, e.as(atrium.OperatorChain)} {
		var want []atrium.GroupMapping
		for i, group := range []string{strings.Repeat("\U0001f600", atrium.MaxGroup), "staff", "Staff", "staff "} {
			m := e.mapGroup(t, issuer, group, atrium.TenantRoles()[i])
			tenant := e.tenant
			if tenant == atrium.OperatorChain {
				tenant = ""
			}
			if w := (atrium.GroupMapping{ID: m.ID, TenantID: tenant, Issuer: issuer, Group: group, Role: atrium.TenantRoles()[i], CreatedAt: e.clock.instant()}); m != w {
				t.Errorf("made %+v, want %+v", m, w)
			}
			if got, err := e.GroupMapping(t.Context(), e.tenant, m.ID); err != nil || got != m {
				t.Errorf("the mapping is %+v, %v, want %+v", got, err, m)
			}
			want = append(want, m)
		}
		slices.Reverse(want)
		for limit := 1; limit <= len(want)+1 && e.tenant != atrium.OperatorChain; limit++ {
			var got []atrium.GroupMapping
			var after *atrium.Position
			for more := true; more; {
				page, left, err := e.GroupMappings(t.Context(), e.tenant, after, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("%d mappings, %v", len(page), err)
				}
				for _, m := range page {
					got, after = append(got, m), atrium.PositionAt(0, m.ID)
				}
				more = left
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d a page: %v, want %v", limit, got, want)
			}
		}
		refuse := func(m atrium.GroupMapping) error {
			if m != want[0] {
				t.Errorf("check was given %+v, want %+v", m, want[0])
			}
			return atrium.Errorf(atrium.CodePreconditionFailed, "no")
		}
		wantCode(t, e.DeleteGroupMapping(t.Context(), e.change(), want[0].ID, refuse), atrium.CodePreconditionFailed)
		e.wantAuditActions(t, string(want[0].ID), "group_mapping.create")
		if err := e.DeleteGroupMapping(t.Context(), e.change(), want[0].ID, accept); err != nil {
			t.Error(err)
		}
		wantCode(t, e.DeleteGroupMapping(t.Context(), e.change(), want[0].ID, accept), atrium.CodeNotFound)
		_, err := e.GroupMapping(t.Context(), e.tenant, want[0].ID)
		wantCode(t, err, atrium.CodeNotFound)
		e.wantAuditActions(t, string(want[0].ID), "group_mapping.create", "group_mapping.delete")
	}
	e.wantSound(t, nil)
}

func mappingsBounded(t *testing.T, e *env) {
	issuer := newIssuer()
	create := func(e *env, group string) error {
		_, _, err := e.CreateGroupMapping(t.Context(), e.change(), atrium.GroupMapping{ID: atrium.NewID[atrium.GroupMappingID](), Issuer: issuer, Group: group, Role: atrium.RoleViewer})
		return err
	}
	for i := range atrium.MaxGroupMappings - 1 {
		if err := create(e, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, create(e, "0"), atrium.CodeConflict)
	made := make([]error, 4)
	parallel(t, 4, func(i int) { made[i] = create(e, fmt.Sprint("last ", i)) })
	full := 0
	for _, err := range made {
		if err != nil {
			wantCode(t, err, atrium.CodeConflict)
			full++
		}
	}
	if full != 3 {
		t.Errorf("%d of 4 mappings were refused above the maximum, want 3", full)
	}
	if err := create(e.as(e.newTenant(t)), "0"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

func mappingsOfOthers(t *testing.T, e *env) {
	issuer := newIssuer()
	operators, them := e.as(atrium.OperatorChain), e.as(e.newTenant(t))
	own, others, root := e.mapGroup(t, issuer, "staff", atrium.RoleAdmin), them.mapGroup(t, issuer, "staff", atrium.RoleViewer), operators.mapGroup(t, issuer, "root", atrium.RoleOperator)
	e.mapGroup(t, issuer, "elsewhere", atrium.RoleAdmin)
	for _, c := range []struct {
		e  *env
		id atrium.GroupMappingID
	}{{e, root.ID}, {operators, own.ID}, {them, own.ID}, {e, others.ID}} {
		_, err := c.e.GroupMapping(t.Context(), c.e.tenant, c.id)
		wantCode(t, err, atrium.CodeNotFound)
		wantCode(t, c.e.DeleteGroupMapping(t.Context(), c.e.change(), c.id, accept), atrium.CodeNotFound)
	}
	for _, c := range []struct {
		issuer string
		groups []string
		want   []atrium.GroupMapping
	}{
		{issuer, []string{"staff", "unknown", "root"}, []atrium.GroupMapping{own, others, root}},
		{issuer, []string{"Staff", "staff ", "staf"}, nil},
		{issuer, nil, nil},
		{issuer + "/", []string{"staff", "root"}, nil},
	} {
		got, err := e.MappingsOf(t.Context(), c.issuer, c.groups)
		slices.SortFunc(got, func(a, b atrium.GroupMapping) int { return strings.Compare(string(a.ID), string(b.ID)) })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("groups %v of %s: %v, %v, want %v", c.groups, c.issuer, got, err, c.want)
		}
	}
}

func usedOnce(t *testing.T, e *env) {
	id, other := string(atrium.NewID[atrium.RequestID]()), e.node()
	var used atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		node := e
		if i%2 == 1 {
			node = other
		}
		all.Go(func() {
			switch err := node.UseOnce(t.Context(), id, "req_1"); {
			case err == nil:
				used.Add(1)
			case atrium.CodeOf(err) != atrium.CodeConflict:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := used.Load(); n != 1 {
		t.Errorf("it was used %d times", n)
	}
	if err := other.UseOnce(t.Context(), id+"x", "req_1"); err != nil {
		t.Errorf("another thing: %v", err)
	}
}

func (e *env) signInPerson(t tb, p atrium.Person, m atrium.GroupMapping) (atrium.Session, error) {
	t.Helper()
	return e.SignInPerson(t.Context(), p, m, atrium.Session{ID: atrium.NewID[atrium.SessionID](), Browser: "Browser/1"}, secretHash(2), "req_1")
}

// usersOf returns the users of a person.
func (e *env) usersOf(t tb, p atrium.Person) []atrium.User {
	t.Helper()
	users, err := e.UsersOf(t.Context(), p.Issuer, p.Subject)
	if err != nil {
		t.Fatalf("users: %v", err)
	}
	return users
}

func personSignsIn(t *testing.T, e *env) {
	issuer := newIssuer()
	person := atrium.Person{Issuer: issuer, Subject: "1", Name: "Jane"}
	for _, e := range []*env{e, e.as(atrium.OperatorChain)} {
		before := len(e.usersOf(t, person))
		role := atrium.RoleEditor
		if e.tenant == atrium.OperatorChain {
			role = atrium.RoleOperator
		}
		m := e.mapGroup(t, issuer, "staff", role)
		made, errs := make([]atrium.Session, 6), make([]error, 6)
		parallel(t, 6, func(i int) { made[i], errs[i] = e.signInPerson(t, person, m) })
		for i, err := range errs {
			if err != nil {
				t.Fatalf("sign-in %d: %v", i, err)
			}
		}
		users := e.usersOf(t, person)
		i := slices.IndexFunc(users, func(u atrium.User) bool { return u.TenantID == m.TenantID })
		if len(users) != before+1 || i < 0 {
			t.Fatalf("the users are %+v, want one more", users)
		}
		u := users[i]
		if want := (atrium.User{ID: u.ID, TenantID: m.TenantID, Name: "Jane", Role: role, Issuer: issuer, Subject: "1", CreatedAt: u.CreatedAt, UpdatedAt: u.CreatedAt}); u != want {
			t.Errorf("the user is %+v, want %+v", u, want)
		}
		for _, s := range made {
			if !e.signedIn(t, s, u) {
				t.Error("a session does not work")
			}
		}
		e.wantAuditActions(t, string(u.ID), "user.create")
		e.clock.step(time.Minute)
		renamed := person
		renamed.Name = "Jane K."
		if _, err := e.signInPerson(t, renamed, m); err != nil {
			t.Fatal(err)
		}
		u.Name, u.UpdatedAt = "Jane K.", e.clock.instant()
		e.wantUser(t, u)
		if !e.signedIn(t, made[0], u) {
			t.Error("a new name ended a session")
		}
		e.wantAuditActions(t, string(u.ID), "user.create", "user.update")
	}
	if users := e.usersOf(t, atrium.Person{Issuer: issuer, Subject: "2"}); len(users) > 0 {
		t.Errorf("another subject has the users %v", users)
	}
	if users := e.usersOf(t, atrium.Person{}); len(users) > 0 {
		t.Errorf("no issuer has the users %v", users)
	}
	e.wantSound(t, nil)
}

func personLosesRole(t *testing.T, e *env) {
	issuer := newIssuer()
	person := atrium.Person{Issuer: issuer, Subject: "1", Name: "Jane"}
	editors, viewers := e.mapGroup(t, issuer, "editors", atrium.RoleEditor), e.mapGroup(t, issuer, "viewers", atrium.RoleViewer)
	first, err := e.signInPerson(t, person, editors)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.signInPerson(t, person, viewers)
	if err != nil {
		t.Fatal(err)
	}
	u := e.usersOf(t, person)[0]
	if u.Role != atrium.RoleViewer || e.signedIn(t, first, u) || !e.signedIn(t, second, u) {
		t.Errorf("the user is %+v; a session with the former role still works, or the new one does not", u)
	}
	if err := e.DeleteGroupMapping(t.Context(), e.change(), editors.ID, accept); err != nil {
		t.Fatal(err)
	}
	_, err = e.signInPerson(t, person, editors)
	wantCode(t, err, atrium.CodeNotFound)
	e.wantUser(t, u)
	_, err = e.as(e.newTenant(t)).signInPerson(t, person, atrium.GroupMapping{ID: viewers.ID, TenantID: e.newTenant(t)})
	wantCode(t, err, atrium.CodeNotFound)
}

func personBounded(t *testing.T, e *env) {
	issuer := newIssuer()
	m := e.mapGroup(t, issuer, "staff", atrium.RoleViewer)
	known := atrium.Person{Issuer: issuer, Subject: "1", Name: "Jane"}
	if _, err := e.signInPerson(t, known, m); err != nil {
		t.Fatal(err)
	}
	for range atrium.MaxUsers - 1 {
		e.sql(t, "INSERT INTO users (tenant_id, user_id, name, role, issuer, subject, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			storedID(e.tenant), storedID(atrium.NewID[atrium.UserID]()), "x", "viewer", "", "", int64(0), int64(0))
	}
	_, err := e.signInPerson(t, atrium.Person{Issuer: issuer, Subject: "2", Name: "Kim"}, m)
	wantCode(t, err, atrium.CodeConflict)
	if _, err := e.signInPerson(t, known, m); err != nil {
		t.Errorf("a user who exists: %v", err)
	}
}

func deletedMappings(t *testing.T, e *env) {
	issuer := newIssuer()
	person := atrium.Person{Issuer: issuer, Subject: "1", Name: "Jane"}
	m := e.mapGroup(t, issuer, "staff", atrium.RoleViewer)
	if _, err := e.signInPerson(t, person, m); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DeleteTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), e.tenant, accept); err != nil {
		t.Fatal(err)
	}
	if found, err := e.MappingsOf(t.Context(), issuer, []string{"staff"}); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if users := e.usersOf(t, person); len(users) > 0 {
		t.Errorf("found %v", users)
	}
	_, err := e.signInPerson(t, person, m)
	wantCode(t, err, atrium.CodeNotFound)
}
