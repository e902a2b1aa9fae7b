package console

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/sso"
)

// A SingleSignOn signs people in through an identity provider.
type SingleSignOn struct {
	Provider *sso.Provider
	People   *auth.People
	Seal     *sso.Seal
	Label    string // of the button
	Public   string // public address of the server, without a slash at the end
	Log      *slog.Logger
	Count    func(result string) // counts sign-ins; may be nil
}

// Paths of a sign-in through the identity provider.
const (
	ssoPath    = loginPath + "/sso"
	tenantPath = loginPath + "/tenant"

	// CallbackPath is the path of the redirect URI.
	CallbackPath = loginPath + "/callback"
)

// The results of sign-ins, in addition to the texts of sso.Reason.
const (
	resultOK      = "ok"
	resultNoRole  = "no_role"
	resultLimited = "limited"
	resultError   = "error" // the service failed
)

// SSOResults returns all results of sign-ins.
func SSOResults() []string {
	return []string{resultOK, resultNoRole, resultLimited, resultError, string(sso.Denied), string(sso.Stale), string(sso.Invalid), string(sso.Unavailable)}
}

// The cookies of a sign-in in progress: of the flow, and of the choice of a tenant. Like that of a session, each
// has a prefix over TLS.
const (
	flowCookie   = "-flow"
	choiceCookie = "-choice"
)

// choiceLife is how long a person may take to choose a tenant. Until then, a person who has just lost a role can begin a session.
const choiceLife = 2 * time.Minute

// A choice is a person who must choose one of several tenants.
type choice struct {
	ID      string      `json:"i"` // it is used once
	Subject string      `json:"s"`
	Name    string      `json:"n"`
	Of      [][2]string `json:"m"` // tenant and mapping, without their prefixes: a cookie has at most 4 KiB
	Ends    atrium.Time `json:"e"`
}

// setSealed makes the browser keep a value for a sign-in, or forget it if v is nil.
func (c *Console) setSealed(w http.ResponseWriter, r *http.Request, kind string, life time.Duration, v any) error {
	cookie := &http.Cookie{
		Name: c.cookieName(r) + kind, Path: "/", HttpOnly: true, Secure: c.overTLS(r), MaxAge: int(life.Seconds()),
		SameSite: http.SameSiteLaxMode, // the provider's redirect comes from another site
	}
	if v == nil {
		cookie.MaxAge = -1
	} else {
		text, err := c.SSO.Seal.Close(kind, v)
		if err != nil {
			return err
		}
		cookie.Value = text
	}
	http.SetCookie(w, cookie)
	return nil
}

// sealed reads what setSealed has made the browser keep.
func (c *Console) sealed(r *http.Request, kind string, v any) bool {
	cookie, err := r.Cookie(c.cookieName(r) + kind)
	return err == nil && c.SSO.Seal.Open(kind, cookie.Value, v)
}

// withSSO returns a handler of a sign-in through the identity provider. Without a provider, it does not exist.
func (c *Console) withSSO(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return c.anyone(func(w http.ResponseWriter, r *http.Request) {
		var err error = atrium.NotFound()
		if c.SSO != nil {
			err = handle(w, r)
		}
		if err != nil {
			c.refuseSSO(w, r, err)
		}
	})
}

