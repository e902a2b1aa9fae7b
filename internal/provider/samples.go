package provider

import (
	"bytes"
	"embed"
	"path"
	"strings"

	"atrium"
)

// samples has a delivery of each provider that defines the content of its deliveries: headers, an empty line, and the body. They
// are written by hand, with the members that the providers document.
//
//go:embed samples
var samples embed.FS

// Sample returns a delivery as the provider sends them, without the headers that authenticate it. Its names are in lower case.
func (p *Provider) Sample() (headers []atrium.Header, body []byte) {
	file, err := samples.ReadFile(path.Join("samples", string(p.Name)+".http"))
	if err != nil { // the sender defines the content
		file, _ = samples.ReadFile("samples/other.http")
	}
	head, body, _ := bytes.Cut(file, []byte("\n\n"))
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		headers = append(headers, atrium.Header{Name: strings.ToLower(name), Value: value})
	}
	return headers, bytes.TrimSpace(body)
}
