package provider_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"atrium"
	"atrium/internal/provider"
)

var (
	secret = []byte("a secret")
	other  = []byte("another secret")
	signed = []byte(`{"id":"1","text":"grüß"}`)
	now    = time.Unix(1772442000, 0)
)

const address = "https://atrium.example/in/receiver_00000000000000000000000001?a=%2Fb%3F%20c"

// A sample is a request that is verified. The signatures were computed by Python's hmac.
type sample struct {
	provider atrium.ReceiverProvider
	secret   string // "a secret" if empty
	headers  string // name: value, separated by line breaks
	v        atrium.Verification
}

func (s *sample) request() (r *provider.Request, secrets [][]byte) {
	r = &provider.Request{Method: "POST", URL: address, Headers: headers(s.headers), Body: slices.Clone(signed), Now: now}
	if s.secret != "" {
		return r, [][]byte{[]byte(s.secret)}
	}
	return r, [][]byte{secret}
}

func headers(text string) (all []atrium.Header) {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		all = append(all, atrium.Header{Name: name, Value: value})
	}
	return all
}

var samples = []sample{
	{provider: atrium.ProviderGitHub, headers: "x-hub-signature-256: sha256=69c12fb55586a2a550f019187ec1cce7849a88df80aa16044d334d214620d249"},
	{provider: atrium.ProviderStripe, headers: "stripe-signature: t=1772442000,v1=30bbec40301c9e14871f52ddb50a8afdc64d232c1229e26d87e051da21a3436a"},
	{provider: atrium.ProviderHubSpot, headers: "x-hubspot-signature-v3: Bj4SFmlcHmqhZpYTitoyysS0uPfAvUq7kw4zx7cMnNg=\nx-hubspot-request-timestamp: 1772442000000"},
	{provider: atrium.ProviderSlack, headers: "x-slack-signature: v0=911637887eb42605382581210a9e24f9948f492c4bf8aa42f05b9e39833ed20f\nx-slack-request-timestamp: 1772442000"},
	{provider: atrium.ProviderShopify, headers: "x-shopify-hmac-sha256: acEvtVWGoqVQ8BkYfsHM54SaiN+AqhYETTNNIUYg0kk="},
	{provider: atrium.ProviderIntercom, headers: "x-hub-signature: sha1=c7b5f282206fd19bb5c96ea19d12d815052f4c63"},
	{provider: atrium.ProviderSegment, headers: "x-signature: c7b5f282206fd19bb5c96ea19d12d815052f4c63"},
	{provider: atrium.ProviderMeta, headers: "x-hub-signature-256: sha256=69c12fb55586a2a550f019187ec1cce7849a88df80aa16044d334d214620d249"},
	{
		provider: atrium.ProviderStandardWebhooks, secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		headers: "webhook-id: msg_7\nwebhook-timestamp: 1772442000\nwebhook-signature: v1,WXCoM6hbKEzw4hNiRv6am/KIXzT8brIYld+Th5abHvU=",
	},
	{
		provider: atrium.ProviderStandardWebhooks, secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		headers: "svix-id: msg_7\nsvix-timestamp: 1772442000\nsvix-signature: v1,AAAA v1a,xx v1,WXCoM6hbKEzw4hNiRv6am/KIXzT8brIYld+Th5abHvU=",
	},
	{
		provider: atrium.ProviderHMAC, headers: "x-shop-signature: nKDk5HsNIGAPjSfhUaOcrfX/PJ+TAIyF0PM7BUweg62vxA54ycBwWHtpWtIqd8Yevkhf05D1qPUAwyu0J8xYHw==\nx-shop-id: msg_7\nx-shop-time: 1772442000",
		v: atrium.Verification{
			Header: "X-Shop-Signature", Algorithm: "sha512", Encoding: "base64", Content: "v2|{id}|{timestamp}|{body}",
			TimestampHeader: "X-Shop-Time", IDHeader: "X-Shop-Id", Tolerance: 300,
		},
	},
	{
		provider: atrium.ProviderHMAC, headers: "x-signature: sha1=c7b5f282206fd19bb5c96ea19d12d815052f4c63",
		v: atrium.Verification{Header: "x-signature", Algorithm: "sha1", Encoding: "hex", Prefix: "sha1="},
	},
	{provider: atrium.ProviderToken, headers: "x-token: key a secret", v: atrium.Verification{Header: "X-Token", Prefix: "key "}},
	{provider: atrium.ProviderToken, headers: "authorization: bearer a secret", v: atrium.Verification{Header: "Authorization"}},
	{provider: atrium.ProviderBasic, headers: "authorization: Basic YXRyaXVtOmEgc2VjcmV0", v: atrium.Verification{Username: "atrium"}},
}

