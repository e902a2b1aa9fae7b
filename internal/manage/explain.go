package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/rest"
)

// An explanation says how an entry got to its account.
type explanation struct {
	AccountLogID    atrium.EntryID   `json:"accountLogId"`
	AccountID       atrium.AccountID `json:"accountId"`
	Deleted         bool             `json:"deleted,omitzero"`
	CanonicalDomain string           `json:"canonicalDomain,omitzero"`
	origin
	Steps []string `json:"steps"`
}

func (a *API) explainAccountLog(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.EntryID](r, "account_log_id")
	if err != nil {
		return rest.Response{}, err
	}
	e, err := a.Store.TimelineEntry(ctx, who.TenantID, id)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return a.explainDeleted(ctx, who.TenantID, id)
	}
	if err != nil {
		return rest.Response{}, err
	}
	x := explanation{AccountLogID: e.ID, AccountID: e.AccountID, origin: newOrigin(e.Origin)}
	legacy := ""
	if e.Claim.Domain != "" {
		x.CanonicalDomain, legacy = canonical.DomainForms(e.Claim.Domain)
	}
	made, err := a.chosenSince(ctx, &e)
	if err != nil {
		return rest.Response{}, err
	}
	x.Steps = explain(&e, x.CanonicalDomain, legacy, made)
	return rest.Response{Body: x}, nil
}

// explainDeleted explains an entry by its tombstone.
func (a *API) explainDeleted(ctx context.Context, tenant atrium.TenantID, id atrium.EntryID) (rest.Response, error) {
	t, err := a.Store.Tombstone(ctx, tenant, id)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Body: explanation{AccountLogID: t.EntryID, AccountID: t.AccountID, Deleted: true, Steps: explainTombstone(&t)}}, nil
}

// explainTombstone says in sentences what is left of an entry.
func explainTombstone(t *atrium.Tombstone) []string {
	steps := []string{
		fmt.Sprintf("The entry was deleted. It was recorded at %s, with the source %s and the type %s, in %s.", t.CreatedAt, quote(t.Source), quote(t.Type), t.AccountID),
		"Its content, and which rule chose the account, are no longer stored.",
	}
	if t.ExpiresAt != nil {
		steps = append(steps, fmt.Sprintf("A retention rule deleted it. Its tombstone may be deleted after %s.", t.ExpiresAt))
	}
	if t.KeyHMAC != nil {
		steps = append(steps, "If the request is sent again, no entry is stored, and the response is the original one.")
	}
	return steps
}

// chosenSince returns when the account that the domain of an entry chose was created; 0 if that is unknown,
// because the account was merged or erased since, or if another rule chose it.
func (a *API) chosenSince(ctx context.Context, e *atrium.TimelineEntry) (atrium.Time, error) {
	if e.Rule != atrium.RuleDomain {
		return 0, nil
	}
	chosen := cmp.Or(e.AcknowledgedID, e.AccountID)
	account, _, err := a.Store.Account(ctx, e.TenantID, chosen)
	switch {
	case atrium.CodeOf(err) == atrium.CodeNotFound:
		return 0, nil
	case err != nil && !errors.Is(err, atrium.ErrPartial): // only its prospects are partial
		return 0, err
	case account.ID != chosen:
		return 0, nil
	}
	return account.CreatedAt, nil
}

// explain says in sentences what the rule saw and chose, and what has happened to the entry since.
// domain and legacy are the forms of the claimed domain. made is when the account that the domain chose was
// created, 0 if that is unknown.
func explain(e *atrium.TimelineEntry, domain, legacy string, made atrium.Time) (steps []string) {
	say := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }
	chosen := cmp.Or(e.AcknowledgedID, e.AccountID)
	if receiver, ok := atrium.ParseID[atrium.ReceiverID](e.SubmittedBy); ok {
		say("%s made the entry: accountId, domain and name are what the expressions of its mapping returned.", receiver)
	}
	switch e.Rule {
	case atrium.RuleAccountID:
		say("The entry names %s by accountId, which takes precedence over domain and name.", e.Claim.AccountID)
		if chosen == e.Claim.AccountID {
			say("Rule 1 (accountId) chose that account.")
		} else {
			say("Rule 1 (accountId) chose %s, into which that account was merged.", chosen)
		}
	case atrium.RuleDomain:
		if e.Claim.Domain == domain {
			say("The entry has no accountId. Its domain is %s.", quote(domain))
		} else {
			say("The entry has no accountId. Its domain %s is %s in canonical form.", quote(e.Claim.Domain), quote(domain))
		}
		if legacy != "" {
			say("Earlier releases stored that domain as %s. The oldest account with either form gets the entry.", quote(legacy))
		}
		switch {
		case made == 0 || made > e.CreatedAt:
			say("Rule 2 (domain): the entry went to the account of that domain, %s. If there was none, the entry created it.", chosen)
		case made == e.CreatedAt: // by this entry, or another one in the same commit
			say("Rule 2 (domain): the entry went to the account of that domain, %s, which was created together with the entry.", chosen)
		default:
			say("Rule 2 (domain): the entry went to the account of that domain, %s, which already existed.", chosen)
		}
	case atrium.RuleName:
		say("The entry names no accountId and no domain. Exactly one account had the name %s, ignoring case.", quote(e.Claim.Name))
		say("Rule 3 (name) chose that account: %s.", chosen)
	case atrium.RuleUnattributed:
		if e.Claim.Name == "" {
			say("The entry names no accountId, no domain and no name.")
		} else {
			say("The entry names no accountId and no domain. No account, or more than one, had the name %s, ignoring case.", quote(e.Claim.Name))
		}
		say("Rule 4 chose the unattributed account: %s.", chosen)
	default:
		if e.SubmittedBy == atrium.ActorImport {
			say("The entry was imported into its account. No rule was applied.")
		} else {
			say("The entry was stored by a release that did not record the rule.")
		}
	}
	switch {
	case e.MoveID != "":
		say("An operator moved the entry later. The latest move is %s. The entry now belongs to %s.", e.MoveID, e.AccountID)
	case chosen != e.AccountID:
		say("The entry now belongs to %s, because accounts were merged or split since.", e.AccountID)
	}
	return steps
}

// maxQuoted is the maximum number of bytes of a claim that a sentence quotes.
const maxQuoted = 200

// quote quotes the beginning of a text that a sender chose. It escapes control characters.
func quote(text string) string {
	if begin := canonical.Truncate(text, maxQuoted); begin != text {
		text = begin + "…"
	}
	return strconv.Quote(text)
}
