//go:build race

package hostile

// perByte is the memory for one byte of data, including the shadow memory of the race
// detector.
const perByte = 5
