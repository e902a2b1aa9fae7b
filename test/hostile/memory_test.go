//go:build !race

package hostile

// perByte is the memory for one byte of data.
const perByte = 1