// startSSO sends the browser to the provider. It is a GET, because Chromium applies form-action to redirects.
func (c *Console) startSSO(w http.ResponseWriter, r *http.Request) error {
	flow, to, err := c.SSO.Provider.Begin(r.Context())
	if err != nil {
		return err
	}
	if err := c.setSealed(w, r, flowCookie, sso.FlowLife, flow); err != nil {
		return err
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// finishSSO is where the provider sends the browser back. A flow is finished once: the browser forgets it.
func (c *Console) finishSSO(w http.ResponseWriter, r *http.Request) error {
	x := rest.ExchangeOf(w)
	var flow sso.Flow
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" && mode != "navigate" || !c.sealed(r, flowCookie, &flow) || !flow.Matches(r.URL.Query()) {
		// Another site may make a browser load this address. That must not use up the attempts of its network, or end its sign-in.
		return &sso.Error{Reason: sso.Stale, Err: errors.New("the browser has not begun this sign-in, or does not navigate")}
	}
	if err := c.SSO.People.Attempt(x.Client); err != nil {
		return err
	}
	if err := c.setSealed(w, r, flowCookie, 0, nil); err != nil {
		return err
	}
	person, err := c.SSO.Provider.Finish(r.Context(), x.Client, flow, r.URL.Query())
	if e, ok := errors.AsType[*sso.Error](err); ok && e.Reason == sso.Unavailable && r.URL.Query().Get("error") == "" && r.Context().Err() == nil {
		c.SSO.People.Succeeded(x.Client) // the client has not caused it
	}
	if err != nil {
		return err
	}
	c.SSO.People.Succeeded(x.Client) // the provider knows the person
	memberships, err := c.SSO.People.Memberships(r.Context(), person, x.RequestID)
	switch {
	case err != nil:
		return err
	case len(memberships) == 0:
		return &noRole{person, "no group has a role"}
	case len(memberships) == 1:
		return c.signInAs(w, r, person, memberships[0])
	}
	chosen := choice{ID: rand.Text(), Subject: person.Subject, Name: person.Name, Ends: atrium.At(c.Sessions.Now().Add(choiceLife))}
	for _, m := range memberships {
		tenant := m.TenantID
		if tenant == "" {
			tenant = atrium.OperatorChain
		}
		chosen.Of = append(chosen.Of, [2]string{string(tenant[len(tenant.Prefix()):]), string(m.ID[len(m.ID.Prefix()):])})
	}
	if err := c.setSealed(w, r, choiceCookie, choiceLife, chosen); err != nil {
		return err
	}
	http.Redirect(w, r, tenantPath, http.StatusSeeOther)
	return nil
}

// signInAs begins a session with the role of a mapping.
func (c *Console) signInAs(w http.ResponseWriter, r *http.Request, person atrium.Person, m atrium.GroupMapping) error {
	token, session, err := c.SSO.People.SignIn(r.Context(), person, m, r.UserAgent(), rest.ExchangeOf(w).RequestID)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return &noRole{person, "the mapping was deleted"}
	}
	if err != nil {
		return err
	}
	c.countSSO(resultOK)
	return c.beginSession(w, r, token, session)
}

// A noRole is the error of a person without a mapped group.
type noRole struct {
	person atrium.Person
	why    string
}

func (e *noRole) Error() string { return e.why }

// A tenantChoice is the content of the page on which a person chooses a tenant.
type tenantChoice struct {
	Name    string
	Choices []membership
}

// A membership is a tenant to sign in to.
type membership struct {
	Key    string // of the form
	Tenant string // its name; "" for operators
	Role   atrium.Role
}

// openChoice returns the choice that the browser has, with the mappings that are still there.
func (c *Console) openChoice(r *http.Request) (chosen choice, person atrium.Person, found []atrium.GroupMapping, err error) {
	if !c.sealed(r, choiceCookie, &chosen) || chosen.Ends <= atrium.At(c.Sessions.Now()) {
		return chosen, person, nil, &sso.Error{Reason: sso.Stale, Err: errors.New("the browser has no choice of a tenant, or it has expired")}
	}
	person = atrium.Person{Issuer: c.SSO.Provider.Issuer(), Subject: chosen.Subject, Name: chosen.Name}
	for _, of := range chosen.Of {
		tenant, id := atrium.TenantID(atrium.TenantID("").Prefix()+of[0]), atrium.GroupMappingID(atrium.GroupMappingID("").Prefix()+of[1])
		m, err := c.SSO.People.Mapping(r.Context(), tenant, id)
		if atrium.CodeOf(err) == atrium.CodeNotFound {
			continue
		}
		if err != nil {
			return chosen, person, nil, err
		}
		found = append(found, m)
	}
	if len(found) == 0 {
		return chosen, person, nil, &noRole{person, "the mappings were deleted"}
	}
	return chosen, person, found, nil
}

