// Package api embeds the OpenAPI documents of the HTTP APIs.
package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var external []byte

//go:embed manage.yaml
var manage []byte

//go:embed content.yaml
var content []byte

//go:embed receive.yaml
var receive []byte

//go:embed events.yaml
var events []byte

// The documents. No document refers to another one.
var (
	External = document("openapi.yaml", external) // of the external API, /v0
	Manage   = document("manage.yaml", manage)    // of the management API, /manage/v0
	Content  = document("content.yaml", content)  // of the content API, /content/v0
	Receive  = document("receive.yaml", receive)  // of the addresses of receivers, /in
	Events   = document("events.yaml", events)    // of what the server sends to webhooks
)

// A Document describes one API.
type Document struct {
	name string // the file name
	yaml []byte
	json func() []byte
}

// YAML returns the source of the document. Callers must not modify the slice.
func (d Document) YAML() []byte { return d.yaml }

// JSON returns the document as JSON, with the members of each object in the order of the
// YAML. The bytes are the same in every process of a build. Callers must not modify the slice.
func (d Document) JSON() []byte { return d.json() }

// document returns an embedded document. Its JSON panics if the YAML is invalid, which the
// tests detect.
func document(name string, text []byte) Document {
	return Document{name, text, sync.OnceValue(func() []byte {
		j, err := toJSON(text)
		if err != nil {
			panic(fmt.Errorf("api: convert %s: %w", name, err)) //nolint:forbidigo // a constant of this package
		}
		return j
	})}
}

// toJSON converts YAML nodes instead of decoding into maps, which would lose the order of
// the members.
func toJSON(doc []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := writeJSON(&b, &root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeJSON(b, n.Content[0])
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeValue(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		// OpenAPI uses the JSON schema of YAML 1.2, in which an unquoted date is a
		// string.
		if n.ShortTag() == "!!timestamp" {
			return writeValue(b, n.Value)
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeValue(b, v)
	default:
		return fmt.Errorf("line %d: YAML aliases are not supported; use $ref", n.Line)
	}
	return nil
}

func writeValue(b *bytes.Buffer, v any) error {
	j, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.Write(j)
	return nil
}
