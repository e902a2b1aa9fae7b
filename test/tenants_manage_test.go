package test

import (
	"encoding/json"
	"testing"
)

// managedResources are the resources of the management API. Each has a file.
var managedResources = []resource{
	// accounts
	accountResource,
	accountListResource,
	// account logs and moves
	activityResource,
	// prospects
	prospectResource,
	// erasures
	erasureResource,
	// persons
	personResource,
	// refused requests
	refusedResource,
	// reads
	readResource,
	// retention
	retentionResource,
	// summary templates
	summaryResource,
	// brands
	brandResource,
	// pages
	pageResource,
	// previews
	previewResource,
	// audiences and versions
	audienceResource,
	// keys
	keyResource,
	// users
	userResource,
	groupMappingResource,
	// webhooks
	webhookResource,
	// receivers
	receiverResource,
	// tenants
	// audit
	auditResource,
	// transfer
}

// made creates a resource by a POST with the tenant's key, and returns the member of the
// response that identifies it.
func (s *service) made(t *testing.T, tn tenant, target, body, member string) string {
	t.Helper()
	a := s.send(t, request{
		method: "POST", target: target, body: []byte(body),
		header: []string{"x-api-key: " + tn.keyFor(target), "Content-Type: application/json"},
	})
	var members map[string]any
	if err := json.Unmarshal(a.body, &members); err != nil {
		t.Fatal(err)
	}
	id, ok := members[member].(string)
	if a.status != 201 || !ok {
		t.Fatalf("%s with %s: %s", target, body, a)
	}
	return id
}
