package csvrows

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// convert returns the lines of CSV with guessed columns, and the faults of its rows.
func convert(text, kind string) (lines string, faults []Fault, err error) {
	k, _ := KindOf(kind)
	f, err := NewFile(strings.NewReader(text), nil)
	if err != nil {
		return "", nil, err
	}
	l, err := NewLines(f, k, k.Guess(f.Header))
	if err != nil {
		return "", nil, err
	}
	l.Refuse = func(f Fault) error {
		faults = append(faults, f)
		return nil
	}
	b, err := io.ReadAll(l)
	return string(b), faults, err
}

func TestRowsBecomeLinesWithTheirNumbers(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"plain":             {"domain,name\na.example,A\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"HubSpot":           {"Record ID,Company name,Company Domain Name\n1,A,a.example\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"mark, Windows":     {"\uFEFFDomain,Company Name\r\na.example,A\r\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"semicolons, order": {"Name;Other, more;Website\nA;x;https://www.a.example/contact\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"tabs":              {"domain\tname\na.example\tA\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"separator line":    {"sep=;\r\ndomain;name\r\na.example;A\r\n", "\n\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"quoted line breaks": {"domain,name\na.example,\"A\nand \"\"B\"\"\"\nc.example,C\n",
			"\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\\nand \\\"B\\\"\"}\n\n{\"kind\":\"account\",\"domain\":\"c.example\",\"name\":\"C\"}\n"},
		"empty rows and cells": {"domain,name\n\n,\na.example,\nb.example\nc.example,C,,\n",
			"\n\n\n{\"kind\":\"account\",\"domain\":\"a.example\"}\n{\"kind\":\"account\",\"domain\":\"b.example\"}\n{\"kind\":\"account\",\"domain\":\"c.example\",\"name\":\"C\"}\n"},
		"formulas":           {"domain,name\na.example,'=1+1\nb.example,'plain\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"=1+1\"}\n{\"kind\":\"account\",\"domain\":\"b.example\",\"name\":\"'plain\"}\n"},
		"any line ends":      {"domain,name\ra.example,\"A\rB\"\r\r\nb.example,B\n\rc.example,C\r", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\\rB\"}\n\n\n{\"kind\":\"account\",\"domain\":\"b.example\",\"name\":\"B\"}\n\n{\"kind\":\"account\",\"domain\":\"c.example\",\"name\":\"C\"}\n"},
		"separator, old Mac": {"sep=;\rdomain;name\ra.example;A\r", "\n\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"quoted delimiters":  {"\"domain\";\"a,b,c,d\"\na.example;A\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\"}\n"},
		"no line at the end": {"domain\na.example", "\n{\"kind\":\"account\",\"domain\":\"a.example\"}\n"},
	} {
		out, faults, err := convert(c.in, "accounts")
		if err != nil || len(faults) > 0 || out != c.out {
			t.Errorf("%s: %q, want %q; %v %v", name, out, c.out, faults, err)
		}
	}
}

func TestEveryWrongRowIsReportedAndLeftOut(t *testing.T) {
	out, faults, err := convert("domain,name\na.example,A\n,B\nc.example,C,D\nd.example,\"x\"y\ne.example,\xff\na\"b,\"c\nhttps://,G\n"+
		"h.example,H, ,,x,,\n"+strings.Repeat("i", maxRow)+"j,\"\nf.example,F\n\"k\n", "accounts")
	if err != nil || !strings.HasSuffix(out, strings.Repeat("\n", 9)+`{"kind":"account","domain":"f.example","name":"F"}`+"\n") || strings.Count(out, "{") != 2 {
		t.Errorf("%q %v", out, err)
	}
	want := []Fault{
		{3, "domain", "is empty"},
		{4, "", "has 3 cells, more than the 2 columns"},
		{5, "", "is not CSV: text follows the quote that ends a cell"},
		{6, "", "is not UTF-8: in Excel, save the file as CSV UTF-8"},
		{7, "", "is not CSV: a quote is in a cell that does not begin with one"},
		{8, "domain", "is empty"},
		{9, "", "has 5 cells, more than the 2 columns"},
		{10, "", "is longer than 1048576 bytes: a quote may be missing"},
		{12, "", "is not CSV: a quote is not closed"},
	}
	if !slices.Equal(faults, want) {
		t.Errorf("%v, want %v", faults, want)
	}
}

