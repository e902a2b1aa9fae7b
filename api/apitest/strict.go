// Package apitest adds to the OpenAPI documents what tests check and what generators of clients
// cannot handle.
package apitest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed strict.yaml
var additions []byte

// object is a decoded JSON object.
type object = map[string]any

// Strict returns a document, as JSON, with these additions:
//   - the constraints of strict.yaml;
//   - in the schema of each error response, the type, status and code of its examples;
//   - for each GET operation, a HEAD operation with the same responses without bodies.
func Strict(document []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var root object
	if err := decoder.Decode(&root); err != nil {
		return nil, err
	}
	var byTitle map[string]object
	if err := yaml.Unmarshal(additions, &byTitle); err != nil {
		return nil, fmt.Errorf("strict.yaml: %w", err)
	}
	components := root["components"].(object)
	schemas := components["schemas"].(object)
	for name, added := range byTitle[root["info"].(object)["title"].(string)] {
		schema, ok := schemas[name].(object)
		if !ok {
			return nil, fmt.Errorf("strict.yaml: %s is not in the document", name)
		}
		merge(schema, added.(object))
	}
	for name, response := range components["responses"].(object) {
		if err := fixProblem(response.(object)); err != nil {
			return nil, fmt.Errorf("response %s: %w", name, err)
		}
	}
	paths, _ := root["paths"].(object) // none in a document of webhooks
	for _, item := range paths {
		item := item.(object)
		if get, ok := item["get"].(object); ok {
			item["head"] = head(get, components["responses"].(object))
		}
	}
	return json.Marshal(root)
}

// merge applies a JSON Merge Patch (RFC 7396).
func merge(target, patch object) {
	for name, value := range patch {
		inner, isObject := value.(object)
		old, wasObject := target[name].(object)
		switch {
		case value == nil:
			delete(target, name)
		case isObject && wasObject:
			merge(old, inner)
		default:
			target[name] = value
		}
	}
}

// fixProblem requires the type, the status and the code that all examples of an error response have.
// It does nothing with other responses.
func fixProblem(response object) error {
	content, _ := response["content"].(object)
	media, ok := content["application/problem+json"].(object)
	if !ok {
		return nil
	}
	examples, _ := media["examples"].(object)
	if one, ok := media["example"]; ok {
		examples = object{"": object{"value": one}}
	}
	fixed := object{}
	for _, name := range []string{"type", "status", "code"} {
		for _, example := range examples {
			value := example.(object)["value"].(object)[name]
			if known, ok := fixed[name].(object); ok && known["const"] != value {
				return fmt.Errorf("the examples have more than one %s", name)
			}
			fixed[name] = object{"const": value}
		}
	}
	if len(fixed) == 0 {
		return errors.New("has no example")
	}
	required := []string{}
	if fixed["code"].(object)["const"] == "invalid_request" {
		required = append(required, "errors")
	}
	media["schema"] = object{"allOf": []any{media["schema"], object{"properties": fixed, "required": required}}}
	return nil
}

// head returns the HEAD operation of a GET operation.
func head(get, components object) object {
	responses := object{}
	for status, response := range get["responses"].(object) {
		response := response.(object)
		if ref, ok := response["$ref"].(string); ok {
			response = components[strings.TrimPrefix(ref, "#/components/responses/")].(object)
		}
		response = maps.Clone(response)
		delete(response, "content")
		responses[status] = response
	}
	twin := maps.Clone(get)
	twin["operationId"] = "head " + get["operationId"].(string)
	twin["responses"] = responses
	return twin
}
