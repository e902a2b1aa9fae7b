// Package docs tests the commands and requests of the documentation: what a page
// tells its reader to type is run against a real server, and what the page says
// comes back has to come back.
package docs
