// Command atrium is the account-activity and page service.
package main

import (
	"os"

	"atrium/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
