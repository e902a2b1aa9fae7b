package sso

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"

	"atrium"
)

// claims are those of an ID token or of the userinfo endpoint, by name.
type claims map[string]jsontext.Value

// person returns the person of an ID token. Claims that it lacks are those of the userinfo endpoint: providers
// may send groups only there.
func (p *Provider) person(ctx context.Context, m *metadata, id *oidc.IDToken, tokens *oauth2.Token) (atrium.Person, error) {
	var all claims
	if err := id.Claims(&all); err != nil {
		return atrium.Person{}, &Error{Invalid, fmt.Errorf("ID token: %w", err)}
	}
	if _, ok := all[p.config.GroupsClaim]; !ok && m.provider.UserInfoEndpoint() != "" {
		more, err := p.userInfo(ctx, m, id.Subject, tokens)
		if err != nil {
			return atrium.Person{}, &Error{reasonOf(err), fmt.Errorf("userinfo endpoint: %w", err)}
		}
		for name, value := range more {
			if _, ok := all[name]; !ok {
				all[name] = value
			}
		}
	}
	groups, err := all.groups(p.config.GroupsClaim)
	if err != nil {
		return atrium.Person{}, &Error{Invalid, fmt.Errorf("claim %q: %w", p.config.GroupsClaim, err)}
	}
	return atrium.Person{Issuer: p.config.Issuer, Subject: id.Subject, Name: all.name(id.Subject), Groups: groups}, nil
}

// userInfo returns the claims of the userinfo endpoint about a subject.
func (p *Provider) userInfo(ctx context.Context, m *metadata, subject string, tokens *oauth2.Token) (more claims, err error) {
	info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, err
	}
	if info.Subject != subject { // OpenID Connect Core, section 5.3.2
		return nil, errors.New("the claims are about another subject")
	}
	return more, info.Claims(&more)
}

// groups returns the groups in a claim: a list of texts, or one text. Without the claim, there are none. Groups
// that no mapping can name are left out.
func (c claims) groups(name string) (groups []string, err error) {
	value, ok := c[name]
	if !ok || value.Kind() == 'n' {
		return nil, nil
	}
	all := make([]string, 1)
	if value.Kind() == '"' {
		err = json.Unmarshal(value, &all[0])
	} else {
		err = json.Unmarshal(value, &all)
	}
	if err != nil {
		return nil, errors.New("it is not a list of texts")
	}
	if len(all) > atrium.MaxGroups {
		return nil, fmt.Errorf("it has %d groups, more than %d: let the provider send only those that have a role", len(all), atrium.MaxGroups)
	}
	for _, group := range all {
		if atrium.CheckText(group, 1, atrium.MaxGroup) == "" {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// name returns what to call a person.
func (c claims) name(subject string) string {
	for _, claim := range []string{"name", "preferred_username", "email"} {
		var text string
		if value, ok := c[claim]; ok && json.Unmarshal(value, &text) == nil {
			text = strings.TrimSpace(strings.Map(visible, strings.ToValidUTF8(text, "")))
			if runes := []rune(text); len(runes) > atrium.MaxName {
				text = strings.TrimSpace(string(runes[:atrium.MaxName]))
			}
			if text != "" {
				return text
			}
		}
	}
	return subject
}

// visible drops control characters.
func visible(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}
