package erasures

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/receivers"
)

// eraseQuarantined deletes a batch of the deliveries in quarantine that the rule selects. This stage comes before that of
// the entries, which finds those that were mapped in the meantime.
func (s *Store) eraseQuarantined(ctx context.Context, j *job) error {
	m := receivers.NewMatcher(&atrium.ErasureRequest{AccountID: j.AccountID, Rule: j.rule})
	var found []atrium.QuarantinedDelivery
	var next *atrium.Position
	if m != nil {
		if err := s.search(ctx, func(tx engine.Tx) (err error) {
			found, next, err = m.Find(tx, j.TenantID, j.after, eraseBatchEntries)
			return err
		}); err != nil {
			return err
		}
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		removed, err := receivers.Remove(tx, j.TenantID, receivers.KeysOf(found))
		if err != nil {
			return err
		}
		n := 0
		for _, count := range removed {
			n += int(count)
		}
		return j.advance(tx, next, erasedCounts{quarantined: n})
	})
}
