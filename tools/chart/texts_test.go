package chart

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const withBackup = `
backup: {enabled: true}
image: {repository: r, pullSecrets: [a, b]}
ingress: {enabled: true, host: h}
metrics: {serviceMonitor: {enabled: true}}
networkPolicy: {enabled: true}
`

// placed returns values with a text in place of every text, apart from the engine, which selects what is rendered.
func placed(value any, at, text string) any {
	switch value := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, v := range value {
			all[name] = placed(v, path.Join(at, name), text)
		}
		return all
	case []any:
		all := []any{}
		for _, v := range value {
			all = append(all, placed(v, at, text))
		}
		return all
	case string:
		if at != "database/engine" {
			return text
		}
	}
	return value
}

// renderText renders the chart with a text in place of every text, and of the release's name, and without its schema.
func renderText(t *testing.T, values, text string) map[string]any {
	t.Helper()
	own := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &own); err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := util.MergeTables(own, chart.Values)
	all["nameOverride"], all["fullnameOverride"] = "", "" // which the values do not have
	all = placed(all, "", text).(map[string]any)
	release := common.ReleaseOptions{Name: text, Namespace: "default", Revision: 1, IsInstall: true}
	top, err := util.ToRenderValuesWithSchemaValidation(chart, all, release, common.DefaultCapabilities, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, top)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for name, file := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for i, document := range strings.Split(file, "\n---\n") {
			var object any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Errorf("%q: %s: %v\n%s", text, name, err, document)
			}
			objects[fmt.Sprintf("%s %d", path.Base(name), i)] = object
		}
	}
	return objects
}

// sameExcept reports where b is not a with another text.
func sameExcept(t *testing.T, at string, a, b any, text, other string) {
	t.Helper()
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
			t.Errorf("%q: %s is %v, want the members of %v", other, at, b, a)
			return
		}
		for name := range a {
			sameExcept(t, at+"."+name, a[name], b[name], text, other)
		}
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			t.Errorf("%q: %s is %v, want the items of %v", other, at, b, a)
			return
		}
		for i := range a {
			sameExcept(t, fmt.Sprint(at, "[", i, "]"), a[i], b[i], text, other)
		}
	case string:
		if want := strings.ReplaceAll(a, text, other); b != want {
			t.Errorf("%s is %#v, want %q", at, b, want)
		}
	default:
		if a != b {
			t.Errorf("%q: %s is %v, want %v", other, at, b, a)
		}
	}
}

// Whatever a text of the values is, it is only a text in the objects.
func TestTextsDoNotChangeTheStructure(t *testing.T) {
	const plain = "placeholder"
	texts := []string{
		"*.example.com", `"`, "'", `\`, `"quoted" 'text'`, "a: b", "a: b #c", "a\nb: c", "a\n---\nb: c", "a\r\nb", "{{ .Release.Name }}", "{{", "#a", "- a", "? a", "&a", "!a", "%a", "@a",
		"`a", "|", ">", "[a", "{a: b}", "a, b]", "true", "no", "null", "~", "123", "1e3", "0x1f", "010", "1.0", ".inf", "2026-01-31", " a ", "\ta", "ä", "\u00ad\u2028\U0001f600",
	}
	for _, values := range []string{withAll, withBackup} {
		want := renderText(t, values, plain)
		if found := len(want); found < 6 {
			t.Errorf("only %d objects are rendered", found)
		}
		for _, text := range texts {
			sameExcept(t, "", want, renderText(t, values, text), plain, text)
		}
	}
}

func TestTheHostMayBeAWildcard(t *testing.T) {
	o := mustRender(t, `{ingress: {enabled: true, host: "*.example.com", tlsSecret: wildcard}}`)
	if i := o.ingresses[0].Spec; i.Rules[0].Host != "*.example.com" || !slices.Equal(i.TLS[0].Hosts, []string{"*.example.com"}) {
		t.Errorf("the ingress is %+v", i)
	}
}

