package reference_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"atrium/internal/config"
	"atrium/internal/config/reference"
)

func TestReferenceIsUpToDate(t *testing.T) {
	for path, made := range map[string]func(string) ([]byte, error){
		"../usage.go":                    reference.Usage,
		"../../../docs/configuration.md": reference.Page,
	} {
		want, err := made("../config.go")
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: run go generate ./internal/config", path)
		}
	}
}

// An operator finds the range of a value on the page, not by trying.
func TestPageHasTheRangeOfEachSetting(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(page, []byte("\n## shutdown-delay\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	for _, want := range []string{"- must be from 0s to 5s\n", "- must be at least a second less than drain-timeout, which includes it\n"} {
		if !bytes.Contains(section, []byte(want)) {
			t.Errorf("shutdown-delay has no line %q:\n%s", want, section)
		}
	}
}

// A misspelled setting would have no effect. The chart sets some itself, from other values.
func TestTheChartAcceptsExactlyTheSettings(t *testing.T) {
	const chart = "../../../deploy/helm/atrium/"
	text, err := os.ReadFile(chart + "values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := os.ReadFile(chart + "templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Settings struct {
				AdditionalProperties bool
				Properties           map[string]any
			}
		}
	}
	schema.Properties.Settings.AdditionalProperties = true // the default of JSON Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	accepted := schema.Properties.Settings.Properties
	if schema.Properties.Settings.AdditionalProperties {
		t.Error("the chart accepts any name")
	}
	c := config.Default()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags, &c)
	flags.VisitAll(func(f *pflag.Flag) {
		_, has := accepted[f.Name]
		delete(accepted, f.Name)
		if sets := f.Name == "config" || strings.Contains(string(deployment), "- name: "+config.Variable(f.Name)+"\n"); has == sets {
			t.Errorf("%s: values.schema.json has it: %v, the chart sets it: %v", f.Name, has, sets)
		}
	})
	for name := range accepted {
		t.Errorf("values.schema.json has %s, which is no setting", name)
	}
}
