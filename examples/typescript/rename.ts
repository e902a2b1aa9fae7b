// Records past entries, finds their account and renames it, with types that openapi-typescript generates.
//
//   ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_MANAGE_KEY=atr_… npm run manage

import createClient from "openapi-fetch";
import type { components, paths } from "./manage.js";

type Problem = components["schemas"]["Problem"];
type NewEntries = components["schemas"]["NewAccountLogs"];

const client = createClient<paths>({
  baseUrl: process.env["ATRIUM_SERVER"] ?? "",
  headers: { "x-api-key": process.env["ATRIUM_MANAGE_KEY"] },
});

// explain returns the error that a problem describes.
const explain = (p: Problem) => new Error(`${p.code}: ${p.detail} (request ${p.requestId})`);

const body: NewEntries = {
  entries: [
    { source: "crm", domain: "past.example", idempotencyKey: "past-1", payload: { dealId: 1 }, occurredAt: "2026-01-02T15:04:05Z" },
    // The account does not exist: this entry is refused, and the other one recorded.
    { source: "crm", accountId: "account_00000000000000000000000000", payload: { dealId: 2 } },
  ],
};
const recorded = await client.POST("/manage/v0/account_logs", { body });
if (recorded.error) throw explain(recorded.error);
for (const outcome of recorded.data.outcomes) {
  if ("code" in outcome) console.log("refused:", outcome.code);
}

const list = await client.GET("/manage/v0/accounts", { params: { query: { domain: "past.example" } } });
if (list.error) throw explain(list.error);
for (const { accountId } of list.data.items) {
  const path = { account_id: accountId };
  const read = await client.GET("/manage/v0/accounts/{account_id}", { params: { path } });
  if (read.error) throw explain(read.error);
  // The entity tag protects a change that this program has not seen.
  const renamed = await client.PATCH("/manage/v0/accounts/{account_id}", {
    params: { path, header: { "If-Match": read.response.headers.get("ETag") ?? "" } },
    body: { name: "Past Example" },
  });
  if (renamed.error) throw explain(renamed.error);
  console.log("renamed", renamed.data.domain, "to", renamed.data.name);
}
