package mapping

import (
	"fmt"
	"strings"
	"testing"

	"atrium"
)

// BenchmarkMapSizes maps arrays of HubSpot's events. The time must grow at most linearly.
func BenchmarkMapSizes(b *testing.B) {
	const event = `{"eventId":%d,"subscriptionId":12,"portalId":62515,"occurredAt":1772442000123,"subscriptionType":"contact.propertyChange","attemptNumber":0,"objectId":123,"propertyName":"email","propertyValue":"x@y.example"}`
	m := compiled(b, atrium.ProviderHubSpot, atrium.Mapping{})
	for _, n := range []int{1, 10, 100, 1000} {
		events := make([]string, n)
		for i := range events {
			events[i] = fmt.Sprintf(event, i)
		}
		d := Delivery{Body: []byte("[" + strings.Join(events, ",") + "]")}
		b.Run(fmt.Sprintf("elements=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Map(&d, maxPayload, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
