// Command content reads a public page, with a client that oapi-codegen generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_TENANT=tenant_… ATRIUM_PAGE=page_… go run .
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"atrium/examples/oapi-codegen/content/atrium"
)

//go:generate go tool oapi-codegen -generate types,client -package atrium -o atrium/client.go openapi.yaml

func main() {
	client, err := atrium.NewClientWithResponses(os.Getenv("ATRIUM_SERVER")) // a public page needs no key
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *atrium.ClientWithResponses) error {
	page, err := client.GetContentWithResponse(ctx, os.Getenv("ATRIUM_TENANT"), os.Getenv("ATRIUM_PAGE"), nil)
	if err != nil {
		return err
	}
	if page.JSON200 == nil {
		return problem(page.Body)
	}
	fmt.Println(page.JSON200.Title)
	for _, audience := range page.JSON200.Audiences {
		content, err := json.Marshal(audience.Content) // nil if the version has none
		if err != nil {
			return err
		}
		fmt.Println("version", audience.VersionNumber, string(content))
	}
	return nil
}

// problem returns the error that a response describes.
func problem(body []byte) error {
	var p atrium.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
}
