package atrium

// A TimelineEntry is an Entry as the timeline of an account has it: AccountID is the
// account that it is shown under, which is another than the one it is kept under
// where that was merged, and AcknowledgedID is "" only if its receipt names the same.
type TimelineEntry struct {
	Entry               // the payload is nil unless it was asked for
	MoveID       MoveID // the move that brought it to its account; "" if none did
	PayloadBytes int64
}

// A TimelineFilter says which entries of a timeline are wanted. What is "" or nil
// leaves none out.
type TimelineFilter struct {
	Source, Type string // exactly
	Since        *Time  // those recorded at it or after
	Until        *Time  // those recorded before it
}

// Has reports whether an entry of the source and the type is wanted.
func (f *TimelineFilter) Has(source, kind string) bool {
	return (f.Source == "" || f.Source == source) && (f.Type == "" || f.Type == kind)
}

// A DayCount is how many entries of a source and a type were recorded on a day.
type DayCount struct {
	Day          Time // when it began, in UTC
	Source, Type string
	Count        int64
}
