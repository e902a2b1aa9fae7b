// Loads a page again when what it waits for is there. It looks each second, for half a minute.
'use strict'

const waiting = document.querySelector('[data-poll]')
const wait = 1_000 // ms
let left = 30 // requests

async function look () {
  if (!document.hidden) {
    left--
    try {
      const response = await fetch(location.href, { redirect: 'manual', cache: 'no-store' })
      const ended = response.type === 'opaqueredirect' // the session has
      const page = new DOMParser().parseFromString(await response.text(), 'text/html')
      if (ended || response.ok && page.querySelector('[data-poll]')?.dataset.poll !== waiting.dataset.poll) return location.reload()
    } catch {} // the next request may succeed
  }
  if (left > 0) setTimeout(look, wait)
}
if (waiting) setTimeout(look, wait)
