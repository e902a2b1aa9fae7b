package manage

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"atrium/internal/rest"
)

func TestReadsAndCompiledExpressionsAreHeavyWork(t *testing.T) {
	for _, r := range (&API{}).Routes() {
		want := r.Method == http.MethodGet && r.For == rest.OneTenant && r.Produces == rest.JSON && r.Wait == 0 // streams and reads that wait release it
		switch r.Method + " " + r.Pattern {
		case "POST " + prefix + "/webhooks", "PATCH " + prefix + "/webhooks/{webhook_id}",
			"POST " + prefix + "/receivers", "PATCH " + prefix + "/receivers/{receiver_id}", "POST " + prefix + "/receivers/{receiver_id}/try":
			want = true
		}
		if want && !r.Heavy {
			t.Errorf("%s %s is no heavy work", r.Method, r.Pattern)
		}
	}
}

func TestARequestForEventsEndsWhileThereAreOthers(t *testing.T) {
	for range 100 { // a select would choose either
		deadline := time.NewTimer(0)
		time.Sleep(100 * time.Microsecond)
		if err := (&API{}).waitForChange(t.Context(), &rest.Request{}, alreadyChanged, deadline); !errors.Is(err, errNoEvent) {
			t.Fatalf("%v, want %v", err, errNoEvent)
		}
	}
}
