// Command write writes the files that package reference generates. go generate runs it in
// the directory of package config.
package main

import (
	"fmt"
	"os"

	"atrium/internal/config/reference"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	usage, err := reference.Usage("config.go")
	if err != nil {
		return err
	}
	page, err := reference.Page("config.go")
	if err != nil {
		return err
	}
	if err := os.WriteFile("usage.go", usage, 0o644); err != nil {
		return err
	}
	return os.WriteFile("../../docs/configuration.md", page, 0o644)
}
