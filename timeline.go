package atrium

// A TimelineEntry is an Entry in the timeline of an account. Its AccountID is the account of
// the timeline: if the account that stores the entry was merged, this is the one it was
// merged into. AcknowledgedID is "" if the receipt names the account of the timeline.
type TimelineEntry struct {
	Entry // Payload is nil unless it was requested
	Origin
	MoveID       MoveID // the move that brought it to the account; "" for none
	PayloadBytes int64
}

// A TimelineFilter selects the entries of a timeline that match all of its fields. Zero
// fields match every entry.
type TimelineFilter struct {
	Source, Type string
	Since        *Time // recorded at this time or later
	Until        *Time // recorded before this time
}

// Has reports whether the filter selects entries of this source and type.
func (f *TimelineFilter) Has(source, kind string) bool {
	return (f.Source == "" || f.Source == source) && (f.Type == "" || f.Type == kind)
}

// A DayCount is the number of entries of a source and type that were recorded on a day.
type DayCount struct {
	Day          Time // the start of the day in UTC
	Source, Type string
	Count        int64
}
