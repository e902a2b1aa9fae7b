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

// Markers of the section of docs/performance.md that publish writes.
const (
	sectionBegin = "<!-- growth -->\n"
	sectionEnd   = "<!-- /growth -->\n"
)

// publish writes the results into the section of docs/performance.md, and the plots.
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
		return fmt.Errorf("no results in %s", dir)
	}
	page := filepath.Join(docs, "performance.md")
	text, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(page, replaceSection(text, section(all)), 0o644)
}

// replaceSection replaces the section of a page, or appends it if there is none.
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

The same requests run on servers with databases of several sizes, each a process on the same machine,
in turns: %d connections, medians of %d rounds of %s. "/ bare" is the rate divided by that of a
net/http handler that returns as many bytes in the same rounds. The first columns divide the rate
of a larger database by that of the smallest one in the same round: 1.00 means as fast as at the
smallest size. The goal is 0.85 at 10,000,000 entries.

All data grows together: an account has 10 entries and 3 prospects, there is a page for every 100
entries, and one audience has as many versions as there are pages. One entry in 20 belongs to one
account, whose activity is read. Accounts, keys and pages are chosen at random from all that exist.
The response cache is off, because it would hide the cost of reads where all responses fit into it. The
binary, its settings, the connections and the requests are the same for all sizes, and the page cache
holds the whole file (PostgreSQL has 1 GB of shared buffers). Payloads have 300 to 1,000 bytes. A
file with fewer than 100,000 entries is restored before each round that adds to it; larger ones keep
what is added, as a server's database does.

`

const closing = `Rates drop for requests that read pages spread over a file of many gigabytes. Lists, and a page by its
identifier, need few of these. An account with its prospects is found in three B-trees, each of which
is deeper in a large database, and on five of their leaf pages; a commit of many entries changes as many
leaf pages of the indexes of keys and of accounts. SQLite maps the first GiB of the file. It copies
other pages from the page cache into the cache of each reading connection, which is too small for
the inner pages of all trees. The last pages of a list are as fast as the first because an index
finds them.

Where many tenants share a database, the requests use many keys, and a key is looked up if it was not used
for five seconds: a page by its identifier costs more there.

The binary has %s. Memory is that of the process itself (RssAnon), without the mapped file, whose pages
the system reclaims when it needs to. After kill -9, a file of up to 1 GiB is checked completely before
it is used; a larger one is not.

` + "`make bench-growth`" + ` measures 10,000 and 1,000,000 entries on both engines and writes this section;
` + "`make bench-growth ENTRIES=10000,1000000,10000000`" + ` measures more. The databases of 10,000,000
entries need 15 GB of disk and take about 15 minutes to make.
`
