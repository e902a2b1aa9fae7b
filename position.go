package atrium

// A Position is a position in a list that is ordered by a number, usually an instant, or by
// a text, and then by identifier.
type Position struct {
	Key  int64
	Text string // "" in a list that is ordered by a number
	ID   string // an identifier without its prefix
}

// PositionAt returns the position of a resource in a list that is ordered by time.
func PositionAt[T Identifier](t Time, id T) *Position {
	return &Position{Key: int64(t), ID: string(id[len(id.Prefix()):])}
}
