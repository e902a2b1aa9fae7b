package sso

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestKeysThatAreTooLargeAreNotUsed(t *testing.T) {
	t.Parallel()
	key := func(bits int) string {
		return `{"kty":"RSA","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(make([]byte, bits/8)) + `"}`
	}
	small, elliptic := key(maxKey), `{"kty":"EC","crv":"P-256","x":"a","y":"b"}`
	many := strings.TrimSuffix(strings.Repeat(elliptic+",", maxKeys), ",")
	for name, c := range map[string]struct{ body, want string }{
		"a large exponent": {`{"keys":[{"kty":"RSA","e":"AQABAA","n":"AQ"},` + small + `]}`, `{"keys":[` + small + `]}`},
		"many":             {`{"keys":[` + many + `,` + small + `,` + elliptic + `]}`, `{"keys":[` + many + `]}`},
		"all":              {`{"keys":[` + small + `,` + elliptic + `]}`, `{"keys":[` + small + `,` + elliptic + `]}`},
		"a large one":      {`{"keys":[` + key(maxKey+8) + `,` + small + `]}`, `{"keys":[` + small + `]}`},
		"a huge one":       {`{"keys":[` + key(1<<20) + `]}`, `{"keys":[]}`},
		"no text":          {`{"keys":[{"n":1},[],null,` + elliptic + `]}`, `{"keys":[null,` + elliptic + `]}`},
		"two moduli":       {`{"keys":[{"n":"AQ","n":"AQ"}]}`, ""},
		"no JSON":          {`{`, ""},
		"no keys":          {`{}`, `{"keys":[]}`},
		"something else":   {`[]`, ""},
	} {
		got, err := usable([]byte(c.body))
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %.200s, %v", name, got, err)
		}
	}
}
