// Package docs tests the examples in the documentation: it runs the commands and requests
// against a real server and compares the output with the page.
package docs
