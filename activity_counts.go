package atrium

// An Interval is the length of the periods by which entries are counted, in hours.
type Interval int64

// The intervals.
const (
	Hourly Interval = 1
	Daily  Interval = 24
)

// Bounds of a CountQuery.
const (
	MaxHours       = 31 * 24 // periods of a query by hour
	MaxDays        = 366     // periods of a query by day
	MaxCountSeries = 20

	// MaxCountedTypes is how many combinations of source and type of a tenant are counted separately.
	MaxCountedTypes = 1000
)

// Micros returns the length of a period in microseconds.
func (i Interval) Micros() Time { return Time(i) * 3600e6 }

// MaxPeriods returns how many periods a CountQuery may have.
func (i Interval) MaxPeriods() int {
	if i == Daily {
		return MaxDays
	}
	return MaxHours
}

// A CountQuery asks for the numbers of entries of a tenant by period of storage (Entry.CreatedAt).
type CountQuery struct {
	Interval     Interval
	Since, Until Time   // starts of periods; Until is excluded
	Source, Type string // "" for all
	Series       int    // how many series to return, at most MaxCountSeries
}

// Periods returns the number of periods.
func (q *CountQuery) Periods() int { return int((q.Until - q.Since) / q.Interval.Micros()) }

// A CountSeries has the numbers of entries of a source and type, by period.
type CountSeries struct {
	Source, Type string
	Total        int64
	Counts       []int64
}

// EntryCounts are the numbers of entries of a tenant.
type EntryCounts struct {
	CountQuery
	Total int64

	// CompleteUntil is the time before which every stored entry is counted. Nil means that stored
	// entries are being counted for the first time.
	CompleteUntil *Time

	Series []CountSeries // the largest first
	Other  CountSeries   // entries of all other sources and types, which are ""
}
