package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A person is a user as the API shows it.
type person struct {
	UserID    atrium.UserID `json:"userId"`
	Name      string        `json:"name"`
	Role      atrium.Role   `json:"role"`
	Issuer    string        `json:"issuer"`
	Subject   string        `json:"subject"`
	CreatedAt string        `json:"createdAt"`
}

// Title returns the name.
func (p person) Title() string { return p.Name }

// A role is a role that the user can give.
type role struct {
	Name   atrium.Role
	Allows string
}

// roles returns the roles that the user can give.
func (r *request) roles() (roles []role) {
	allows := map[atrium.Role]string{
		atrium.RoleViewer: "reads all except receivers, webhooks and privacy", atrium.RoleSupport: "as viewer; also changes, merges and erases accounts, changes prospects, moves entries",
		atrium.RoleEditor: "as viewer; also changes pages and audiences", atrium.RoleAdmin: "does everything in this tenant",
	}
	for _, name := range atrium.TenantRoles() {
		if r.user.Role.Scopes().MayGrant(name.Scopes()) {
			roles = append(roles, role{name, allows[name]})
		}
	}
	return roles
}

// Provider returns how a person signs in.
func (p person) Provider() string {
	if p.Issuer == "" {
		return "login links"
	}
	return p.Issuer
}

// A groupMapping is a group of the identity provider as the API shows it.
type groupMapping struct {
	MappingID atrium.GroupMappingID `json:"mappingId"`
	Issuer    string                `json:"issuer"`
	Group     string                `json:"group"`
	Role      atrium.Role           `json:"role"`
}

type peoplePage struct {
	People list[person]
	Roles  []role
	Groups []groupMapping // all: a tenant has at most atrium.MaxGroupMappings
	Issuer string         // of the identity provider of the server; "" for none
	Label  string         // of that provider
}

func (c *Console) listPeople(r *request) error {
	p := peoplePage{Roles: r.roles()}
	var err error
	if p.People, err = readList[person](r, "/users"); err != nil {
		return err
	}
	if c.SSO != nil {
		p.Issuer, p.Label = c.SSO.Provider.Issuer(), c.SSO.Label
	}
	var found list[groupMapping]
	if _, err := r.get(&found, "/group_mappings", url.Values{"limit": {strconv.Itoa(atrium.MaxGroupMappings)}}); err != nil {
		return err
	}
	p.Groups = found.Items
	return r.show("people", "people", "Users", p)
}

// mapGroup gives the members of a group of the identity provider a role.
func (c *Console) mapGroup(r *request) error {
	if c.SSO == nil {
		return atrium.Errorf(atrium.CodeConflict, "This server has no identity provider.")
	}
	mapping := map[string]any{"issuer": c.SSO.Provider.Issuer(), "group": r.form("group"), "role": r.form("role")}
	if _, err := r.call(call{method: http.MethodPost, path: "/group_mappings", body: mapping}); err != nil {
		return err
	}
	return r.redirect(r.path("people"), "mapped", r.form("group"))
}

// unmapGroup takes the role of a group away.
func (c *Console) unmapGroup(r *request) error {
	if _, err := r.call(call{method: http.MethodDelete, path: "/group_mappings/" + url.PathEscape(r.http.PathValue("mapping_id"))}); err != nil {
		return err
	}
	return r.redirect(r.path("people"), "unmapped")
}

func (c *Console) createPerson(r *request) error {
	a, err := r.call(call{method: http.MethodPost, path: "/users", body: map[string]any{"name": r.form("name"), "role": r.form("role")}})
	if err != nil {
		return err
	}
	var made person
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.redirect(r.path("people", string(made.UserID)), "newperson")
}

type personPage struct {
	Person   person
	Tag      string // what the user has seen
	Roles    []role
	Sessions []session
	Link     string // a new login link; "" for none
	Self     bool
	New      bool // and without a way to sign in
}

// A session is a session as the API shows it.
type session struct {
	SessionID atrium.SessionID `json:"sessionId"`
	Browser   string           `json:"browser"`
	CreatedAt string           `json:"createdAt"`
	UsedAt    string           `json:"usedAt"`
	ExpiresAt string           `json:"expiresAt"`
	Own       bool             `json:"-"` // of this browser
}

func (c *Console) showPerson(r *request) error { return r.showPerson("") }

func (r *request) showPerson(loginLink string) error {
	p := personPage{Roles: r.roles(), Link: loginLink}
	path := "/users/" + url.PathEscape(r.http.PathValue("user_id"))
	var err error
	if p.Tag, err = r.get(&p.Person, path, nil); err != nil {
		return err
	}
	var found list[session]
	if _, err := r.get(&found, path+"/sessions", nil); err != nil {
		return err
	}
	p.Sessions, p.Self = found.Items, p.Person.UserID == r.user.ID
	p.New = r.query("done") == "newperson" && len(p.Sessions) == 0
	for i := range p.Sessions {
		p.Sessions[i].Own = p.Sessions[i].SessionID == r.session.ID
	}
	return r.show("person", "people", p.Person.Name, p)
}

// changePerson does one of the things that the page of a user has a button for.
func (c *Console) changePerson(r *request) error {
	id := r.http.PathValue("user_id")
	path, back := "/users/"+url.PathEscape(id), r.path("people", id)
	switch r.http.PathValue("action") {
	case "role":
		_, err := r.call(call{method: http.MethodPatch, path: path, ifMatch: r.form("tag"), body: map[string]any{"role": r.form("role")}})
		if err != nil {
			return err
		}
		return r.redirect(back, "role")
	case "link":
		return r.createLink(path)
	case "signout":
		if _, err := r.call(call{method: http.MethodPost, path: path + "/sign_out"}); err != nil {
			return err
		}
		return r.redirect(back, "userout")
	case "end":
		if _, err := r.call(call{method: http.MethodDelete, path: path + "/sessions/" + url.PathEscape(r.form("session"))}); err != nil {
			return err
		}
		return r.redirect(back, "ended")
	case "remove":
		return remove[person](r, path, r.path("people"), "removed")
	}
	return atrium.NotFound()
}

// createLink shows a new login link in its response, because it can be shown only once.
func (r *request) createLink(path string) error {
	a, err := r.once(call{method: http.MethodPost, path: path + "/login_link"})
	if err != nil {
		return err
	}
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(a.body, &made); err != nil {
		return fmt.Errorf("decode the login link: %w", err)
	}
	return r.showPerson(r.server() + loginPath + "?token=" + made.Token)
}
