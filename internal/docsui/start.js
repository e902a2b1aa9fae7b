// Shows the document that the page names, one of this server. Nothing is kept in the browser, and no other
// server is asked: the validator badge is off.

// The viewer fills the examples of parameters into a request, and an example of a
// cursor or an entity tag makes it fail. Those of parameters that a request can do
// without become part of their description.
function describeExamples(node) {
  if (Array.isArray(node)) return node.map(describeExamples);
  if (node === null || typeof node !== "object") return node;
  if (typeof node.in === "string" && typeof node.name === "string" && node.schema) {
    const { example, ...parameter } = node;
    if (parameter.required || example === undefined) return node;
    parameter.description = `${parameter.description ?? ""}\n\nExample: \`${example}\``;
    return parameter;
  }
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, describeExamples(value)]));
}

function withoutExamples(document) {
  const { paths, components } = document;
  return { ...document, paths: describeExamples(paths), components: { ...components, parameters: describeExamples(components?.parameters ?? {}) } };
}

// The style sheet has a dark scheme, but leaves it to the page to ask for it.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

SwaggerUIBundle({
  url: document.querySelector("#viewer").dataset.document,
  dom_id: "#viewer",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  tryItOutEnabled: false,
  defaultModelsExpandDepth: 0,
  syntaxHighlight: { theme: "tomorrow-night" },
  plugins: [{
    statePlugins: { spec: { wrapActions: {
      updateJsonSpec: (update) => (document) => update(withoutExamples(document)),
    } } },
  }],
});
