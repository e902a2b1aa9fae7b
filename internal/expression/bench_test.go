package expression

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// fastNumbers are those that are converted in constant time; see slowNumbers.
var fastNumbers = map[string]string{
	"int":             "1",
	"long int":        "12345678901234567890",
	"double":          "1.5",
	"17 digits":       "0.12345678901234567",
	"many digits":     "0." + strings.Repeat("123456789", 100),
	"many zeros":      "1." + strings.Repeat("0", 900),
	"large":           "1e300",
	"long and large":  "1.2345678901234567e300",
	"small":           "1e-300",
	"smallest normal": "2.2250738585072014e-308",
	"huge exponent":   "1e999999999999999999999",
}

// BenchmarkDecodeNumbers decodes an array of 64 KiB of each kind of number. The time for each byte must be similar.
func BenchmarkDecodeNumbers(b *testing.B) {
	all := maps.Clone(fastNumbers)
	maps.Copy(all, slowNumbers)
	for name, text := range all {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			body := "[" + strings.TrimSuffix(strings.Repeat(text+",", (64<<10)/(len(text)+1)), ",") + "]"
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Decode(jsontext.NewDecoder(strings.NewReader(body))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