func TestTheSchemaRefusesTextsOfAWrongForm(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, forms := range map[string]struct{ right, wrong []string }{
		"ingress.host": {
			[]string{"atrium.example", "*.example.com", "a", "a-b.1.example", ""},
			[]string{"a b", "a.example\n", "a.example\nb", "*", "*.", "a.*.example", "**.example", "https://a.example", "a.example/", "a.example:443", "A.example", "-a.example", "a-.example", "a..example", ".a", "a.", "{{ .Values.host }}", strings.Repeat("a.", 127) + "a"},
		},
		"ingress.className":     {[]string{"nginx", "nginx.internal", ""}, []string{"a b", "Nginx", "a\n"}},
		"ingress.tlsSecret":     {[]string{"a-tls", "a.tls", ""}, []string{"a tls", "a_tls", "a/b", "a\n"}},
		"tlsSecret":             {[]string{"a-tls", ""}, []string{"a: b", `a"`}},
		"secretsKeySecret":      {[]string{"keys", ""}, []string{"a: b", `a"`}},
		"database.urlSecret":    {[]string{"database", ""}, []string{"a: b", "a\nb"}},
		"database.urlKey":       {[]string{"url", "DATABASE_URL", "a.b-c"}, []string{"", "a b", "a/b", "a\n"}},
		"database.storageClass": {[]string{"slow", "a.b", ""}, []string{"a b", "Slow", "a\n"}},
		"backup.storageClass":   {[]string{"slow", ""}, []string{"a b", "a\n"}},
		"database.size":         {[]string{"10Gi"}, []string{"10Gi\n", "10 Gi"}},
		"backup.schedule":       {[]string{"30 2 * * *", "@daily", "*/5 0-6,12 * JAN mon-fri"}, []string{"30 2 * *", "0 0 * * *\n", "0 0 * * \"", "{{ a b c }}"}},
		"image.repository":      {[]string{"atrium", "registry.example:5000/a/b_c", "[::1]:5000/a"}, []string{"", "a b", "a\n", `a"`}},
		"image.tag":             {[]string{"1.2.3", "v1_a-b", ""}, []string{"a b", "a:b", ".a", "a\n"}},
		"image.digest":          {[]string{"sha256:" + strings.Repeat("0f", 32), ""}, []string{"0f", "sha256:0f", "sha256:" + strings.Repeat("0F", 32), "sha256:" + strings.Repeat("0f", 32) + "\n"}},
		"nameOverride":          {[]string{"a", "a-b", ""}, []string{"a b", "a: b", "a\n", "-a"}},
		"fullnameOverride":      {[]string{"a", "a-b", long, ""}, []string{"a b", "A", "a.b", "a\n", "a-"}},
	} {
		set := func(value string) error {
			words := strings.Split(name, ".")
			own := map[string]any{words[len(words)-1]: value}
			if len(words) > 1 {
				own = map[string]any{words[0]: own}
			}
			_, err := renderValues(own)
			return err
		}
		for _, value := range forms.right {
			if err := set(value); err != nil {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
		for _, value := range forms.wrong {
			if err := set(value); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(name, ".", "/")) {
				t.Errorf("%s %q: %v, want an error about it", name, value, err)
			}
		}
	}
	for values, want := range map[string]string{
		`{image: {pullSecrets: ["a b"]}}`:                          "pullSecrets",
		`{image: {pullSecrets: [""]}}`:                             "pullSecrets",
		`{metrics: {serviceMonitor: {interval: "30s\n"}}}`:         "interval",
		`{database: {engine: postgres, urlSecret: ""}}`:            "urlSecret",
		`{ingress: {enabled: true, host: ""}}`:                     "host",
		`{ingress: {enabled: true, host: "a.example, b.example"}}`: "host",
		`{ingress: {enabled: true, host: "*.*.example.com"}}`:      "host",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}
