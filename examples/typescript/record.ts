// Records an entry and lists all pages, with types that openapi-typescript generates.
//
//   ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_KEY=atr_… npm run external

import createClient from "openapi-fetch";
import type { components, paths } from "./external.js";

type Problem = components["schemas"]["Problem"];
type NewEntry = components["schemas"]["NewAccountLog"];

const client = createClient<paths>({
  baseUrl: process.env["ATRIUM_SERVER"] ?? "",
  headers: { "x-api-key": process.env["ATRIUM_KEY"] },
});

// explain returns the error that a problem describes.
const explain = (p: Problem) => new Error(`${p.code}: ${p.detail} (request ${p.requestId})`);

async function* allPages() {
  let cursor: string | undefined;
  do {
    const { data, error } = await client.GET("/v0/pages", { params: { query: { limit: 2, ...(cursor && { cursor }) } } });
    if (error) throw explain(error);
    yield* data.items;
    cursor = data.nextCursor;
  } while (cursor);
}

// With an idempotency key, the request can be repeated: it creates one entry. With its type, the body
// cannot have a misspelled field.
const body: NewEntry = {
  source: "crm",
  type: "deal.won",
  domain: "acme.example",
  idempotencyKey: "deal-4711-won",
  payload: { dealId: 4711, amount: 1850.5, products: ["basic", "support"] },
};
const { data: entry, error, response } = await client.POST("/v0/account_logs", { body });
if (error) throw explain(error);
const ignored = response.headers.get("Atrium-Ignored"); // names of fields that the server does not know
if (ignored) console.warn("ignored:", ignored);
console.log("recorded", entry.accountLogId, "of", entry.accountId);

for await (const page of allPages()) {
  console.log(page.status, page.title, page.updatedAt.slice(0, 10));
}
