package store

import (
	"atrium"
	"atrium/internal/store/receivers"
)

// QuarantinePosition returns the position after which Store.NextQuarantined continues.
func QuarantinePosition(d *atrium.QuarantinedDelivery) *atrium.Position {
	return receivers.PositionOf(d)
}