// chooseTenant shows what a person may sign in to.
func (c *Console) chooseTenant(w http.ResponseWriter, r *http.Request) error {
	_, person, found, err := c.openChoice(r)
	if err != nil {
		return err
	}
	page := tenantChoice{Name: person.Name}
	for _, m := range found {
		shown := membership{Key: string(m.ID), Role: m.Role}
		if m.TenantID != "" {
			if shown.Tenant, err = c.SSO.People.TenantName(r.Context(), m.TenantID); err != nil {
				return err
			}
		}
		page.Choices = append(page.Choices, shown)
	}
	return render(w, http.StatusOK, "choose", frame{Title: "Choose a tenant", Content: page})
}

// signInToTenant signs in to the tenant that a person has chosen.
func (c *Console) signInToTenant(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := r.ParseForm(); err != nil {
		return formError(err)
	}
	chosen, person, found, err := c.openChoice(r)
	if err != nil {
		return err
	}
	for _, m := range found {
		if string(m.ID) == r.PostForm.Get("as") {
			err := c.SSO.People.UseOnce(r.Context(), chosen.ID, rest.ExchangeOf(w).RequestID)
			if atrium.CodeOf(err) == atrium.CodeConflict {
				err = &sso.Error{Reason: sso.Stale, Err: errors.New("this choice of a tenant was used before")}
			}
			if err != nil {
				return err
			}
			if err := c.setSealed(w, r, choiceCookie, 0, nil); err != nil {
				return err
			}
			return c.signInAs(w, r, person, m)
		}
	}
	return &sso.Error{Reason: sso.Stale, Err: errors.New("the chosen tenant is not one of the choice")}
}

func (c *Console) countSSO(result string) {
	if c.SSO.Count != nil {
		c.SSO.Count(result)
	}
}

// refuseByLimit shows an error of the service or of a limit.
func (c *Console) refuseByLimit(w http.ResponseWriter, r *http.Request, err error) {
	switch atrium.CodeOf(err) {
	case atrium.CodeRateLimited, atrium.CodeConflict:
		c.countSSO(resultLimited)
	case atrium.CodeInvalidRequest, atrium.CodePayloadTooLarge: // not a form of the console
	default:
		c.countSSO(resultError)
		c.SSO.Log.ErrorContext(r.Context(), "sign-in through the identity provider failed", "requestId", rest.ExchangeOf(w).RequestID, "error", err)
	}
	showError(w, err)
}

// advice says what to do about a failed sign-in.
var advice = map[sso.Reason]struct {
	status int
	text   string
}{
	sso.Denied:      {http.StatusForbidden, "The identity provider did not sign you in, or you canceled. Try again, or ask your administrator for access."},
	sso.Stale:       {http.StatusBadRequest, "This sign-in has expired, was finished before, or began in another browser. Begin again."},
	sso.Invalid:     {http.StatusBadGateway, "The response of the identity provider is not valid. Begin again. If this happens again, give your administrator the request ID below."},
	sso.Unavailable: {http.StatusServiceUnavailable, "The identity provider does not respond. Try again in a minute. A login link works in the meantime."},
}

// refuseSSO shows and logs why a sign-in failed. The log has no token and no code.
func (c *Console) refuseSSO(w http.ResponseWriter, r *http.Request, err error) {
	x := rest.ExchangeOf(w)
	if c.SSO == nil {
		showError(w, err)
		return
	}
	f := c.loginForm("", "")
	f.RequestID = x.RequestID
	status := http.StatusForbidden
	if e, ok := errors.AsType[*sso.Error](err); ok {
		status, f.Error = advice[e.Reason].status, advice[e.Reason].text
		c.countSSO(string(e.Reason))
		c.SSO.Log.WarnContext(r.Context(), "sign-in through the identity provider failed", "requestId", x.RequestID, "reason", string(e.Reason), "error", e)
	} else if e, ok := errors.AsType[*noRole](err); ok {
		f.Error = "None of your groups at the identity provider has a role here. Ask an administrator to add you to a group that has one."
		c.countSSO(resultNoRole)
		c.SSO.Log.WarnContext(r.Context(), "sign-in refused: "+e.why, "requestId", x.RequestID, "subject", atrium.Printable(e.person.Subject), "groups", len(e.person.Groups))
	} else {
		c.refuseByLimit(w, r, err)
		return
	}
	_ = render(w, status, "login", frame{Title: "Sign in", Content: f})
}
