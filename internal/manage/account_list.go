package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/rest"
)

// An accountItem is an account as lists show it.
type accountItem struct {
	AccountID        atrium.AccountID `json:"accountId"`
	TenantID         atrium.TenantID  `json:"tenantId"`
	Domain           string           `json:"domain"`
	Name             *string          `json:"name"`
	CreatedAt        atrium.Time      `json:"createdAt"`
	UpdatedAt        atrium.Time      `json:"updatedAt"`
	LatestActivityAt *atrium.Time     `json:"latestActivityAt"`
}

func newAccountItem(a atrium.Account) accountItem {
	item := accountItem{a.ID, a.TenantID, a.Domain, nil, a.CreatedAt, a.UpdatedAt, a.LatestActivityAt}
	if a.Name != "" {
		item.Name = &a.Name
	}
	return item
}

// accountOrders are the values of the parameter order.
var accountOrders = map[string]atrium.AccountOrder{
	"newest": atrium.AccountsNewest, "activity": atrium.AccountsActivity, "name": atrium.AccountsName,
}

func (a *API) listAccounts(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	f, order, binding := accountFilter(q)
	binding = append([]string{string(who.TenantID), "accounts"}, binding...)
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Accounts(ctx, who.TenantID, f, order, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newAccountItem, binding), nil
}

// accountFilter decodes the parameters that filter and order the list. binding is their
// values as given, which cursors are bound to.
func accountFilter(q *rest.Query) (f atrium.AccountFilter, order atrium.AccountOrder, binding []string) {
	ids, listed := idsParameter[atrium.AccountID](q, "accountIds")
	domain := textParameter(q, "domain", atrium.CheckDomain)
	prefix := textParameter(q, "namePrefix", checkName)
	words, text := wordsParameter(q)
	since, _ := q.Text("activeSince")
	by, _ := q.Text("order")
	f.IDs, f.Domain, f.NamePrefix, f.Words = ids, domain, prefix, words
	if since != "" {
		at, err := atrium.ParseTime(since)
		if err != nil {
			q.Fault("activeSince", err.Error())
		}
		f.ActiveSince = &at
	}
	order, known := accountOrders[by]
	switch {
	case known:
	case by != "":
		q.Fault("order", "must be newest, activity or name")
	case prefix != "":
		order = atrium.AccountsName
	case len(words) > 0:
		order = atrium.AccountsWord
	default:
		order = atrium.AccountsNewest
	}
	return f, order, []string{string(order), domain, prefix, text, since, listed}
}

// maxQuery is the maximum length of the parameter q, in code points.
const maxQuery = 255

// wordsParameter decodes the parameter q into search words. given is its value.
func wordsParameter(q *rest.Query) (words []string, given string) {
	given = textParameter(q, "q", func(text string) string {
		if fault := atrium.CheckText(text, 1, maxQuery); fault != "" {
			return fault
		}
		if words = canonical.QueryWords(text); len(words) == 0 {
			return "must have a letter or a digit"
		}
		return ""
	})
	return words, given
}
