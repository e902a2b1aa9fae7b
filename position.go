package atrium

// A Position is a place in a list that is ordered by a number, mostly an instant, or
// by a text, and then by identifier.
type Position struct {
	Key  int64
	Text string // "" in a list that is ordered by a number
	ID   string // the SuffixLen characters of an identifier behind its prefix
}

// PositionAt returns the position of what was made at an instant.
func PositionAt[T Identifier](t Time, id T) *Position {
	return &Position{Key: int64(t), ID: string(id[len(id.Prefix()):])}
}
