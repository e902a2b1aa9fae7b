// Command manpages writes the manual pages of the atrium command.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"atrium/internal/cli"
)

func main() {
	date := flag.String("date", "", "the `date` in the footer, as 2026-01-31 (required)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: manpages -date DATE DIRECTORY")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*date, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

// write creates dir with one page for each command and each help topic.
func write(date, dir string) error {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.NewCommand()
	root.DisableAutoGenTag = true // the footer has the date
	header := doc.GenManHeader{Title: "ATRIUM", Section: "1", Manual: "Atrium", Source: "Atrium", Date: &at}
	if err := doc.GenManTree(root, &header, dir); err != nil {
		return err
	}
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() { // GenManTree skips topics
			var page bytes.Buffer
			if err := doc.GenMan(c, &header, &page); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "atrium-"+c.Name()+".1"), page.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
