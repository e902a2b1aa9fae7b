package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"atrium"
)

// maxLabel is the maximum length of oidc-label in code points.
const maxLabel = 60

// signInFaults returns the faults of the settings for the sign-in through an identity provider.
func (c *Config) signInFaults() (all []string) {
	check := func(ok bool, setting, rule string) {
		if !ok {
			all = append(all, setting+" "+rule)
		}
	}
	check(c.PublicURL == "" || isPublic(c.PublicURL), "public-url", "must be https:// and a host, without a path, or http:// and an address of this machine")
	if c.OIDCIssuer == "" {
		check(c.OIDCClientID == "" && c.OIDCClientSecretFile == "", "oidc-issuer", "must be set with oidc-client-id and oidc-client-secret-file")
		return all
	}
	u, err := url.Parse(c.OIDCIssuer)
	check(err == nil && atrium.CheckIssuer(c.OIDCIssuer) == "" && u.User == nil && (u.Scheme == "https" || onThisMachine(u)), "oidc-issuer",
		"must be an https URL without a query, or an http URL of this machine")
	check(c.OIDCClientID != "", "oidc-client-id", "must be set with oidc-issuer")
	check(c.OIDCClientSecretFile != "", "oidc-client-secret-file", "must be set with oidc-issuer")
	check(c.PublicURL != "", "public-url", "must be set with oidc-issuer: the identity provider sends browsers back to it")
	check(c.Console, "oidc-issuer", "needs the console")
	check(slices.Contains(strings.Fields(c.OIDCScopes), "openid"), "oidc-scopes", "must include openid")
	check(c.OIDCGroupsClaim != "", "oidc-groups-claim", "must not be empty")
	check(atrium.CheckText(c.OIDCLabel, 1, maxLabel) == "", "oidc-label", "must be 1 to 60 characters long")
	return all
}

// isPublic reports whether a text is the address of a server that browsers may use for secrets: with https, or on
// this machine.
func isPublic(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" && !strings.HasSuffix(text, "?") && !strings.HasSuffix(text, "#") &&
		(u.Scheme == "https" || u.Scheme == "http" && onThisMachine(u))
}

// onThisMachine reports whether the host of a URL is a loopback address or localhost.
func onThisMachine(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
