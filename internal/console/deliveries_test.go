package console

import (
	"testing"

	"atrium"
)

func TestADeliveryThatIsTriedAgainAfterAFailureIsFailing(t *testing.T) {
	for want, d := range map[string]delivery{
		"pending":   {State: atrium.DeliveryPending},
		"failing":   {State: atrium.DeliveryPending, Error: "the connection was refused", Attempts: 1},
		"waiting":   {State: atrium.DeliveryWaiting, Error: "the status is 500"},
		"succeeded": {State: atrium.DeliverySucceeded, Status: 200},
		"failed":    {State: atrium.DeliveryFailed, Error: "the status is 500"},
	} {
		if got := d.Shown(); got != want {
			t.Errorf("%+v is shown as %q, want %q", d, got, want)
		}
	}
}
