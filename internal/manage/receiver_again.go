package manage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/mapping"
	"atrium/internal/receive"
	"atrium/internal/rest"
	"atrium/internal/store"
	"atrium/internal/strictjson"
)

// Limits of one request that maps deliveries again. Whatever it reaches first, it ends after the delivery that it works on.
const (
	maxMappedAgain     = 200
	defaultMappedAgain = 100
	maxEntriesAgain    = 1000
	maxTimeAgain       = 5 * time.Second
	maxFaultsAgain     = 20 // that are listed
)

type quarantineFault struct {
	QuarantinedID atrium.QuarantinedID `json:"quarantinedId"`
	Fault         string               `json:"fault"`
}

// mappedAgain is what became of deliveries in quarantine.
type mappedAgain struct {
	Mapped      int               `json:"mapped"`
	AccountLogs int               `json:"accountLogs"`
	Replayed    int               `json:"replayed"`
	Filtered    int               `json:"filtered"`
	Failed      int               `json:"failed"`
	Faults      []quarantineFault `json:"faults"`
	Left        int64             `json:"left"`
	NextCursor  string            `json:"nextCursor,omitzero"`
}

// A mapper maps deliveries of a receiver again.
type mapper struct {
	*API
	r        *rest.Request
	change   atrium.Change
	receiver atrium.Receiver
	deadline time.Time
	hold     func(bytes int64) error // memory
	read     int64                   // bytes of the deliveries that were read together
	mappedAgain
}

// newMapper returns a mapper of the receiver of the path. It returns Conflict if the mapping does not compile. Call release at the
// end, also after an error.
func (a *API) newMapper(ctx context.Context, who auth.Principal, r *rest.Request, c atrium.Change) (m *mapper, release func(), err error) {
	found, err := a.findReceiver(ctx, who, r)
	if err != nil {
		return nil, func() {}, err
	}
	m = &mapper{API: a, r: r, change: c, receiver: found, deadline: time.Now().Add(maxTimeAgain), mappedAgain: mappedAgain{Faults: []quarantineFault{}}}
	m.hold, release = r.HoldMemory()
	return m, release, r.Heavily(ctx, func() (err error) {
		_, err = m.compiled()
		return err
	})
}

// compiled returns the compiled mapping of the receiver. It is not kept between two deliveries, so that requests that wait do not
// occupy more memory than the cache.
func (m *mapper) compiled() (*mapping.Mapping, error) {
	compiled, err := m.Mappings.Get(&m.receiver)
	if err != nil {
		return nil, atrium.Errorf(atrium.CodeConflict, "The mapping of the receiver does not compile.").Because(err)
	}
	return compiled, nil
}

// uses counts memory of an evaluation in bytes, and that of the deliveries that were read, until the request ends.
func (m *mapper) uses(memory int) error { return m.hold(m.read + int64(memory) - rest.FreeMemory) }

// full reports whether the request should end.
func (m *mapper) full() bool { return m.AccountLogs >= maxEntriesAgain || time.Now().After(m.deadline) }

// run maps deliveries, in order, until it is full or an attempt fails that may succeed later. done is how many it is done with.
func (m *mapper) run(ctx context.Context, deliveries []atrium.QuarantinedDelivery) (done int, err error) {
	m.read = 0
	for i := range deliveries {
		d := &deliveries[i]
		m.read += int64(len(d.Query) + len(d.Body))
		for _, h := range d.Headers {
			m.read += int64(len(h.Name) + len(h.Value))
		}
	}
	if err := m.uses(0); err != nil {
		return 0, err
	}
	faults := map[atrium.QuarantinedID]string{}
	for i := range deliveries {
		d := &deliveries[i]
		if err = m.one(ctx, d); receive.IsPermanent(err) {
			faults[d.ID] = err.Error()
			if m.Failed++; len(m.Faults) < maxFaultsAgain {
				m.Faults = append(m.Faults, quarantineFault{d.ID, err.Error()})
			}
			err = nil
		}
		if err != nil {
			break
		}
		if done++; m.full() {
			break
		}
	}
	if faultErr := m.Store.SetQuarantineFaults(ctx, m.change, m.receiver.ID, faults); faultErr != nil {
		return 0, faultErr
	}
	return done, err
}

