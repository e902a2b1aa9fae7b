//go:build !race

package hostile

// perByte is how many bytes of memory one byte takes.
const perByte = 1
