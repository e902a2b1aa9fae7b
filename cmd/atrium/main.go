// Command atrium is the server and its command-line tool.
package main

import (
	"os"

	"atrium/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
