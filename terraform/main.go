// Command terraform-provider-atrium manages Atrium from Terraform and OpenTofu.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"atrium/terraform/internal/provider"
)

// version is set by the linker in releases.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run the provider for a debugger")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: provider.Address, Debug: *debug, ProtocolVersion: 6,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-atrium:", err)
		os.Exit(1)
	}
}