// signsBody reports whether the provider's signature has the body.
func signsBody(p atrium.ReceiverProvider) bool {
	return p != atrium.ProviderToken && p != atrium.ProviderBasic
}

func TestRequestsOfEveryProviderAreVerified(t *testing.T) {
	for _, name := range atrium.ReceiverProviders() {
		if !slices.ContainsFunc(samples, func(s sample) bool { return s.provider == name }) {
			t.Errorf("%s has no sample", name)
		}
		if p := provider.Of(name); p == nil || p.Name != name || p.Title == "" || len(p.Steps) == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for i := range samples {
		s := &samples[i]
		r, secrets := s.request()
		if faults := provider.Check(s.provider, &s.v); len(faults) > 0 {
			t.Errorf("%s: %+v", s.provider, faults)
		}
		for _, valid := range [][][]byte{secrets, {other, secrets[0]}, {nil, secrets[0], other}} {
			if reason := provider.Verify(s.provider, r, valid, &s.v); reason != "" {
				t.Errorf("%s: %s", s.provider, reason)
			}
		}
	}
}

func TestRequestsThatDifferAreNotVerified(t *testing.T) {
	for i := range samples {
		s := &samples[i]
		refused := func(what string, change func(r *provider.Request, secrets *[][]byte)) {
			t.Helper()
			r, secrets := s.request()
			change(r, &secrets)
			if reason := provider.Verify(s.provider, r, secrets, &s.v); reason == "" {
				t.Errorf("%s: %s is verified", s.provider, what)
			} else if strings.Contains(string(reason), "a secret") {
				t.Errorf("%s: the reason has the secret: %s", s.provider, reason)
			}
		}
		refused("another secret", func(_ *provider.Request, secrets *[][]byte) { *secrets = [][]byte{other} })
		refused("no secret", func(_ *provider.Request, secrets *[][]byte) { *secrets = nil })
		refused("an empty secret", func(_ *provider.Request, secrets *[][]byte) { *secrets = [][]byte{{}, nil} })
		refused("a GET request", func(r *provider.Request, _ *[][]byte) { r.Method = "GET" })
		for n, h := range headers(s.headers) {
			refused("without "+h.Name, func(r *provider.Request, _ *[][]byte) { r.Headers = slices.Delete(r.Headers, n, n+1) })
			refused("a repeated "+h.Name, func(r *provider.Request, _ *[][]byte) { r.Headers = append(r.Headers, h) })
			for _, value := range []string{"", " ", h.Value + " ", h.Value + "0", h.Value[:len(h.Value)-1], h.Value + "\n", "\x00", strings.Repeat("a", 1<<20), strings.Repeat(h.Value+",", 1000)} {
				if s.provider == atrium.ProviderStandardWebhooks && value == h.Value+" " {
					continue // the signatures are separated by spaces
				}
				refused(h.Name+" of "+value[:min(len(value), 80)], func(r *provider.Request, _ *[][]byte) { r.Headers[n].Value = value })
			}
		}
		if !signsBody(s.provider) {
			continue
		}
		for at := range signed {
			refused("an altered body", func(r *provider.Request, _ *[][]byte) { r.Body[at] ^= 1 })
		}
		refused("an empty body", func(r *provider.Request, _ *[][]byte) { r.Body = nil })
		refused("a longer body", func(r *provider.Request, _ *[][]byte) { r.Body = append(r.Body, '\n') })
	}
	if provider.Verify("unknown", &provider.Request{Method: "POST"}, [][]byte{secret}, &atrium.Verification{}) == "" {
		t.Error("an unknown provider is verified")
	}
}

// Headers that do not verify a request with any body are refused before its body is read, and no others.
func TestHeadersAreVerifiedBeforeTheBodyArrives(t *testing.T) {
	for i := range samples {
		s := &samples[i]
		r, secrets := s.request()
		r.Body = nil
		bad := []byte("whsec_not base64") // of a provider whose secrets have a form
		verified, reason := provider.VerifyHeaders(s.provider, r, append(secrets, bad), &s.v)
		if signs := signsBody(s.provider); reason != "" || verified == signs {
			t.Errorf("%s: verified %v, %q", s.provider, verified, reason)
		}
		if len(r.Headers) == 0 {
			t.Fatal("a sample has no headers")
		}
		r.Headers = nil
		if verified, reason := provider.VerifyHeaders(s.provider, r, secrets, &s.v); verified || reason == "" {
			t.Errorf("%s without headers: verified %v, %q", s.provider, verified, reason)
		}
		r, _ = s.request()
		verified, reason = provider.VerifyHeaders(s.provider, r, [][]byte{other}, &s.v)
		if verified || (reason == "") != signsBody(s.provider) && s.provider != atrium.ProviderStandardWebhooks {
			t.Errorf("%s with another secret: verified %v, %q", s.provider, verified, reason)
		}
	}
	if verified, _ := provider.VerifyHeaders(atrium.ProviderToken, &provider.Request{Method: "POST"}, nil, &atrium.Verification{}); verified {
		t.Error("verified without a secret")
	}
}

func TestHubSpotSignsTheAddress(t *testing.T) {
	s := &samples[2]
	r, secrets := s.request()
	for _, url := range []string{
		"http://atrium.example/in/receiver_00000000000000000000000001?a=%2Fb%3F%20c", "https://atrium.example/in/receiver_00000000000000000000000001", "",
	} {
		r.URL = url
		if provider.Verify(s.provider, r, secrets, &s.v) == "" {
			t.Errorf("%s is verified", url)
		}
	}
}

func TestOldAndFutureTimestampsAreRefused(t *testing.T) {
	for i := range samples {
		s := &samples[i]
		if !strings.Contains(s.headers, "1772442000") {
			continue
		}
		for offset, ok := range map[time.Duration]bool{
			300 * time.Second: true, -300 * time.Second: true, 301 * time.Second: false, -301 * time.Second: false, 100 * 365 * 24 * time.Hour: false,
		} {
			r, secrets := s.request()
			r.Now = now.Add(offset)
			if reason := provider.Verify(s.provider, r, secrets, &s.v); (reason == "") != ok {
				t.Errorf("%s after %v: %q", s.provider, offset, reason)
			}
		}
		for _, timestamp := range []string{
			"", "-1772442000", "+1772442000", "1772442000.0", "01772442000", "17724420000000000", "9223372036854775807", "99999999999999999999", "1e9", "１７７２４４２０００", "2026-03-02",
		} {
			r, secrets := s.request()
			for n := range r.Headers {
				r.Headers[n].Value = strings.ReplaceAll(strings.ReplaceAll(r.Headers[n].Value, "1772442000000", timestamp), "1772442000", timestamp)
			}
			if provider.Verify(s.provider, r, secrets, &s.v) == "" {
				t.Errorf("%s: timestamp %q is verified", s.provider, timestamp)
			}
		}
	}
}

// The vectors are those of the documentation of GitHub, Slack and Standard Webhooks.
func TestDocumentedVectorsAreVerified(t *testing.T) {
	for name, c := range map[string]struct {
		provider     atrium.ReceiverProvider
		secret, body string
		headers      string
		at           int64
	}{
		"GitHub": {atrium.ProviderGitHub, "It's a Secret to Everybody", "Hello, World!", "x-hub-signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", 0},
		"Slack": {
			atrium.ProviderSlack, "8f742231b10e8888abcd99yyyzzz85a5",
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
				"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			"x-slack-signature: v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503\nx-slack-request-timestamp: 1531420618", 1531420618,
		},
		"Standard Webhooks": {
			atrium.ProviderStandardWebhooks, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`,
			"webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nwebhook-timestamp: 1614265330\nwebhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", 1614265330,
		},
	} {
		r := &provider.Request{Method: "POST", Headers: headers(c.headers), Body: []byte(c.body), Now: time.Unix(c.at, 0)}
		if reason := provider.Verify(c.provider, r, [][]byte{[]byte(c.secret)}, &atrium.Verification{}); reason != "" {
			t.Errorf("%s: %s", name, reason)
		}
	}
}

func TestSignaturesOfTheOfficialLibraryAreVerified(t *testing.T) {
	for n := range 100 {
		key := []byte(strings.Repeat(strconv.Itoa(n), 24))
		text := "whsec_" + base64.StdEncoding.EncodeToString(key)
		sender, err := standardwebhooks.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(`{"n":` + strconv.Itoa(n) + `}`)
		signature, err := sender.Sign("msg_"+strconv.Itoa(n), now, body)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h.Set("webhook-id", "msg_"+strconv.Itoa(n))
		h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))+" "+signature)
		r := &provider.Request{Method: "POST", Body: body, Now: now}
		for name := range h {
			r.Headers = append(r.Headers, atrium.Header{Name: strings.ToLower(name), Value: h.Get(name)})
		}
		if reason := provider.Verify(atrium.ProviderStandardWebhooks, r, [][]byte{[]byte(text)}, &atrium.Verification{}); reason != "" {
			t.Errorf("%d: %s", n, reason)
		}
	}
}

// Somebody who has captured a delivery could otherwise send it again as another event.
func TestAnUnsignedIdentifierIsRefused(t *testing.T) {
	sender, err := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	signature, err := sender.Sign("msg_1", now, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	signed := "svix-id: msg_1\nsvix-timestamp: " + strconv.FormatInt(now.Unix(), 10) + "\nsvix-signature: " + signature
	for added, verified := range map[string]bool{"": true, "\nwebhook-id: msg_2": false, "\nwebhook-id: msg_1": false} {
		r := &provider.Request{Method: "POST", Body: []byte("{}"), Now: now, Headers: headers(signed + added)}
		reason := provider.Verify(atrium.ProviderStandardWebhooks, r, [][]byte{[]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}, &atrium.Verification{})
		if (reason == "") != verified {
			t.Errorf("with %q: %q", added, reason)
		}
	}
}

func TestTimestampsHaveThreeForms(t *testing.T) {
	v := atrium.Verification{
		Header: "x-sig", Algorithm: "sha256", Encoding: "hex", Content: "{timestamp}{body}", TimestampHeader: "x-time", Tolerance: 60,
	}
	for _, timestamp := range []string{"1772442000", "1772442000000", "2026-03-02T09:00:00Z", "2026-03-02T10:00:00+01:00"} {
		r := &provider.Request{Method: "POST", Now: now, Headers: headers("x-time: " + timestamp + "\nx-sig: " + strings.Repeat("0", 64))}
		if reason := provider.Verify(atrium.ProviderHMAC, r, [][]byte{secret}, &v); !strings.HasPrefix(string(reason), "the signature does not match") {
			t.Errorf("%s: %s", timestamp, reason)
		}
		r.Now = now.Add(61 * time.Second)
		if reason := provider.Verify(atrium.ProviderHMAC, r, [][]byte{secret}, &v); !strings.HasPrefix(string(reason), "the timestamp differs") {
			t.Errorf("%s: %s", timestamp, reason)
		}
	}
}

func TestOneOfSeveralStripeSignaturesSuffices(t *testing.T) {
	valid := "v1=30bbec40301c9e14871f52ddb50a8afdc64d232c1229e26d87e051da21a3436a"
	for value, ok := range map[string]bool{
		"t=1772442000,v1=00," + valid: true,
		valid + ",t=1772442000":       true,
		"t=1772442000,v0=30bbec40301c9e14871f52ddb50a8afdc64d232c1229e26d87e051da21a3436a": false,
		"t=1772442000,t=1772442000," + valid:                                               false,
		"t=1772442000, " + valid:                                                           false,
		valid:                                                                              false,
		"t=1772442000":                                                                     false,
		"t=1772442000," + strings.Repeat("v1="+valid[3:]+"0,", 30) + valid:     false,
		"t=1772442000,v1=" + strings.ToUpper(strings.TrimPrefix(valid, "v1=")): true,
	} {
		r := &provider.Request{Method: "POST", Headers: headers("stripe-signature: " + value), Body: signed, Now: now}
		if reason := provider.Verify(atrium.ProviderStripe, r, [][]byte{secret}, &atrium.Verification{}); (reason == "") != ok {
			t.Errorf("%.200s: %q", value, reason)
		}
	}
}

func TestBodyWithPlaceholdersIsSignedAsItIs(t *testing.T) {
	v := atrium.Verification{Header: "x-sig", Algorithm: "sha256", Encoding: "hex", Content: "{body}.{id}", IDHeader: "x-id"}
	r := &provider.Request{Method: "POST", Body: []byte("{id}"), Headers: headers("x-id: {body}\nx-sig: 71c8950020905e0e2b1c153462ea68861ac02e61ab8877f2527e703b1cd1a755")}
	if reason := provider.Verify(atrium.ProviderHMAC, r, [][]byte{secret}, &v); reason != "" {
		t.Error(reason)
	}
}

func TestFaultsOfVerificationsAreFound(t *testing.T) {
	valid := atrium.Verification{Header: "X-Signature", Algorithm: "sha256", Encoding: "hex"}
	change := func(f func(v *atrium.Verification)) atrium.Verification { v := valid; f(&v); return v }
	for name, c := range map[string]struct {
		provider atrium.ReceiverProvider
		v        atrium.Verification
		where    string // of the faults, separated by spaces
	}{
		"valid":            {atrium.ProviderHMAC, valid, ""},
		"nothing":          {atrium.ProviderHMAC, atrium.Verification{}, "/header /algorithm /encoding"},
		"header":           {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Header = "a b" }), "/header"},
		"long header":      {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Header = strings.Repeat("a", 201) }), "/header"},
		"md5":              {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Algorithm = "md5" }), "/algorithm"},
		"prefix":           {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Prefix = "a\x00" }), "/prefix"},
		"no body":          {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Content = "static" }), "/content"},
		"unknown":          {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Content = "{body}{url}" }), "/content"},
		"no header of id":  {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Content = "{id}{body}" }), "/idHeader"},
		"no tolerance":     {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Content, v.TimestampHeader = "{timestamp}{body}", "t" }), "/tolerance"},
		"unsigned time":    {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.TimestampHeader, v.Tolerance = "t", 5 }), "/content"},
		"long tolerance":   {atrium.ProviderHMAC, change(func(v *atrium.Verification) { v.Tolerance = 86401 }), "/tolerance"},
		"known provider":   {atrium.ProviderGitHub, valid, "/header /algorithm /encoding"},
		"token":            {atrium.ProviderToken, atrium.Verification{Header: "x-token"}, ""},
		"token prefix":     {atrium.ProviderToken, atrium.Verification{Header: "Authorization", Prefix: "Token "}, "/prefix"},
		"token tolerance":  {atrium.ProviderToken, atrium.Verification{Header: "x-token", Tolerance: 1}, "/tolerance"},
		"basic":            {atrium.ProviderBasic, atrium.Verification{Username: "a"}, ""},
		"basic without":    {atrium.ProviderBasic, atrium.Verification{}, "/username"},
		"basic with colon": {atrium.ProviderBasic, atrium.Verification{Username: "a:b"}, "/username"},
	} {
		var where []string
		for _, f := range provider.Check(c.provider, &c.v) {
			where = append(where, f.Where)
		}
		if got := strings.Join(where, " "); got != c.where {
			t.Errorf("%s: faults at %q, want %q", name, got, c.where)
		}
	}
}

func TestMetaIsAnsweredWithTheVerifyTokenOfASecret(t *testing.T) {
	token := provider.VerifyToken(secret)
	if token != "66adbffd8175df6a246ad64d1bf3fd45" { // computed by Python's hmac
		t.Error(token)
	}
	get := func(query string) *provider.Request { return &provider.Request{Method: "GET", Query: query} }
	valid := "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=" + token
	if text, reason := provider.Subscribe(atrium.ProviderMeta, get(valid), [][]byte{other, secret}); text != "1158201444" || reason != "" {
		t.Errorf("%q, %s", text, reason)
	}
	for _, query := range []string{
		"", "hub.mode=subscribe&hub.challenge=1158201444", "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=", valid + "&hub.verify_token=" + token, valid[:len(valid)-1],
		"hub.mode=unsubscribe&hub.challenge=1158201444&hub.verify_token=" + token, "hub.mode=subscribe&hub.challenge=%3Cscript%3E&hub.verify_token=" + token, valid + "&%zz",
		"hub.mode=subscribe&hub.challenge=" + strings.Repeat("1", 1000) + "&hub.verify_token=" + token,
	} {
		if text, reason := provider.Subscribe(atrium.ProviderMeta, get(query), [][]byte{secret}); text != "" || reason == "" {
			t.Errorf("%s: %q", query, text)
		}
	}
	if text, reason := provider.Subscribe(atrium.ProviderMeta, get(strings.Replace(valid, token, provider.VerifyToken(nil), 1)), [][]byte{nil, {}}); text != "" || reason == "" {
		t.Error("the token of an empty secret is verified")
	}
	if text, reason := provider.Subscribe(atrium.ProviderSlack, get(valid), [][]byte{secret}); text != "" || reason == "" {
		t.Error("another provider is subscribed")
	}
}

func TestSlackChallengesAreAnswered(t *testing.T) {
	for body, want := range map[string]string{
		`{"token":"a","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
		`{"challenge":"a","type":"event_callback"}`:                                  "",
		`{"challenge":"<a>","type":"url_verification"}`:                              "",
		`{"challenge":"` + strings.Repeat("a", 501) + `","type":"url_verification"}`: "",
		`{"challenge":1,"type":"url_verification"}`:                                  "",
		`{"type":"url_verification"}`:                                                "",
		``:                                                                           "",
		`{"challenge":"a","type":"url_verification","x":"` + strings.Repeat("a", 5000) + `"}`: "",
	} {
		if text, ok := provider.Challenge(atrium.ProviderSlack, &provider.Request{Body: []byte(body)}); text != want || ok != (want != "") {
			t.Errorf("%.100s: %q", body, text)
		}
		if _, ok := provider.Challenge(atrium.ProviderGitHub, &provider.Request{Body: []byte(body)}); ok {
			t.Errorf("%.100s: another provider is answered", body)
		}
	}
}

func TestHeadersThatAuthenticateAreNamed(t *testing.T) {
	for i := range samples {
		s := &samples[i]
		names := provider.Of(s.provider).Headers(&s.v)
		for _, h := range headers(s.headers) {
			if secret := strings.Contains(h.Name, "signature") || strings.Contains(h.Name, "hmac") || strings.Contains(h.Name, "token") || h.Name == "authorization"; secret && !slices.Contains(names, h.Name) {
				t.Errorf("%s: %s authenticates, and is not in %v", s.provider, h.Name, names)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	for i := range samples {
		f.Add(i, samples[i].headers, signed, "v1|{timestamp}|{id}|{body}")
	}
	f.Fuzz(func(t *testing.T, n int, text string, body []byte, content string) {
		s := samples[max(0, n)%len(samples)]
		if s.v.Content != "" {
			s.v.Content = content
		}
		r := &provider.Request{Method: "POST", URL: address, Headers: headers(text), Body: body, Now: now, Query: text}
		if provider.Verify(s.provider, r, [][]byte{[]byte("no fuzzer guesses this"), nil}, &s.v) == "" {
			t.Fatalf("%s is verified: %q", s.provider, text)
		}
		r.Method = "GET"
		if _, reason := provider.Subscribe(s.provider, r, [][]byte{[]byte("no fuzzer guesses this")}); reason == "" {
			t.Fatalf("%s is subscribed: %q", s.provider, text)
		}
		_, _ = provider.Challenge(s.provider, r) // must not panic
		_ = provider.Check(s.provider, &s.v)
	})
}
