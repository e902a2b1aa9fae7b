// Command external records an entry and lists all pages, with a client that ogen generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_KEY=atr_… go run .
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"atrium/examples/ogen/external/atrium"
)

//go:generate go tool ogen --config ogen.yml --target atrium --package atrium --clean openapi.yaml

func main() {
	client, err := atrium.NewClient(os.Getenv("ATRIUM_SERVER"), key(os.Getenv("ATRIUM_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// A key authenticates requests.
type key string

func (k key) ApiKey(context.Context, atrium.OperationName) (atrium.ApiKey, error) {
	return atrium.ApiKey{APIKey: string(k)}, nil
}

func run(ctx context.Context, client *atrium.Client) error {
	var payload atrium.NewAccountLogPayload
	if err := payload.UnmarshalJSON([]byte(`{"dealId":4711,"amount":1850.5,"products":["basic","support"]}`)); err != nil {
		return err
	}
	// With an idempotency key, the request can be repeated: it creates one entry.
	created, err := client.CreateAccountLog(ctx, &atrium.NewAccountLog{
		Source: "crm", Type: atrium.NewOptString("deal.won"), Domain: atrium.NewOptString("acme.example"),
		IdempotencyKey: atrium.NewOptString("deal-4711-won"), Payload: payload,
	}, atrium.CreateAccountLogParams{})
	if err != nil {
		return err
	}
	entry, ok := created.(*atrium.AccountLogHeaders)
	if !ok {
		return problem(created)
	}
	if ignored, ok := entry.AtriumIgnored.Get(); ok {
		log.Print("ignored: ", ignored) // names of fields that the server does not know
	}
	fmt.Println("recorded", entry.Response.AccountLogId, "of", entry.Response.AccountId)

	next := atrium.ListPagesParams{Limit: atrium.NewOptInt(2)}
	for {
		response, err := client.ListPages(ctx, next)
		if err != nil {
			return err
		}
		list, ok := response.(*atrium.PageListHeaders)
		if !ok {
			return problem(response)
		}
		for _, page := range list.Response.Items {
			fmt.Println(page.Status, page.Title, time.Time(page.UpdatedAt).Format(time.DateOnly))
		}
		if !list.Response.HasMore {
			return nil
		}
		next.Cursor = list.Response.NextCursor
	}
}

// problem returns the error that a response describes.
func problem(response any) error {
	if r, ok := response.(interface{ GetResponse() atrium.Problem }); ok {
		p := r.GetResponse()
		return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
	}
	return fmt.Errorf("unexpected response %T", response)
}
