// Search, links to operations, and requests from the page. The page is complete without it. Nothing
// is stored in the browser, and only this server gets requests.
"use strict";

const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const one = (selector, inside = document) => inside.querySelector(selector);

// create returns an element with properties and children.
function create(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const operations = all(".operation");
one(".tools").hidden = false;

// Links to operations. The last part of the fragment is the identifier: links of an earlier viewer
// began with the name of a group.
function openLinked() {
  const linked = document.getElementById(decodeURIComponent(location.hash.split("/").pop().replace(/^#/, "")));
  if (!linked) return;
  if (!linked.checkVisibility()) { // the search hides it
    one("#search").value = "";
    search();
  }
  if (linked.matches(".operation")) linked.open = true;
  linked.scrollIntoView();
}
addEventListener("hashchange", openLinked);
for (const link of all(".contents a")) {
  link.addEventListener("click", () => link.hash === location.hash && openLinked());
}

// Search: an operation is found by words in its method, path and summary, its identifier, and the
// names of its parameters and fields. The singular of a word finds its plural, and the reverse.
const texts = new Map(operations.map((operation) =>
  [operation.id, [one("summary", operation), ...all(".name", operation)].map((e) => e.textContent).concat(operation.id).join(" ").toLowerCase()]));

const stem = (word) => word.length > 3 ? word.replace(/(?:ies|es|s|y)$/, "") : word;

function search() {
  const words = one("#search").value.toLowerCase().split(/\s+/).filter(Boolean).map(stem);
  const found = new Set(operations.filter(({ id }) => words.every((word) => texts.get(id).includes(word))).map(({ id }) => id));
  for (const operation of operations) operation.hidden = !found.has(operation.id);
  for (const link of all(".listed li a")) link.parentElement.hidden = !found.has(link.hash.slice(1));
  for (const list of all(".listed")) list.hidden = !one("li:not([hidden])", list);
  for (const group of all("section.group")) group.hidden = !one(".operation:not([hidden])", group);
  document.body.classList.toggle("searching", words.length > 0); // hides all but the operations
  one("#none").hidden = found.size > 0;
  one("#found").textContent = words.length === 0 ? "" : `${found.size} of ${operations.length}`;
}
one("#search").addEventListener("input", search);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    one("#search").focus();
  }
});

// Requests.

const maxShown = 1 << 20; // characters of a response that are shown

// indent adds line breaks to JSON. It works on the text: parsing would change numbers.
function indent(json) {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
  let depth = 0, out = "", last = "";
  for (const [t] of json.matchAll(token)) {
    if (t === "}" || t === "]") {
      depth--;
      if (last !== "{" && last !== "[") out += "\n" + "  ".repeat(depth);
    } else if (last === "{" || last === "[" || last === ",") {
      out += "\n" + "  ".repeat(depth);
    }
    if (t === "{" || t === "[") depth++;
    out += t === ":" ? ": " : t;
    last = t;
  }
  return out;
}

function buildForm(operation) {
  const { method, path } = operation.dataset;
  const fields = [];
  const grid = create("div", { className: "fields" });
  for (const shown of all("[data-in]", operation)) {
    const { in: place, name, example = "" } = shown.dataset;
    const id = `${operation.id}-${name}`;
    const input = create("input", { id, name, placeholder: example, autocomplete: "off", spellcheck: false, required: "required" in shown.dataset });
    grid.append(create("label", { htmlFor: id }, create("code", {}, name)), input);
    fields.push({ place, name, input });
  }
  const request = one(".request", operation);
  const body = request && create("textarea", { id: operation.id + "-body", spellcheck: false, value: one("pre", request)?.textContent ?? "" });
  if (body) grid.append(create("label", { htmlFor: body.id, className: "wide" }, "Body"), body);
  body?.classList.add("wide");

  const status = create("p", { className: "status" });
  status.setAttribute("role", "status");
  const output = create("div", { className: "output" });
  const form = create("form", {}, grid, create("button", {}, "Send request"), status, output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    const headers = {};
    let target = path;
    for (const { place, name, input } of fields) {
      if (input.value === "") continue;
      if (place === "path") target = target.replace(`{${name}}`, encodeURIComponent(input.value));
      if (place === "query") query.set(name, input.value);
      if (place === "header") headers[name] = input.value;
    }
    if (query.size > 0) target += "?" + query;
    const key = one("#key").value.trim();
    if (key === "" && "keyed" in operation.dataset && !("keyless" in operation.dataset)) {
      status.textContent = "Enter an API key first.";
      one("#key").setCustomValidity("This operation needs an API key.");
      one("#key").reportValidity(); // scrolls to the field
      return;
    }
    if (key !== "" && "keyed" in operation.dataset) headers["x-api-key"] = key;
    if (body) headers["Content-Type"] = request.dataset.media;
    await send(target, { method, headers, body: body ? body.value : undefined }, status, output);
  });
  return create("details", { className: "try" }, create("summary", {}, "Try it"), form);
}

async function send(target, request, status, output) {
  status.textContent = "Waiting for the response…";
  output.replaceChildren();
  try {
    const response = await fetch(target, { ...request, cache: "no-store", credentials: "omit", redirect: "error" });
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    const text = await read(response);
    const json = /[/+]json$/.test(response.headers.get("Content-Type") ?? ""); // but not NDJSON
    const shown = create("pre", { tabIndex: 0, className: "response" }, json && text.length < maxShown ? indent(text) : text);
    const details = create("details", { className: "inside" }, create("summary", {}, "Headers of the response"), create("pre", { tabIndex: 0 }, headers));
    output.append(create("p", {}, create("code", {}, `${request.method} ${target}`)), details);
    if (text !== "") output.append(shown);
    status.textContent = `${response.status} ${response.statusText}` + (text.length >= maxShown ? " (the beginning of the response)" : "");
  } catch (error) {
    status.textContent = `No response: ${error.message}`;
  }
}

// read returns the first maxShown characters of a response. An export can be much longer.
async function read(response) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (reader && text.length < maxShown) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
  await reader?.cancel();
  return text.slice(0, maxShown);
}

for (const operation of operations) {
  operation.addEventListener("toggle", () => {
    const command = one(".curl", operation); // none for a webhook, which the server calls
    if (operation.open && command && !one(".try", operation)) command.after(buildForm(operation));
  });
}
one("#key").addEventListener("input", () => one("#key").setCustomValidity(""));
for (const command of all(".curl")) {
  command.textContent = command.textContent.replace("$ATRIUM_SERVER", location.origin);
}
openLinked();
