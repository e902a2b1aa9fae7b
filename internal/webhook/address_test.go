package webhook

import (
	"net/netip"
	"testing"
)

func TestOnlyPublicAddressesMayBeCalled(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2606:4700::1111", "2001:200::1", "2a00::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1",
	} {
		if a := netip.MustParseAddr(text); !allowedWithTLS(a, nil) || allowedWithoutTLS(a, nil) {
			t.Errorf("%s: allowed with TLS %t, without TLS %t", text, allowedWithTLS(a, nil), allowedWithoutTLS(a, nil))
		}
	}
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
		"172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:8.8.8.8",
		"64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::192.168.1.1", "64:ff9b:1::8.8.8.8",
		"100::1", "2001::1", "2001:0:53aa:64c:0:0:80ff:fffe", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1",
		"2a00::5efe:10.0.0.1", "2a00::200:5efe:127.0.0.1", "4000::1", "5f00::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1",
	} {
		if a := netip.MustParseAddr(text); allowedWithTLS(a, nil) || allowedWithoutTLS(a, nil) {
			t.Errorf("%s: allowed with TLS %t, without TLS %t", text, allowedWithTLS(a, nil), allowedWithoutTLS(a, nil))
		}
	}
}

func TestSettingsAllowOtherNetworksButNeverMetadata(t *testing.T) {
	everything := prefixes("0.0.0.0/0", "::/0")
	for _, text := range []string{"10.0.0.1", "127.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::", "1.1.1.1", "64:ff9b:1::8.8.8.8", "64:ff9b:1:e001::8.8.8.8"} {
		if a := netip.MustParseAddr(text); !allowedWithTLS(a, everything) || !allowedWithoutTLS(a, everything) {
			t.Errorf("%s: allowed with TLS %t, without TLS %t", text, allowedWithTLS(a, everything), allowedWithoutTLS(a, everything))
		}
	}
	for _, text := range []string{
		"0.0.0.0", "::", "169.254.169.254", "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "2002:a9fe:a9fe::1", "::ffff:0:169.254.169.254",
		"2001:0:0:0:0:0:5601:5601", "2a00::5efe:169.254.169.254", "fe80::1", "fe80::1%eth0", "ff02::1", "224.0.0.1", "255.255.255.255",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
		"64:ff9b:1:a9fe:a9:fe00:808:808", "64:ff9b:1:a9:fe:a9fe:808:808", "64:ff9b:1:1:a9:fea9:fe08:808", "64:ff9b:1:6464:64:c800:808:808",
	} {
		if a := netip.MustParseAddr(text); allowedWithTLS(a, everything) || allowedWithoutTLS(a, everything) {
			t.Errorf("%s: allowed with TLS %t, without TLS %t", text, allowedWithTLS(a, everything), allowedWithoutTLS(a, everything))
		}
	}
	private := prefixes("10.1.0.0/16", "fd00:1::/32")
	for text, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "fd00:1::1": true, "fd00:2::1": false, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "64:ff9b::10.2.0.1": false, "127.0.0.1": false,
	} {
		if a := netip.MustParseAddr(text); allowedWithTLS(a, private) != want || allowedWithoutTLS(a, private) != want {
			t.Errorf("%s: allowed with TLS %t, without TLS %t, want %t", text, allowedWithTLS(a, private), allowedWithoutTLS(a, private), want)
		}
	}
}
