package manage

import (
	"cmp"
	"context"
	"slices"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

type overview struct {
	Unattributed unattributedCount `json:"unattributed"`
	Schedules    []dueSchedule     `json:"schedules"`
	ExpiringKeys []expiringKey     `json:"expiringKeys"`
}

type unattributedCount struct {
	Count   int64 `json:"count"`
	HasMore bool  `json:"hasMore"`
}

type dueSchedule struct {
	PageID atrium.PageID `json:"pageId"`
	Name   string        `json:"name"`
	Action string        `json:"action"`
	DueAt  atrium.Time   `json:"dueAt"`
}

type expiringKey struct {
	KeyID     atrium.KeyID `json:"keyId"`
	Name      string       `json:"name"`
	ExpiresAt atrium.Time  `json:"expiresAt"`
}

func (a *API) getOverview(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	unattributed, err := a.Store.CountUnattributed(ctx, who.TenantID)
	if err != nil {
		return rest.Response{}, err
	}
	schedules, err := a.Store.NextSchedules(ctx, who.TenantID, maxOverviewItems)
	if err != nil {
		return rest.Response{}, err
	}
	keys, err := a.expiringKeys(ctx, who.TenantID)
	if err != nil {
		return rest.Response{}, err
	}
	o := overview{unattributedCount(unattributed), make([]dueSchedule, len(schedules)), make([]expiringKey, len(keys))}
	for i, s := range schedules {
		o.Schedules[i] = dueSchedule(s)
	}
	for i, k := range keys {
		o.ExpiringKeys[i] = expiringKey{k.ID, k.Name, *k.ExpiresAt}
	}
	return rest.Response{Body: o}, nil
}

// maxOverviewItems is the maximum number of items in a list of an overview.
const maxOverviewItems = 10

// expiringKeys returns the keys that expire first, of those that expire soon, among the newest.
func (a *API) expiringKeys(ctx context.Context, tenant atrium.TenantID) ([]atrium.APIKey, error) {
	now := atrium.At(a.Store.Now())
	until := atrium.At(a.Store.Now().Add(atrium.ExpiringSoon))
	found, _, err := a.Store.Keys(ctx, tenant, func(k atrium.APIKey) bool {
		return keyActive.matches(&k, now) && k.ExpiresAt != nil && *k.ExpiresAt < until
	}, nil, maxExpiringKeys)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b atrium.APIKey) int { return cmp.Compare(*a.ExpiresAt, *b.ExpiresAt) })
	return found[:min(len(found), maxOverviewItems)], nil
}

// maxExpiringKeys is the number of expiring keys that are compared: as many as one call examines.
const maxExpiringKeys = 1000
