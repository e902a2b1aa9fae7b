// How a release is described and signed. It is separate from tools/packages because it reads the private key:
// the program has one dependency, of the Go project, and its tests one more.
module atrium/tools/release

go 1.26.0

toolchain go1.26.8

require (
	github.com/in-toto/attestation v1.2.0
	golang.org/x/mod v0.43.0
	google.golang.org/protobuf v1.36.11
)
