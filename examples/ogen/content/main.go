// Command content reads a public page, with a client that ogen generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_TENANT=tenant_… ATRIUM_PAGE=page_… go run .
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ogen-go/ogen/ogenerrors"

	"atrium/examples/ogen/content/atrium"
)

//go:generate go tool ogen --config ogen.yml --target atrium --package atrium --clean openapi.yaml

func main() {
	client, err := atrium.NewClient(os.Getenv("ATRIUM_SERVER"), anonymous{})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// anonymous sends requests without a key, which is enough for a public page.
type anonymous struct{}

func (anonymous) ApiKey(context.Context, atrium.OperationName) (atrium.ApiKey, error) {
	return atrium.ApiKey{}, ogenerrors.ErrSkipClientSecurity
}

func run(ctx context.Context, client *atrium.Client) error {
	response, err := client.GetContent(ctx, atrium.GetContentParams{TenantID: os.Getenv("ATRIUM_TENANT"), PageID: os.Getenv("ATRIUM_PAGE")})
	if err != nil {
		return err
	}
	page, ok := response.(*atrium.ContentHeaders)
	if !ok {
		return problem(response)
	}
	fmt.Println(page.Response.Title)
	for _, audience := range page.Response.Audiences {
		fmt.Println("version", audience.VersionNumber, audience.Content) // nil if the version has none
	}
	return nil
}

// problem returns the error that a response describes.
func problem(response any) error {
	if r, ok := response.(interface{ GetResponse() atrium.Problem }); ok {
		p := r.GetResponse()
		return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
	}
	return fmt.Errorf("unexpected response %T", response)
}
