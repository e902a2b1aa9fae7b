package atrium

import "time"

// A RefusedRequest is a request with the key or session of a tenant, or to a receiver, that failed. Equal requests within
// a second are one RefusedRequest, with a count. Of what was sent, it contains only names: Where of its faults may have those
// of members, parameters and headers.
type RefusedRequest struct {
	ID        RefusedRequestID
	TenantID  TenantID
	At        Time   // of the first
	Count     int64  // at least 1
	RequestID string // of the first
	Method    string
	Route     string // the pattern of the path
	Status    int
	Code      Code
	Detail    string
	Faults    []Fault
	KeyID     KeyID  // "" for a user, and for a receiver, which Detail names
	UserID    UserID // "" for a key and for a receiver
	UserAgent string // "" if there was none
}

// Limits of refused requests.
const (
	// MaxRefusedRequests is the number of refused requests of a tenant that are stored: the newest ones.
	MaxRefusedRequests = 1000

	// RefusedRequestLife is how long a refused request is stored.
	RefusedRequestLife = 30 * 24 * time.Hour

	// MaxUserAgent is the maximum length of RefusedRequest.UserAgent in bytes. The rest is cut off.
	MaxUserAgent = 200
)

// A RefusedRequestFilter selects the refused requests that match all of its fields. Zero fields match every
// request.
type RefusedRequestFilter struct {
	Status       int64
	Code         Code
	Route        string
	KeyID        KeyID
	RequestID    string
	SentBy       Sender
	Since, Until *Time
}

// A Sender is who sends requests: people with the console, or programs with a key or to a receiver.
type Sender string

// The senders.
const (
	SentByPeople   Sender = "people"
	SentByPrograms Sender = "programs"
)

// RefusedRequestCounts are the numbers of refused requests of a tenant by code.
type RefusedRequestCounts struct {
	// Since is the time from which all are counted. It is later than requested if so many were refused
	// that older ones are no longer stored.
	Since Time

	Codes []RefusedRequestCount // highest count first
}

// A RefusedRequestCount is the number of refused requests with a code.
type RefusedRequestCount struct {
	Code  Code
	Count int64
}
