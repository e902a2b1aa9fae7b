package manage

import (
	"context"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// defaultMostActiveDays is the length of the default range of the most active accounts.
const defaultMostActiveDays = 7

// countedAccountBytes is about how much memory an account takes while its entries are counted.
const countedAccountBytes = 128

// A countedAccount is an account with its number of entries.
type countedAccount struct {
	AccountID atrium.AccountID `json:"accountId"`
	Domain    string           `json:"domain"`
	Name      *string          `json:"name"`
	Entries   int64            `json:"entries"`
}

type mostActive struct {
	Since        atrium.Time      `json:"since"`
	CountedSince atrium.Time      `json:"countedSince"`
	Entries      int64            `json:"entries"`
	Items        []countedAccount `json:"items"`
}

func newMostActive(since atrium.Time, found atrium.MostActive) mostActive {
	all := mostActive{since, found.CountedSince, found.Entries, []countedAccount{}}
	for _, a := range found.Accounts {
		shown := newAccountItem(a.Account)
		all.Items = append(all.Items, countedAccount{shown.AccountID, shown.Domain, shown.Name, a.Entries})
	}
	return all
}

func (a *API) listMostActive(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	wanted := atrium.MostActiveQuery{MaxAccounts: q.Limit(), MaxEntries: atrium.MaxMostActiveEntries, Since: sinceParameter(q, a.Store.Now())}
	wanted.Source, _ = q.Text("source")
	wanted.Type, _ = q.Text("type")
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	ctx, cancel := r.UntilClosed(ctx) // it may read for long
	defer cancel()
	hold, release := r.HoldMemory()
	defer release()
	var found atrium.MostActive
	err := r.HeavilyPausing(ctx, func(pause func() error) (err error) {
		found, err = a.Store.MostActiveAccounts(ctx, who.TenantID, wanted, func(accounts int) error {
			if err := hold(int64(accounts) * countedAccountBytes); err != nil {
				return err
			}
			if err := pause(); err != nil {
				return err
			}
			return r.Recheck(ctx)
		})
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Body: newMostActive(wanted.Since, found)}, nil
}

// sinceParameter decodes the start of the range of the most active accounts.
func sinceParameter(q *rest.Query, now time.Time) atrium.Time {
	const day = 24 * time.Hour
	since := q.Time("since")
	switch {
	case since == nil:
		return atrium.At(now.Add(-defaultMostActiveDays * day))
	case *since > atrium.At(now):
		q.Fault("since", "must not be in the future")
	case *since < atrium.At(now.Add(-atrium.MaxMostActiveDays*day)):
		q.Fault("since", fmt.Sprintf("must be at most %d days ago", atrium.MaxMostActiveDays))
	}
	return *since
}
