package rest

import "html/template"

var layout = template.Must(template.New("layout").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{block "title" .}}{{end}} – Atrium</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --paper: #fff; --ink: #1f252b; --quiet: #5a6470; --line: #dfe3e7; --link: #1a5fb0; }
  @media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e3e6e9; --quiet: #a0a9b2; --line: #32383e; --link: #8cbcf5; } }
  body { font: 1rem/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 42rem; margin: 0 auto; padding: 4rem 1.5rem; }
  h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 2rem; }
  h2 { font-size: .875rem; font-weight: 600; color: var(--quiet); margin: 2rem 0 .25rem; }
  p { margin: 0 0 1rem; overflow-wrap: break-word; }
  a { color: var(--link); text-underline-offset: .2em; text-decoration-thickness: 1px; }
  li a:not(:hover, :focus-visible) { text-decoration: none; }
  code { font-family: ui-monospace, monospace; font-size: .9375em; }
  nav { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; }
  .code { color: var(--quiet); margin: 0 0 .5rem; }
  ul { list-style: none; margin: 2rem 0 0; padding: 0; }
  li { display: grid; grid-template-columns: 3rem 15rem 1fr; gap: 0 1rem; padding: .6rem 0; border-top: 1px solid var(--line); }
  li > :first-child { color: var(--quiet); }
  @media (max-width: 40rem) {
    body { padding: 2rem 1.25rem; }
    li { grid-template-columns: 3rem 1fr; }
    li > :last-child { grid-column: 2; }
  }
</style>
<main>{{block "main" .}}{{end}}</main>
</html>
`))

var errorPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}{{.Title}}{{end}}
{{define "main"}}
<p class="code"><code>{{.Status}} {{.Code}}</code></p>
<h1>{{.Title}}</h1>
<h2>What it means</h2>
<p>{{.Meaning}}</p>
<h2>What to do</h2>
<p>{{.Remedy}}</p>
<nav><a href="/errors/">All error codes</a></nav>
{{end}}`))

var indexPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}Error codes{{end}}
{{define "main"}}
<h1>Error codes</h1>
<p>Every error is a problem document (RFC 9457) whose <code>code</code> is one of these.</p>
<ul>
{{range .}}<li><code>{{.Status}}</code> <a href="/errors/{{.Code}}"><code>{{.Code}}</code></a> <span>{{.Title}}</span></li>
{{end}}</ul>
<nav><a href="/docs">All operations</a></nav>
{{end}}`))

var frontPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}Start{{end}}
{{define "main"}}
<h1>Atrium</h1>
<p>This server records what accounts do and publishes pages. Programs use it over HTTP.</p>
{{if .}}<h2>For people</h2>
<p><a href="/console">Console</a>: see accounts and their activity, write pages, make keys.</p>
{{end}}<h2>Documentation</h2>
<p><a href="/docs">External API</a>: record activity; read accounts, pages and audience versions.</p>
<p><a href="/docs/manage">Management API</a>: manage accounts, pages, keys and tenants.</p>
<p><a href="/docs/events">Events</a>: what webhooks send to your endpoints.</p>
<p><a href="/docs/receive">Receivers</a>: take the webhooks of other systems.</p>
<p><a href="/docs/content">Content API</a>: show published pages on sites.</p>
<p><a href="/errors/">Error codes</a>: what each one means and what to do.</p>
<h2>OpenAPI documents</h2>
<p>External API: <a href="/openapi.yaml">YAML</a>, <a href="/openapi.json">JSON</a>.
Management API: <a href="/manage/openapi.yaml">YAML</a>, <a href="/manage/openapi.json">JSON</a>.
Content API: <a href="/content/openapi.yaml">YAML</a>, <a href="/content/openapi.json">JSON</a>.
Events: <a href="/events/openapi.yaml">YAML</a>, <a href="/events/openapi.json">JSON</a>.
Receivers: <a href="/receive/openapi.yaml">YAML</a>, <a href="/receive/openapi.json">JSON</a>.</p>
<h2>Health</h2>
<p><a href="/healthz">Health</a>: whether the process responds.
<a href="/readyz">Readiness</a>: whether it can serve requests.</p>
{{end}}`))
