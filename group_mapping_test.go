package atrium_test

import (
	"slices"
	"testing"

	"atrium"
)

func TestTheHighestRoleInEachTenantCounts(t *testing.T) {
	m := func(tenant atrium.TenantID, role atrium.Role) atrium.GroupMapping {
		return atrium.GroupMapping{TenantID: tenant, Role: role}
	}
	for _, c := range []struct{ of, want []atrium.GroupMapping }{
		{nil, nil},
		{[]atrium.GroupMapping{m("b", atrium.RoleViewer), m("a", atrium.RoleSupport), m("a", atrium.RoleEditor)}, []atrium.GroupMapping{m("a", atrium.RoleEditor), m("b", atrium.RoleViewer)}},
		{[]atrium.GroupMapping{m("a", atrium.RoleViewer), m("a", atrium.RoleSupport)}, []atrium.GroupMapping{m("a", atrium.RoleSupport)}},
		{[]atrium.GroupMapping{m("a", atrium.RoleEditor), m("a", atrium.RoleAdmin)}, []atrium.GroupMapping{m("a", atrium.RoleAdmin)}},
		{[]atrium.GroupMapping{m("a", atrium.RoleViewer), m("", atrium.RoleOperator)}, []atrium.GroupMapping{m("", atrium.RoleOperator), m("a", atrium.RoleViewer)}},
		{[]atrium.GroupMapping{m("a", "of a later release"), m("b", atrium.RoleViewer)}, []atrium.GroupMapping{m("b", atrium.RoleViewer)}},
	} {
		if got := atrium.Memberships(slices.Clone(c.of)); !slices.Equal(got, c.want) {
			t.Errorf("of %v: %v, want %v", c.of, got, c.want)
		}
	}
}
