package cli

import (
	"fmt"
	"strings"

	"atrium"
)

// An identifier is a kind of thing, as the command line speaks of it.
type identifier struct {
	name   string // of the thing
	noun   string // the name with its article
	prefix string // of what identifies one; "" if that is a number
	lister string // the command that shows them
}

// flag returns the flag that names one.
func (i identifier) flag() string { return strings.ReplaceAll(i.name, " ", "-") }

// identifiers are the kinds, by the parameter that the paths of the API have for them.
var identifiers = map[string]identifier{
	"account_id":     {"account", "an account", atrium.AccountID("").Prefix(), "accounts list"},
	"account_log_id": {"entry", "an entry", atrium.EntryID("").Prefix(), "accounts activity"},
	"audience_id":    {"audience", "an audience", atrium.AudienceID("").Prefix(), "audiences list"},
	"brand_id":       {"brand", "a brand", atrium.BrandID("").Prefix(), "brands list"},
	"key_id":         {"key", "a key", atrium.KeyID("").Prefix(), "keys list"},
	"move_id":        {"move", "a move", atrium.MoveID("").Prefix(), "moves list"},
	"page_id":        {"page", "a page", atrium.PageID("").Prefix(), "pages list"},
	"prospect_id":    {"prospect", "a prospect", atrium.ProspectID("").Prefix(), "prospects list"},
	"tenant_id":      {"tenant", "a tenant", atrium.TenantID("").Prefix(), "tenants list"},
	"version_number": {"version", "a version", "", "versions list"},
}

// checkID says whether text has the form of an identifier of the kind, and where to
// find one if not.
func checkID(kind, text string) error {
	i := identifiers[kind]
	if i.prefix == "" {
		if text != "" && strings.Trim(text, "0123456789") == "" {
			return nil
		}
		return usageError{fmt.Errorf("invalid %s number %q: run atrium %s to list them", i.name, text, i.lister)}
	}
	if suffix, ok := strings.CutPrefix(text, i.prefix); ok && atrium.IsSuffix(suffix) {
		return nil
	}
	return usageError{fmt.Errorf("invalid %s ID %q: run atrium %s to list them", i.name, text, i.lister)}
}
