package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
	"atrium/internal/store/register"
)

// Nodes of two releases can use a database together: after the newer one has migrated it, the older one
// may still run and start. FinishUpgrade ends that: it stores the number of the newest migration as a
// mark, and binaries that do not know that migration stop. A release does not migrate a database
// before the upgrade to the release before it is finished, so there are never three.

// ErrNewer says that an upgrade to a newer release is finished, so that this binary must not use the
// database.
var ErrNewer = errors.New("use a newer binary")

func setFinished(tx engine.Tx, number int64) error {
	_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		register.Finished, binary.BigEndian.AppendUint64(nil, uint64(number)))
	return err
}

// checkNewer returns ErrNewer if a binary with the given newest migration must not use the database.
func checkNewer(finished, newest int64) error {
	if finished > newest {
		return fmt.Errorf("the upgrade of the database to migration %d is finished and this binary knows %d: %w", finished, newest, ErrNewer)
	}
	return nil
}

// checkMigrate returns an error if this release must not migrate the database.
func checkMigrate(at, finished int64) error {
	if finished < migrations.Previous {
		return fmt.Errorf("the last upgrade of the database, to migration %d, is not finished: first run atrium migrate --finish with the binary of that release", at)
	}
	return nil
}

// FinishUpgrade ends the upgrade to this release: binaries of the one before no longer start, and those
// that run begin to stop within ten seconds. It does nothing if that is so already. The schema must be up
// to date.
func (s *Store) FinishUpgrade(ctx context.Context) error {
	newest, err := migrations.Newest(s.db.Engine.Name())
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx engine.Tx) error {
		finished, err := kernel.FinishedAt(tx.Query)
		if err != nil || finished >= newest {
			return err
		}
		return setFinished(tx, newest)
	})
}

// CheckUpgrade returns ErrNewer if this binary must not use the database any longer, and reports whether
// the upgrade to this release is finished. The database must have at least one migration.
func (s *Store) CheckUpgrade(ctx context.Context) (finished bool, err error) {
	newest, err := migrations.Newest(s.db.Engine.Name())
	if err != nil {
		return false, err
	}
	mark, err := kernel.FinishedAt(s.db.OutsideTx(ctx))
	if err != nil {
		return false, kernel.Public(err)
	}
	return mark >= newest, checkNewer(mark, newest)
}
