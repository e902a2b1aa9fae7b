package config

import (
	"fmt"
	"testing"
	"time"
)

func TestRateFormats(t *testing.T) {
	for text, want := range map[string]Rate{
		"0": {}, "100/s": {100, time.Second}, "1/h": {1, time.Hour}, "6000/m": {6000, time.Minute}, "500/10s": {500, 10 * time.Second},
		"1000000/24h": {1_000_000, 24 * time.Hour}, "5/60s": {5, time.Minute}, "007/1s": {7, time.Second},
	} {
		r := Rate{1, 1}
		if err := r.Set(text); err != nil || r != want {
			t.Errorf("%q is %+v, %v, want %+v", text, r, err, want)
		}
		var again Rate
		if err := again.Set(r.String()); err != nil || again != want {
			t.Errorf("%q is written %q, which is %+v, %v", text, r.String(), again, err)
		}
	}
	for _, text := range []string{
		"", "/", "1", "1/", "/s", "0/s", "-1/s", "+1/s", "1/d", "1/ s", "1 /s", "1/0s", "1/-1s", "1/500ms", "1/1500ms", "1/25h", "1000001/s",
		"1.5/s", "1/s/s", "99999999999999999999/s", "1e3/s",
	} {
		r := Rate{7, time.Second}
		if err := r.Set(text); err == nil || r != (Rate{7, time.Second}) {
			t.Errorf("%q is %+v, %v", text, r, err)
		}
	}
}

func TestTrustedProxiesAreNetworksOrAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.0.0.0/8": "[10.0.0.0/8]", "10.1.2.3": "[10.1.2.3/32]", "10.1.2.3/8": "[10.0.0.0/8]",
		"::ffff:10.0.0.1":              "[10.0.0.1/32]", // an IPv4-mapped address, compared as IPv4
		"::1, 2001:db8::/32,192.0.2.7": "[::1/128 2001:db8::/32 192.0.2.7/32]",
	} {
		all, err := Networks(text)
		if err != nil || fmt.Sprint(all) != want {
			t.Errorf("%q is %v, %v, want %s", text, all, err, want)
		}
	}
	for _, text := range []string{" ", ",", "10.0.0.0/8,", "proxy.example", "10.0.0.0/33", "10.0.0", "10.0.0.1:80", "10.0.0.0/8 10.1.0.0/16", "::ffff:10.0.0.0/104"} {
		if all, err := Networks(text); err == nil {
			t.Errorf("%q is %v", text, all)
		}
		_, _, err := load(t, []string{"--trusted-proxies", text}, nil, "")
		wantFaults(t, err, fmt.Sprintf("trusted-proxies must be networks such as 10.0.0.0/8 or addresses, separated by commas: --trusted-proxies is %q", text))
	}
}

func TestLimitsOutOfRangeAreInvalid(t *testing.T) {
	_, _, err := load(t, []string{
		"--max-url", "100", "--max-header-fields", "1", "--max-query-parameters", "0", "--max-connections", "0", "--max-client-connections", "0",
		"--max-requests", "-1", "--request-wait", "2m",
	}, map[string]string{"ATRIUM_KEY_RATE": "fast"}, "")
	wantFaults(t, err,
		`ATRIUM_KEY_RATE: "fast" is not a rate such as 100/s`,
		`max-header-fields must be from 10 to 10000: --max-header-fields is "1"`,
		`max-url must be from 1KiB to 1MiB: --max-url is "100"`,
		`max-query-parameters must be from 10 to 10000: --max-query-parameters is "0"`,
		`max-connections must be from 10 to 1048576: --max-connections is "0"`,
		`max-client-connections must be from 1 to 1048576: --max-client-connections is "0"`,
		`max-requests must be from 0 to 1048576: --max-requests is "-1"`,
		`request-wait must be from 0s to 1m0s: --request-wait is "2m0s"`,
	)
}