func TestADomainInATableIsADomain(t *testing.T) {
	for domain, ok := range map[string]bool{
		"a.example": true, " A.example ": true, "https://www.a.example/x y": true, "bücher.example": true, "例え。テスト": true,
		"not a domain": false, "Acme": false, "Acme Inc.": false, "localhost": false, "-": false,
	} {
		out, faults, err := convert("domain\n"+domain+"\n", "accounts")
		if err != nil || ok != (len(faults) == 0) || ok != strings.Contains(out, "domain") {
			t.Errorf("%q: %q %v %v", domain, out, faults, err)
		}
		if !ok && !slices.Equal(faults, []Fault{{2, "domain", "needs a dot and no spaces, as in example.com"}}) {
			t.Errorf("%q: %v", domain, faults)
		}
	}
	if out, faults, err := convert("name,domain\nKim,Acme\n", "prospects"); err != nil || len(faults) > 0 || !strings.Contains(out, "Acme") {
		t.Errorf("a prospect may have any text: %q %v %v", out, faults, err)
	}
}

func TestFilesThatAreNoCSVAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "UTF-16": "\xff\xfed\x00o\x00", "binary": "a\x00b,c\n", "no column": "a,b\n1,2\n", "no domain": "name\nA\n",
		"other encoding": "dom\xe4n\nx\n", "many columns": strings.Repeat("a,", maxColumns) + "a\n",
		"separator that is not UTF-8": "sep=\xff\ndomain\n", "quote as separator": "sep=\"\ndomain\n", "no separator": "sep=\r\ndomain\n",
		"wrong header": "domain,\"a\"b\n", "long header": strings.Repeat("a", maxRow) + "\n",
	} {
		if out, _, err := convert(in, "accounts"); err == nil {
			t.Errorf("%s: %q", name, out)
		}
	}
}

func TestTheSameRowIsTheSameProspect(t *testing.T) {
	out, _, err := convert("name,email,phone\nKim,kim@a.example,1\nKim,kim@a.example,1\nKim,kim@a.example,2\n", "prospects")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || lines[0] != lines[1] || lines[1] == lines[2] {
		t.Errorf("%q", lines)
	}
}

// Whatever a file has, its lines are JSON of the kind, with numbers of lines of the file.
func FuzzLines(f *testing.F) {
	for _, in := range []string{
		"domain,name\na.example,A\n", "\uFEFFdomain;name\r\n\"a\r\nb\";c\r\n", "sep=;\ndomain;name\n=1;'=2\n", "domain\n\"", "domain,name\n\xff,\x00\n", "domain\r\rname",
		"sep=|\rdomain|name\r\n\"a\rb\"|'\rc\r",
		"name\temail\nKim\tkim@a.example\n", "domain,domain\na,b\n",
	} {
		f.Add([]byte(in), true)
		f.Add([]byte(in), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, accounts bool) {
		kind := "prospects"
		if accounts {
			kind = "accounts"
		}
		out, faults, err := convert(string(in), kind)
		if err != nil {
			return
		}
		lines := bytes.Count(in, []byte("\n")) + bytes.Count(in, []byte("\r")) + 1
		if strings.Count(out, "\n") > lines {
			t.Errorf("%q has more lines than %q", out, in)
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			var record map[string]string
			if err := json.Unmarshal([]byte(line), &record); err != nil || record["kind"] != strings.TrimSuffix(kind, "s") {
				t.Errorf("%q: %v", line, err)
			}
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines {
				t.Errorf("%v is not in the %d lines of %q", fault, lines, in)
			}
		}
	})
}

func TestAWorkbookIsRefusedByName(t *testing.T) {
	for _, begin := range []string{"PK\x03\x04\x14\x00\x06\x00", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00"} {
		if _, _, err := convert(begin, "accounts"); err == nil || err.Error() != "this is an Excel workbook: save it as CSV UTF-8" {
			t.Errorf("%q: %v", begin, err)
		}
	}
	if out, _, err := convert("PK,domain\n1,a.example\n", "accounts"); err != nil || !strings.Contains(out, "a.example") {
		t.Errorf("a table that begins with PK: %q, %v", out, err)
	}
}
