package manage

import (
	"errors"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// Only such an error is not logged: a tenant could otherwise fill the log.
func TestARefusedWaitForEventsIsNoFaultOfTheServer(t *testing.T) {
	a := &API{Waits: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Each: 1})}
	who := auth.Principal{TenantID: "tenant_1"}
	if err := a.Waits.Acquire(t.Context(), who.TenantID); err != nil {
		t.Fatal(err)
	}
	_, _, err := a.waitForEvents(t.Context(), who, nil, eventQuery{wait: time.Second})
	if !errors.Is(err, limit.ErrBusy) || atrium.CodeOf(err) != atrium.CodeUnavailable {
		t.Error(err)
	}
}
