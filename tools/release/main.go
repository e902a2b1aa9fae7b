// Command release writes what describes a release, next to its files:
//
//	release key
//	release archive DIR FILE.zip TIME
//	release sbom FILE.cdx.json TIME
//	release notes CHANGELOG.md dist
//	release provenance dist
//	release sign dist
//
// archive writes the files of a directory, with the time in all of them. sbom replaces the time in an SBOM. notes writes RELEASE_NOTES.md, the section of the changelog about the version of the binaries. provenance
// writes provenance.json. sign writes SHA256SUMS.sig and provenance.intoto.jsonl with the private key in
// the environment variable ATRIUM_SIGNING_KEY, and nothing without it; key reports which of the two sign will
// do. The same files and key always give the same bytes.
package main

import (
	"errors"
	"fmt"
	"os"
)

// builderVariable names the URI that identifies the builder in the provenance.
const builderVariable = "ATRIUM_BUILDER_ID"

func main() {
	err := run(os.Args[1:])
	if errors.Is(err, errUsage) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: release key | archive DIR FILE TIME | sbom FILE TIME | notes CHANGELOG DIST | provenance DIST | sign DIST")

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	command, args := args[0], args[1:]
	switch {
	case command == "key" && len(args) == 0:
		return reportKey(os.Stderr)
	case command == "archive" && len(args) == 3:
		return archive(args[0], args[1], args[2])
	case command == "sbom" && len(args) == 2:
		return normalizeSBOM(args[0], args[1])
	case command == "notes" && len(args) == 2:
		return writeNotes(args[0], args[1])
	case command == "provenance" && len(args) == 1:
		return writeProvenance(args[0], os.Getenv(builderVariable))
	case command == "sign" && len(args) == 1:
		return sign(args[0], os.Stderr)
	}
	return errUsage
}
