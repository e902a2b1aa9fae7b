package cli

import (
	"fmt"
	"regexp"
	"strings"

	"atrium"
)

// An identifier describes the IDs of one kind of resource.
type identifier struct {
	name        string // name of the kind
	noun        string // name with its article
	prefix      string // prefix of the IDs; "" for numbers
	listCommand string // command that lists the resources
}

// flag returns the name of the flag for an ID of this kind.
func (i identifier) flag() string { return strings.ReplaceAll(i.name, " ", "-") }

// identifiers maps path parameters of the API to their kinds.
var identifiers = map[string]identifier{
	"account_id":     {"account", "an account", atrium.AccountID("").Prefix(), "accounts list"},
	"account_log_id": {"entry", "an entry", atrium.EntryID("").Prefix(), "entries list"},
	"audience_id":    {"audience", "an audience", atrium.AudienceID("").Prefix(), "audiences list --page page_…"},
	"brand_id":       {"brand", "a brand", atrium.BrandID("").Prefix(), "brands list"},
	"erasure_id":     {"erasure", "an erasure", atrium.ErasureID("").Prefix(), "erasures list"},
	"key_id":         {"key", "a key", atrium.KeyID("").Prefix(), "keys list"},
	"move_id":        {"move", "a move", atrium.MoveID("").Prefix(), "moves list"},
	"page_id":        {"page", "a page", atrium.PageID("").Prefix(), "pages list"},
	"preview_id":     {"preview", "a preview", atrium.PreviewID("").Prefix(), "previews list --page page_…"},
	"prospect_id":    {"prospect", "a prospect", atrium.ProspectID("").Prefix(), "prospects list"},
	"session_id":     {"session", "a session", atrium.SessionID("").Prefix(), "users sessions user_…"},
	"tenant_id":      {"tenant", "a tenant", atrium.TenantID("").Prefix(), "tenants list"},
	"mapping_id":     {"mapping", "a group mapping", atrium.GroupMappingID("").Prefix(), "group-mappings list"},
	"user_id":        {"user", "a user", atrium.UserID("").Prefix(), "users list"},
	"webhook_id":     {"webhook", "a webhook", atrium.WebhookID("").Prefix(), "webhooks list"},
	"event_id":       {"event", "an event", atrium.EventID("").Prefix(), "events list"},
	"receiver_id":    {"receiver", "a receiver", atrium.ReceiverID("").Prefix(), "receivers list"},
	"quarantined_id": {"delivery", "a delivery in quarantine", atrium.QuarantinedID("").Prefix(), "receivers quarantine receiver_…"},
	"replay_id":      {"replay", "a replay", atrium.ReplayID("").Prefix(), "webhooks replays webhook_…"},
	"version_number": {"version", "a version", "", "versions list --page page_… --audience audience_…"},
}

// orDomain returns what the usage of a flag adds for an ID of the kind.
func orDomain(kind string) string {
	if kind == "account_id" {
		return ", or its domain"
	}
	return ""
}

// checkID returns an error that names the command to list IDs, unless text has the form of an ID of
// the kind.
func checkID(kind, text string) error {
	i := identifiers[kind]
	if i.prefix == "" {
		if text != "" && strings.Trim(text, "0123456789") == "" {
			return nil
		}
		return usageError{fmt.Errorf("invalid %s number %q: run atrium %s to list them", i.name, text, i.listCommand)}
	}
	if suffix, ok := strings.CutPrefix(text, i.prefix); ok && atrium.IsSuffix(suffix) {
		return nil
	}
	hint := ""
	if kind == "account_log_id" && atrium.CheckText(text, 1, atrium.MaxIdempotencyKey) == "" {
		hint = ", or atrium entries list --idempotency-key " + shellQuote(text) + " if it is an idempotency key"
	}
	return usageError{fmt.Errorf("invalid %s ID %q: run atrium %s to list them%s", i.name, text, i.listCommand, hint)}
}

// patternOfID matches the fault of the API for a value that must be an ID.
var patternOfID = regexp.MustCompile(`^must match \^([a-z]+_)\[a-z0-9\]\{26\}\$$`)

// identifierFault rewords a fault about the pattern of an ID. It returns other faults as they are.
func identifierFault(detail string) string {
	m := patternOfID.FindStringSubmatch(detail)
	if m == nil {
		return detail
	}
	for _, i := range identifiers {
		if i.prefix == m[1] {
			return fmt.Sprintf("must be the ID of %s, such as %s…: run atrium %s to list them", i.noun, i.prefix, i.listCommand)
		}
	}
	return detail
}

// checkSubject returns the fault of a text that is neither an ID nor a domain, or "".
func checkSubject(text string) string {
	if i := strings.LastIndexByte(text, '_'); i > 0 && atrium.IsSuffix(text[i+1:]) || isSubjectDomain(text) {
		return ""
	}
	return "must be the ID of a resource, such as page_…, or the domain of an account"
}

// isSubjectDomain reports whether the subject of an audit record is named by the domain of an account.
func isSubjectDomain(text string) bool {
	return strings.Contains(text, ".") && atrium.CheckDomain(text) == ""
}
