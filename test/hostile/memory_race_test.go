//go:build race

package hostile

// perByte is how many bytes of memory one byte takes, with those that the race detector
// keeps of it.
const perByte = 5
