// Package api holds the OpenAPI documents of the HTTP APIs, ready to be served.
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

// The documents. Each stands alone: none refers to another.
var (
	External = document("openapi.yaml", external) // of the external API, /v0
	Manage   = document("manage.yaml", manage)    // of the management API, /manage/v0
)

// A Document describes one API.
type Document struct {
	name string // of its file
	yaml []byte
	json func() []byte
}

// YAML returns the document as it is written. The slice is shared: callers must
// not change it.
func (d Document) YAML() []byte { return d.yaml }

// JSON returns the document as JSON: the values of YAML, with the members of
// every object in the order in which the YAML has them, so the bytes are the
// same in every process of one build. The slice is shared: callers must not
// change it.
func (d Document) JSON() []byte { return d.json() }

// The documents are part of the binary, so a failure is a fault of the build: the
// tests find it.
func document(name string, text []byte) Document {
	return Document{name, text, sync.OnceValue(func() []byte {
		j, err := toJSON(text)
		if err != nil {
			panic(fmt.Errorf("api: convert %s: %w", name, err)) //nolint:forbidigo // a constant of this package
		}
		return j
	})}
}

// toJSON walks the nodes rather than decode into maps, which would lose the
// order of the members.
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
		// OpenAPI reads YAML by the JSON schema of YAML 1.2, to which a bare
		// date is a string.
		if n.ShortTag() == "!!timestamp" {
			return writeValue(b, n.Value)
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeValue(b, v)
	default:
		// References of OpenAPI do what aliases would: the document has none.
		return fmt.Errorf("line %d: an alias", n.Line)
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
