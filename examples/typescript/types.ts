// What the generated types allow and reject. It only has to compile.

import type { components as external } from "./external.js";
import type { components as manage } from "./manage.js";

type Schemas = external["schemas"];

export function reads(page: Schemas["Page"], listed: Schemas["ListedPage"], account: Schemas["Account"], accounts: manage["schemas"]["AccountList"]) {
  // @ts-expect-error Only pages in a list have a title.
  page.title;
  // @ts-expect-error Only a single page has metadata.
  listed.metadata;
  // @ts-expect-error The name may be null.
  account.name.length;
  const names: (string | null)[] = accounts.items.map((a) => a.name);
  return [listed.title, account.name?.length, names];
}

export const entries: Schemas["NewAccountLog"][] = [
  { source: "crm", payload: {} },
  { source: "crm", payload: { nested: { list: [1, null, "a"] } }, type: "deal.won" },
  // @ts-expect-error The payload is an object.
  { source: "crm", payload: "deal.won" },
  // @ts-expect-error The source is required.
  { payload: {} },
  // @ts-expect-error There is no such field.
  { source: "crm", payload: {}, domian: "acme.example" },
];
