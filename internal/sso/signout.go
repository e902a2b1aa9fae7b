package sso

import "context"

// EndSession returns the URL of the provider at which a browser ends its session there and then continues at back
// (OpenID Connect RP-Initiated Logout 1.0, section 2), or "" if the provider has none. back must be registered at
// the provider as a post-logout redirect URI. The URL names the client instead of an ID token: no token is kept, and
// the provider may ask the person whether to sign out. It returns an Error.
func (p *Provider) EndSession(ctx context.Context, back string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	m, err := p.discover(ctx)
	if err != nil {
		return "", &Error{Unavailable, err}
	}
	if m.endSession == nil {
		return "", nil
	}
	to := *m.endSession
	query := to.Query() // an endpoint may have parameters
	query.Set("client_id", p.config.ClientID)
	query.Set("post_logout_redirect_uri", back)
	to.RawQuery = query.Encode()
	return to.String(), nil
}
