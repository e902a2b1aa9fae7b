package load

// A Kind is one kind of request.
type Kind struct {
	Name    string
	Status  int                // expected; any other is a failure
	Request func(n int) []byte // the complete nth request; called concurrently
}

// A Mix has several kinds of request, each with a weight.
type Mix []Share

// A Share is a kind and its weight, at least 1.
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

// kind returns the kind of the nth request. Any total consecutive requests, where total is
// the sum of the weights, have each kind as many times as its weight.
func (m Mix) kind(n int) Kind {
	total := m.total()
	// A step that is coprime to total visits each place once and interleaves the kinds.
	place := n * spread(total) % total
	for _, s := range m {
		if place -= s.Weight; place < 0 {
			return s.Kind
		}
	}
	return m[len(m)-1].Kind // unreachable: place < total
}

// spread returns a number near the golden section of total that is coprime to it.
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