// one maps a delivery. It does nothing if the delivery is gone: another request has mapped it, or it was deleted.
func (m *mapper) one(ctx context.Context, d *atrium.QuarantinedDelivery) error {
	var results []mapping.Result
	if err := m.r.HeavilyPausing(ctx, func(pause func() error) (err error) {
		compiled, err := m.compiled()
		if err != nil {
			return err
		}
		results, err = compiled.Map(&mapping.Delivery{Headers: d.Headers, Query: d.Query, Body: d.Body}, m.maxPayload(), func(memory int) (*mapping.Mapping, error) {
			if err := m.uses(memory); err != nil {
				return nil, err
			}
			if err := pause(); err != nil {
				return nil, err
			}
			return m.compiled()
		})
		return cmp.Or(err, m.uses(mapping.Memory(results)))
	}); err != nil {
		return err
	}
	drafts := receive.NewDrafts(&m.receiver, results, string(d.RequestID))
	outcomes, err := m.Store.MapQuarantined(ctx, m.change, m.receiver.ID, d.ID, drafts.All)
	if atrium.CodeOf(err) == atrium.CodeNotFound && !errors.Is(err, atrium.ErrNoTenant) {
		return nil
	}
	if err != nil {
		return err
	}
	receipts, err := drafts.Receipts(outcomes)
	if err != nil {
		return err
	}
	m.Mapped++
	m.Filtered += drafts.Filtered
	for _, receipt := range receipts {
		if m.AccountLogs++; receipt.Replayed {
			m.Replayed++
		}
	}
	return nil
}

// maxPayload returns the maximum number of bytes of a payload.
func (a *API) maxPayload() int {
	if a.MaxEntry > 0 {
		return int(a.MaxEntry)
	}
	return rest.DefaultMaxBody
}

// response adds what is left.
func (m *mapper) response(ctx context.Context) (rest.Response, error) {
	found, err := m.Store.Receiver(ctx, m.receiver.TenantID, m.receiver.ID)
	if m.Left = found.Quarantined; m.Left == 0 {
		m.NextCursor = ""
	}
	return rest.Response{Body: m.mappedAgain}, err
}

func (a *API) mapQuarantineAgain(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	limit, binding := defaultMappedAgain, []string{string(who.TenantID), "map again", r.PathValue("receiver_id")}
	var after *atrium.Position
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		if o.Has("limit") {
			limit = int(o.Integer("limit", 1, maxMappedAgain))
		}
		o.Text("cursor", strictjson.Optional, func(text string) string {
			var ok bool
			if after, ok = a.Cursors.OpenPosition(text, binding...); !ok {
				return "is not a nextCursor of the same receiver"
			}
			return ""
		})
	})
	if err != nil {
		return rest.Response{}, err
	}
	m, release, err := a.newMapper(ctx, who, r, c)
	defer release()
	if err != nil {
		return rest.Response{}, err
	}
	for {
		page, err := a.Store.NextQuarantined(ctx, who.TenantID, m.receiver.ID, after, limit-m.Mapped-m.Failed)
		if err != nil {
			return rest.Response{}, err
		}
		if len(page) == 0 {
			return m.response(ctx)
		}
		done, err := m.run(ctx, page)
		if done == 0 && m.Mapped+m.Failed == 0 {
			return rest.Response{}, err
		}
		if done > 0 {
			after = store.QuarantinePosition(&page[done-1])
		}
		if err != nil || m.Mapped+m.Failed == limit || m.full() { // the client continues from here
			m.NextCursor = a.Cursors.SealPosition(after, binding...)
			return m.response(ctx)
		}
	}
}

func (a *API) mapQuarantinedAgain(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	receiver, id, err := quarantinedIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	d, err := a.Store.QuarantinedDelivery(ctx, who.TenantID, receiver, id)
	if err != nil {
		return rest.Response{}, err
	}
	m, release, err := a.newMapper(ctx, who, r, c)
	defer release()
	if err != nil {
		return rest.Response{}, err
	}
	if _, err := m.run(ctx, []atrium.QuarantinedDelivery{d}); err != nil {
		return rest.Response{}, err
	}
	return m.response(ctx)
}
