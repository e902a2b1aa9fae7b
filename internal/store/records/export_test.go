package records

// SetMaxPersonMoves changes maxPersonMoves and returns a function that restores it.
func SetMaxPersonMoves(n int) (restore func()) {
	before := maxPersonMoves
	maxPersonMoves = n
	return func() { maxPersonMoves = before }
}
