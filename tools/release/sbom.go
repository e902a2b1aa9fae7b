package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// normalizeSBOM removes from an SBOM (CycloneDX) what differs between two builds of a commit: its time becomes
// that of the commit, given as in RFC 3339, and the checksums of the tool that has written it, which depend on
// the build machine, are deleted.
func normalizeSBOM(path, at string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var bom map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&bom); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	metadata, _ := bom["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	if len(tools) == 0 {
		return errors.New(path + " has no metadata.tools")
	}
	metadata["timestamp"] = at
	for _, t := range tools {
		if tool, ok := t.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
	if text, err = json.MarshalIndent(bom, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
