package load

// A Kind is one kind of request.
type Kind struct {
	Name    string
	Status  int                // of the answer; any other is a failure
	Request func(n int) []byte // the nth one, complete with its head; called by many goroutines
}

// A Mix is kinds of request, each with how many of all are of it.
type Mix []Share

// A Share is a kind and its weight, which is at least 1.
type Share struct {
	Kind   Kind
	Weight int
}

// Only returns the mix of one kind.
func Only(k Kind) Mix { return Mix{{k, 1}} }

func (m Mix) total() (weights int) {
	for _, s := range m {
		weights += s.Weight
	}
	return weights
}

// kind returns the kind of the nth request. As many requests in a row as the weights
// sum up to have each kind as often as its weight says.
func (m Mix) kind(n int) Kind {
	total := m.total()
	// Steps that share no divisor with the total meet every place once, and spread the
	// requests of a kind among the others.
	place := n * spread(total) % total
	for _, s := range m {
		if place -= s.Weight; place < 0 {
			return s.Kind
		}
	}
	return m[len(m)-1].Kind // not reached: a place is below the total
}

// spread returns a step near the golden section of total that shares no divisor with it.
func spread(total int) int {
	step := total * 618 / 1000
	for ; step > 1 && gcd(step, total) > 1; step-- {
	}
	return max(step, 1)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
