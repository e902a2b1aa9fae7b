package csvrows

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// convert returns the lines of CSV with guessed columns, and the faults of its rows.
func convert(text, kind string) (lines string, faults []Fault, err error) {
	k, _ := KindOf(kind)
	f, err := NewFile(strings.NewReader(text))
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
		"mark, Windows":     {"\uFEFFDomain,Company Name\r\na.example,A\r\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"semicolons, order": {"Name;Other, more;Website\nA;x;https://www.a.example/contact\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"tabs":              {"domain\tname\na.example\tA\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"separator line":    {"sep=;\r\ndomain;name\r\na.example;A\r\n", "\n\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\"}\n"},
		"quoted line breaks": {"domain,name\na.example,\"A\nand \"\"B\"\"\"\nc.example,C\n",
			"\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"A\\nand \\\"B\\\"\"}\n\n{\"kind\":\"account\",\"domain\":\"c.example\",\"name\":\"C\"}\n"},
		"empty rows and cells": {"domain,name\n\n,\na.example,\nb.example\nc.example,C,,\n",
			"\n\n\n{\"kind\":\"account\",\"domain\":\"a.example\"}\n{\"kind\":\"account\",\"domain\":\"b.example\"}\n{\"kind\":\"account\",\"domain\":\"c.example\",\"name\":\"C\"}\n"},
		"formulas":           {"domain,name\na.example,'=1+1\nb.example,'plain\n", "\n{\"kind\":\"account\",\"domain\":\"a.example\",\"name\":\"=1+1\"}\n{\"kind\":\"account\",\"domain\":\"b.example\",\"name\":\"'plain\"}\n"},
		"no line at the end": {"domain\na.example", "\n{\"kind\":\"account\",\"domain\":\"a.example\"}\n"},
	} {
		out, faults, err := convert(c.in, "accounts")
		if err != nil || len(faults) > 0 || out != c.out {
			t.Errorf("%s: %q, want %q; %v %v", name, out, c.out, faults, err)
		}
	}
}

func TestEveryWrongRowIsReportedAndLeftOut(t *testing.T) {
	out, faults, err := convert("domain,name\na.example,A\n,B\nc.example,C,D\nd.example,\"x\"y\ne.example,\xff\nf.example,F\n", "accounts")
	if err != nil || !strings.HasSuffix(out, "\n\n\n\n\n"+`{"kind":"account","domain":"f.example","name":"F"}`+"\n") || strings.Count(out, "{") != 2 {
		t.Errorf("%q %v", out, err)
	}
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	if len(faults) != 4 || lines[0] != 3 || lines[1] != 4 || lines[2] != 5 || lines[3] != 6 {
		t.Errorf("%v", faults)
	}
}

func TestFilesThatAreNoCSVAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "UTF-16": "\xff\xfed\x00o\x00", "binary": "a\x00b,c\n", "no column": "a,b\n1,2\n", "no domain": "name\nA\n",
		"other encoding": "dom\xe4n\nx\n", "many columns": strings.Repeat("a,", maxColumns) + "a\n",
	} {
		if out, _, err := convert(in, "accounts"); err == nil {
			t.Errorf("%s: %q", name, out)
		}
	}
	endless := io.MultiReader(strings.NewReader("domain\n\""), &repeated{})
	f, err := NewFile(endless)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Next(); !errors.Is(err, errLongRow) {
		t.Errorf("an endless row: %v", err)
	}
}

// repeated is endless.
type repeated struct{}

func (*repeated) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
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

// Cells without text cost far more memory than the file.
func TestARowHasALimitedNumberOfCells(t *testing.T) {
	many := strings.Repeat(",", 100_000)
	for name, file := range map[string]string{"header": many, "row": "a,b\n1,2\n" + many, "quoted before": "a,b\n\"x,y\"" + many} {
		f, err := NewFile(strings.NewReader(file))
		for err == nil {
			_, _, err = f.Next()
		}
		if !errors.Is(err, errManyCells) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := NewFile(strings.NewReader("a,b\n\"" + many + "\"\n1,2\n"))
	for range 2 {
		if err == nil {
			_, _, err = f.Next()
		}
	}
	if err != nil {
		t.Errorf("commas in a cell: %v", err)
	}
}
