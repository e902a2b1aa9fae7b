package erasures

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// A clock that is wrong by years must not delete everything. The nodes therefore store clock
// readings. After a step of more than clockTolerance, also one between the clocks of two nodes or after a
// time without any node, retention rules are not applied until the clocks have run for clockSteady without
// another one. An operator has this time to correct the clock.
const (
	clockTolerance = 24 * time.Hour
	clockSteady    = 24 * time.Hour
	clockInterval  = time.Hour // between two stored readings
)

// clockIsSteady reads the setting register.Clock, and stores the time if the last reading is old. It
// reports whether the clock has run steadily for clockSteady.
func (s *Store) clockIsSteady(ctx context.Context, at time.Time) (bool, error) {
	now := atrium.At(at)
	read, since := now, now
	var stored []byte
	if err := s.db.Query(ctx, "SELECT value FROM settings WHERE name = $1", engine.Args{register.Clock}, func(r engine.Row) error {
		stored = bytes.Clone(r.Bytes(0))
		read, since = atrium.Time(binary.BigEndian.Uint64(stored)), atrium.Time(binary.BigEndian.Uint64(stored[8:]))
		return nil
	}); err != nil {
		return false, err
	}
	if now > plus(read, clockTolerance) || plus(now, clockTolerance) < read {
		since = now
	}
	if stored == nil || since == now || now >= plus(read, clockInterval) {
		value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(now)), uint64(since))
		// If another node has changed it, the next run continues from its reading.
		if err := s.db.Write(ctx, func(tx engine.Tx) (err error) {
			if stored == nil {
				_, err = tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", register.Clock, value)
			} else {
				_, err = tx.Exec("UPDATE settings SET value = $1 WHERE name = $2 AND value = $3", value, register.Clock, stored)
			}
			return err
		}); err != nil {
			return false, err
		}
	}
	return now >= plus(since, clockSteady), nil
}
