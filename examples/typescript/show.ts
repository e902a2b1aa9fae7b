// Reads a public page, with types that openapi-typescript generates.
//
//   ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_TENANT=tenant_… ATRIUM_PAGE=page_… npm run content

import createClient from "openapi-fetch";
import type { paths } from "./content.js";

const client = createClient<paths>({ baseUrl: process.env["ATRIUM_SERVER"] ?? "" }); // a public page needs no key

const { data: page, error } = await client.GET("/content/v0/{tenant_id}/pages/{page_id}", {
  params: { path: { tenant_id: process.env["ATRIUM_TENANT"] ?? "", page_id: process.env["ATRIUM_PAGE"] ?? "" } },
});
if (error) throw new Error(`${error.code}: ${error.detail} (request ${error.requestId})`);
console.log(page.title);
for (const audience of page.audiences) {
  console.log("version", audience.versionNumber, JSON.stringify(audience.content)); // undefined if the version has none
}
