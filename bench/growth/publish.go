package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The section of docs/performance.md that publish writes is between these lines.
const (
	sectionBegin = "<!-- growth -->\n"
	sectionEnd   = "<!-- /growth -->\n"
)

// publish writes what was measured into the section of a page, and the plots beside it.
func publish(dir, docs string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "growth-*.json"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(docs, "images"), 0o755); err != nil {
		return err
	}
	var all []*results
	for _, wanted := range []string{"growth-sqlite", "growth-sqlite-tenants", "growth-postgresql", "growth-postgresql-tenants"} {
		for _, path := range paths {
			if filepath.Base(path) != wanted+".json" {
				continue
			}
			r, err := readResults(path)
			if err != nil {
				return err
			}
			if _, err := r.draw(filepath.Join(docs, "images")); err != nil {
				return err
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("nothing was measured in %s", dir)
	}
	page := filepath.Join(docs, "performance.md")
	text, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(page, replaceSection(text, section(all)), 0o644)
}

// replaceSection returns a page with its section anew, at the end if it had none.
func replaceSection(page, section []byte) []byte {
	before, rest, found := bytes.Cut(page, []byte(sectionBegin))
	_, after, closed := bytes.Cut(rest, []byte(sectionEnd))
	if !found || !closed {
		before, after = page, nil
		if len(before) > 0 {
			before = append(bytes.TrimRight(before, "\n"), "\n\n"...)
		}
	}
	return bytes.Join([][]byte{before, []byte(sectionBegin), section, []byte(sectionEnd), after}, nil)
}

func section(all []*results) []byte {
	var b strings.Builder
	first := all[0]
	fmt.Fprintf(&b, introduction, first.Connections, first.Rounds, first.Round)
	for _, r := range all {
		fmt.Fprintf(&b, "### %s\n\n", strings.ToUpper(r.title()[:1])+r.title()[1:])
		fmt.Fprintf(&b, "Measured on %s:", r.Day)
		for i, s := range r.Sizes {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %s entries of %s accounts, with %s prospects, %s pages and %s versions", short(s.Entries), short(s.Accounts), short(prospectsEach*s.Accounts), short(s.Pages), short(s.Pages))
			if s.Tenants > 1 {
				fmt.Fprintf(&b, ", of %s tenants", short(s.Tenants))
			}
		}
		b.WriteString(".\n\n")
		r.print(&b)
		fmt.Fprintf(&b, "\n![The rate of each request, relative to the smallest database](images/%s.svg)\n\n", r.name())
		fmt.Fprintf(&b, "![Median and 99th percentile of each request](images/%s-latency.svg)\n\n", r.name())
	}
	fmt.Fprintf(&b, closing, megabytes(first.Binary))
	return []byte(b.String())
}

const introduction = `## As data grows

The same requests are sent to servers on databases of several sizes, each a process of its
own on the same machine, in turns: %d connections, medians of %d rounds of %s. "/ bare" is the
rate divided by that of a net/http handler that answers with as many bytes in the same
rounds. The first columns divide the rate of a larger database by that of the smallest one
in the same round: 1.00 is as fast as when it was small, and at 10,000,000 entries 0.85 is
the goal.

Everything grows together: each account has 10 entries and 3 prospects, for every 100
entries there is a page, and one audience has as many versions as there are pages. One entry
in 20 is of one account, whose activity is read. Accounts, keys and pages are taken at random
over all that there are. No responses are cached,
which would hide what a read costs where all of them fit. What is equal is the binary, its settings, the connections, the
requests, and that the whole file is held in the page cache (PostgreSQL
has 1 GB of buffers). Payloads have 300 to 1,000 bytes. A file of fewer than 100,000 entries is put back
as it was before each round that adds to it; others keep what is added, as databases of a server do.

`

const closing = `What is not flat is what reads pages that lie anywhere in a file of many gigabytes. Lists, and a
page by its identifier, need few of them. An account is found with its prospects in three trees,
of which each is deeper in a large database, and on five leaves of them; a commit of many entries
changes as many leaves of the indexes of keys and of accounts. SQLite maps the first GiB of the
file and copies other pages out of the system's cache, into one of its own for each connection that
reads, which does not hold the inner pages of all trees. Where the last pages of a list are as fast
as the first ones, they are found by an index.

Where many tenants share a database, each request comes with another key, of which one that has
not been seen for five seconds is looked up: that is what a page by its identifier costs more there.

The binary has %s. Memory is what belongs to the process alone (RssAnon): the file is mapped
besides, which the system takes back when it needs to. After kill -9 a file of up to 1 GiB is
checked as a whole before it is used; a larger one is not.

` + "`make bench-growth`" + ` repeats it with 10,000 and 1,000,000 entries on both engines and writes this
section; ` + "`make bench-growth ENTRIES=10000,1000000,10000000`" + ` with more. The databases of
10,000,000 entries need 15 GB of disk, and are made in about 15 minutes.
`
