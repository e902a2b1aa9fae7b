package webhook

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"atrium"
)

// CheckURL returns the faults of the URL of an endpoint: it must be absolute, without user, password or fragment,
// at most MaxURL characters long, and use https unless its host may be in the allowed networks. A host that is a
// name is not resolved: its addresses are checked when an event is sent.
func CheckURL(text string, allow []netip.Prefix) (faults []atrium.Fault) {
	fault := func(format string, args ...any) {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/url", Detail: fmt.Sprintf(format, args...)})
	}
	if len(text) > MaxURL {
		fault("must be at most %d characters long", MaxURL)
		return faults // what is long may be costly to look at
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		fault("must be an absolute URL, such as https://example.com/events")
		return faults
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		fault("must have only visible ASCII characters: write others of the host in Punycode, and of the path and query with %%")
	}
	if u.User != nil {
		fault("must have no user or password: use a header")
	}
	if strings.Contains(text, "#") {
		fault("must have no fragment")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			fault("must have a port from 1 to 65535, or none")
		}
	}
	return append(faults, hostFaults(u, allow)...)
}

// hostFaults returns the faults of the host of a URL, and of its scheme for that host.
func hostFaults(u *url.URL, allow []netip.Prefix) (faults []atrium.Fault) {
	fault := func(detail string) {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/url", Detail: detail})
	}
	const (
		bySetting  = "that the server allows with the setting webhook-allow (ATRIUM_WEBHOOK_ALLOW)"
		needsHTTPS = "must begin with https://: http:// is only for hosts " + bySetting
	)
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && !allowedWithTLS(addr, allow):
		fault("must have a public address, or one " + bySetting)
	case err == nil && u.Scheme == "http" && !allowedWithoutTLS(addr, allow):
		fault(needsHTTPS)
	case err == nil:
	case !isHostName(host):
		fault("must have a host name or an IP address in its usual form")
	case isLocal(host) && !loopbackAllowed(allow):
		fault("must not name this server, except by an address " + bySetting)
	case u.Scheme == "http" && len(allow) == 0:
		fault(needsHTTPS)
	}
	return faults
}

// loopbackAllowed reports whether an address of the loopback interface may be called without TLS.
func loopbackAllowed(allow []netip.Prefix) bool {
	return allowedWithoutTLS(netip.MustParseAddr("127.0.0.1"), allow) || allowedWithoutTLS(netip.IPv6Loopback(), allow)
}

// isLocal reports whether a name resolves to the loopback interface (RFC 6761 section 6.3).
func isLocal(host string) bool {
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isHostName reports whether a text is a host name. One that ends in a number is not: some resolvers read it as an
// IPv4 address in another notation.
func isHostName(host string) bool {
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	return strings.Trim(last, "0123456789") != "" && (!strings.HasPrefix(last, "0x") || strings.Trim(last[2:], "0123456789abcdef") != "")
}

// reserved has the headers that a tenant cannot set, in lower case. A name that ends with - stands for all that
// begin with it.
var reserved = []string{
	"accept-encoding", "connection", "content-", "expect", "forwarded", "host", "idempotency-key", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "user-agent", "via", "ce-", "proxy-", "sec-", "webhook-", "x-forwarded-", "x-webhook-",
}

// isReserved reports whether a tenant cannot set a header.
func isReserved(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(reserved, func(r string) bool {
		return name == r || strings.HasSuffix(r, "-") && strings.HasPrefix(name, r)
	})
}

// CheckHeaders returns the faults of the headers of an endpoint: at most MaxHeaders and MaxHeaderBytes of them, with
// valid names that differ, are not reserved, and have values of 1 to MaxHeaderValue visible ASCII characters and
// spaces.
func CheckHeaders(headers []Header) (faults []atrium.Fault) {
	fault := func(where, detail string) {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/headers" + where, Detail: detail})
	}
	if len(headers) > MaxHeaders {
		fault("", fmt.Sprintf("must have at most %d headers", MaxHeaders))
		return faults
	}
	seen, size := map[string]bool{}, 0
	for _, h := range headers {
		where := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(h.Name)
		size += len(h.Name) + len(h.Value)
		switch name := strings.ToLower(h.Name); {
		case !httpguts.ValidHeaderFieldName(h.Name):
			fault(where, "must be a valid header name")
		case isReserved(h.Name):
			fault(where, "is reserved and cannot be set")
		case seen[name]:
			fault(where, "repeats the name of another header")
		default:
			seen[name] = true
		}
		if !isHeaderValue(h.Value) {
			fault(where, fmt.Sprintf("must have a value of 1 to %d visible ASCII characters and spaces, without spaces around it", MaxHeaderValue))
		}
	}
	if size > MaxHeaderBytes {
		fault("", fmt.Sprintf("must have at most %d bytes of names and values", MaxHeaderBytes))
	}
	return faults
}

func isHeaderValue(value string) bool {
	if len(value) == 0 || len(value) > MaxHeaderValue || strings.TrimSpace(value) != value {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}
