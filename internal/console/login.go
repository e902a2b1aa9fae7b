package console

import (
	"errors"
	"net/http"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

const loginPath = prefix + "/login"

// The cookies of a session. Browsers accept the prefix __Host- only with Secure, which they may refuse
// without TLS.
const (
	secureCookie = "__Host-atrium"
	plainCookie  = "atrium"
)

// cookieName returns the name of the cookie for the connection of a browser. With TLS, only a cookie with
// the prefix counts: another host of the domain, or an attacker on a connection without TLS, could set any
// other one.
func (c *Console) cookieName(r *http.Request) string {
	if c.overTLS(r) {
		return secureCookie
	}
	return plainCookie
}

// sessionToken returns the token of the session that a browser sends; "" for none.
func (c *Console) sessionToken(r *http.Request) string {
	if cookie, err := r.Cookie(c.cookieName(r)); err == nil {
		return cookie.Value
	}
	return ""
}

// overTLS reports whether the browser uses TLS, maybe to a trusted proxy.
func (c *Console) overTLS(r *http.Request) bool {
	return r.TLS != nil || c.Limits.Proxies.Trust(limit.Address(r.RemoteAddr)) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// setCookie makes the browser send the token of a session until the session ends. Without a token, it makes
// the browser forget the one that it has.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, token string) {
	cookie := &http.Cookie{
		Name: c.cookieName(r), Value: token, Path: "/", HttpOnly: true, Secure: c.overTLS(r), SameSite: http.SameSiteLaxMode,
		MaxAge: int(atrium.SessionLife.Seconds()),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// maxLoginForm is the maximum size of the form of a login link, in bytes.
const maxLoginForm = 4 << 10

// A loginForm is the content of the sign-in page.
type loginForm struct {
	Token     string // of a login link; "" without one
	Error     string
	RequestID string // of the error; "" for none
	SSO       string // the label of the identity provider; "" for none
	SSOPath   string // begins a sign-in through it

	// Former is the user who is signed in with this browser, and whose session ends with the next sign-in; nil for none.
	Former       *atrium.User
	FormerTenant string // its name; "" for operators
}

// loginForm returns the content of the sign-in page.
func (c *Console) loginForm(token, problem string) loginForm {
	f := loginForm{Token: token, Error: problem}
	if c.SSO != nil {
		f.SSO, f.SSOPath = c.SSO.Label, c.SSO.Public+ssoPath
	}
	return f
}

// loginPage shows a button that uses the login link in the URL. It does not use the link itself: programs
// that check links in messages would.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	form := c.loginForm(r.URL.Query().Get("token"), "")
	if former := c.sessionToken(r); former != "" && form.Token != "" { // the link may be one of somebody else
		if session, user, err := c.Sessions.User(r.Context(), former); err == nil {
			form.Former, form.FormerTenant = &user, session.TenantName
		}
	}
	f := frame{Title: "Sign in", Done: done[r.URL.Query().Get("done")], Content: form}
	if err := render(w, http.StatusOK, "login", f); err != nil {
		showError(w, err)
	}
}

// login uses a login link.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := r.ParseForm(); err != nil {
		showError(w, formError(err))
		return
	}
	x := rest.ExchangeOf(w)
	token, session, err := c.Sessions.SignIn(r.Context(), x.Client, r.PostForm.Get("token"), r.UserAgent(), x.RequestID)
	switch {
	case atrium.CodeOf(err) == atrium.CodeUnauthenticated:
		e, _ := asError(err)
		_ = render(w, http.StatusUnauthorized, "login", frame{Title: "Sign in", Content: c.loginForm("", e.Detail)})
		return
	case err != nil:
		showError(w, err)
		return
	}
	if err := c.beginSession(w, r, token, session); err != nil {
		showError(w, err)
	}
}

// beginSession makes the browser use a new session, and ends the one that it has: one browser has one session.
func (c *Console) beginSession(w http.ResponseWriter, r *http.Request, token string, session atrium.Session) error {
	x := rest.ExchangeOf(w)
	x.TenantID, x.UserID = session.TenantID, session.UserID
	if former := c.sessionToken(r); former != "" {
		if err := c.Sessions.SignOut(r.Context(), former, x.RequestID); err != nil {
			return err
		}
	}
	c.setCookie(w, r, token)
	c.visitors.remember(token)
	http.Redirect(w, r, prefix, http.StatusSeeOther)
	return nil
}

// Paths of a sign-out.
const (
	logoutPath = prefix + "/logout"

	// SignedOutPath is the path and query at which a sign-out ends: of the post-logout redirect URI.
	SignedOutPath = loginPath + "?done=signedout"
)

// logout ends the session on every node. Browsers of people who signed in through the identity provider continue
// there.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	to := SignedOutPath
	if token := c.sessionToken(r); token != "" {
		_, u, err := c.Sessions.User(r.Context(), token)
		if err == nil {
			err = c.Sessions.SignOut(r.Context(), token, rest.ExchangeOf(w).RequestID)
		}
		if err != nil && atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			showError(w, err)
			return
		}
		if c.SSO != nil && u.Issuer == c.SSO.Provider.Issuer() {
			to = logoutPath
		}
	}
	c.setCookie(w, r, "")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// logoutPage makes the browser continue at the identity provider, which ends its session there, if the provider has
// an address for that. The header Refresh is a new navigation: Chromium applies form-action to the redirects of a
// form, so that of the sign-out could not lead there.
func (c *Console) logoutPage(w http.ResponseWriter, r *http.Request) {
	to := ""
	if c.SSO != nil {
		var err error
		if to, err = c.SSO.Provider.EndSession(r.Context(), c.SSO.Public+SignedOutPath); err != nil { // the session here has ended
			c.SSO.Log.WarnContext(r.Context(), "the identity provider does not respond to a sign-out", "requestId", rest.ExchangeOf(w).RequestID, "error", err)
		}
	}
	if to == "" {
		http.Redirect(w, r, SignedOutPath, http.StatusSeeOther)
		return
	}
	w.Header().Set("Refresh", "0; url="+to)
	if err := render(w, http.StatusOK, "logout", frame{Title: "Sign out", Content: logoutForm{c.SSO.Label, to}}); err != nil {
		showError(w, err)
	}
}

// A logoutForm is the content of the page between a sign-out and the identity provider.
type logoutForm struct {
	SSO string // the label of the provider
	To  string // its address for a sign-out
}

// asError returns the error of the API in err.
func asError(err error) (*atrium.Error, bool) { return errors.AsType[*atrium.Error](err) }
