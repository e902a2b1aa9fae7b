package atrium

import "time"

// ExpiringSoon is how long before its end a key needs attention.
const ExpiringSoon = 30 * 24 * time.Hour

// A DueSchedule is a scheduled change of a page.
type DueSchedule struct {
	PageID PageID
	Name   string // of the page
	Action string // publish or unpublish
	DueAt  Time
}

// An UnattributedCount is the number of entries in the unattributed account.
type UnattributedCount struct {
	Count   int64 // at most MaxUnattributedCount
	HasMore bool
}

// MaxUnattributedCount is the largest exact number of an UnattributedCount.
const MaxUnattributedCount = 1000
