package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
)

// This file lets commands name an account by a domain instead of its ID.

// isDomain reports whether a value names an account by a domain.
func isDomain(kind, text string) bool {
	return kind == "account_id" && atrium.CheckDomain(text) == "" && !strings.HasPrefix(text, identifiers[kind].prefix)
}

// arguments are the values on the command line of an operation.
type arguments struct {
	path   map[string]string // path parameters
	params []jsontext.Value  // by index in operation.params; nil for none
}

// resolve replaces domains with the IDs of their accounts. It returns the first argument, with its ID
// if it is the domain of that account itself and not of one merged into it.
func (a *arguments) resolve(ctx context.Context, c *client, o *operation, first string) (string, error) {
	path := maps.Clone(a.path)
	for kind, value := range a.path {
		if !isDomain(kind, value) {
			continue
		}
		found, err := findAccount(ctx, c, value)
		if err != nil {
			return first, err
		}
		if path[kind] = found.AccountID; value == first && isFormOf(found.Domain, value) {
			first = found.AccountID
		}
	}
	a.path = path
	for i := range o.params {
		p := &o.params[i]
		if p.names == "" && !p.subject || a.params[i] == nil {
			continue
		}
		value, err := queryText(a.params[i])
		if err != nil || !isDomain(p.names, value) && (!p.subject || !isSubjectDomain(value)) {
			continue // the API reports it
		}
		var found foundAccount
		if p.merged {
			found, err = findMerged(ctx, c, a.path[p.names], value)
		} else {
			found, err = findAccount(ctx, c, value)
		}
		if err != nil {
			return first, err
		}
		if a.params[i], err = json.Marshal(found.AccountID); err != nil {
			return first, err
		}
	}
	return first, nil
}

// A foundAccount is an account in a response.
type foundAccount struct {
	AccountID string `json:"accountId"`
	Domain    string `json:"domain"`
}

// findAccount returns the account that a domain in any spelling leads to. It may be a domain of an
// account that was merged into it.
func findAccount(ctx context.Context, c *client, domain string) (foundAccount, error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: "/accounts", query: url.Values{"domain": {domain}, "limit": {"1"}}})
	if err != nil {
		return foundAccount{}, fmt.Errorf("find account with domain %q: %w", domain, err)
	}
	var list struct {
		Items []foundAccount `json:"items"`
	}
	if err := json.Unmarshal(response.body, &list, lenientJSON); err != nil {
		return foundAccount{}, fmt.Errorf("read response: %w", err)
	}
	if len(list.Items) != 1 || checkID("account_id", list.Items[0].AccountID) != nil {
		return foundAccount{}, errNoAccount(domain)
	}
	return list.Items[0], nil
}

// findMerged returns the account with a domain in any spelling that was merged into an account.
func findMerged(ctx context.Context, c *client, account, domain string) (foundAccount, error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: "/accounts/" + url.PathEscape(account)})
	if err != nil {
		return foundAccount{}, err
	}
	var found struct {
		Merged []foundAccount `json:"merged"`
	}
	if err := json.Unmarshal(response.body, &found, lenientJSON); err != nil {
		return foundAccount{}, fmt.Errorf("read account: %w", err)
	}
	i := slices.IndexFunc(found.Merged, func(m foundAccount) bool { return isFormOf(m.Domain, domain) })
	if i < 0 {
		return foundAccount{}, fmt.Errorf("no account with domain %q was merged into %s: run atrium accounts get %s to list them", domain, account, account)
	}
	return found.Merged[i], nil
}

// isFormOf reports whether a stored domain is a form of a domain in any spelling.
func isFormOf(stored, domain string) bool {
	current, legacy := canonical.DomainForms(domain)
	return stored == current || stored == legacy && legacy != ""
}

func errNoAccount(domain string) error {
	if strings.Contains(domain, ".") {
		return fmt.Errorf("no account has the domain %q: run atrium accounts list to list accounts", domain)
	}
	return fmt.Errorf("no account has the domain %q: run atrium accounts list --search %s to find it by name", domain,
		shellQuote(domain))
}
