// Updates a list while it is seen: it loads the page again, and shows the rows that are new.
'use strict'

const live = document.querySelector('[data-live]')
if (live) {
  const leastWait = 5_000 // ms between two requests
  const mostWait = 60_000 // ms; after failures
  const unattended = 30 * 60_000 // ms without a key or a pointer, after which nobody is there: a session ends if it is not used
  const button = document.getElementById('live-button')
  const news = document.getElementById('live-news')
  let timer, wait = leastWait, paused = false, lastUse = Date.now()

  const say = text => { news.textContent = text }
  const rowsOf = root => [...root.querySelectorAll('tbody > tr[data-id]')]

  // Shows the list of a newer page. Rows that stay are not touched, so they keep the focus and the selection.
  function show (page) {
    const newer = page.querySelector('[data-live]')
    if (!newer) throw new Error('the response has no list')
    const before = new Map(rowsOf(live).map(row => [row.dataset.id, row]))
    const rows = rowsOf(newer)
    const arrived = rows.filter(row => !before.has(row.dataset.id))
    if (arrived.length === 0 && rows.length === before.size) return
    showTimes(newer)
    for (const row of before.values()) row.classList.remove('new')
    for (const row of arrived) row.classList.add('new')
    const body = live.querySelector('tbody')
    if (!body || rows.length === 0) {
      live.replaceChildren(...newer.childNodes)
    } else {
      const kept = new Set(rows.map(row => row.dataset.id))
      for (const [id, row] of before) if (!kept.has(id)) row.remove()
      let next = body.firstElementChild
      for (const row of rows) {
        if (next && next.dataset.id === row.dataset.id) next = next.nextElementSibling
        else body.insertBefore(row, next)
      }
      live.querySelector('.pager')?.remove()
      live.append(...newer.querySelectorAll('.pager'))
    }
    if (arrived.length > 0) say(arrived.length === 1 ? '1 new entry' : `${arrived.length} new entries`)
  }

  async function update () {
    if (document.hidden || paused) return
    if (Date.now() - lastUse > unattended) return pause('Paused: nobody has used this page for 30 minutes.')
    const began = Date.now()
    try {
      const response = await fetch(location.href, { redirect: 'manual', cache: 'no-store' })
      if (response.type === 'opaqueredirect') return pause('Paused: your session has ended. Reload the page.')
      if (!response.ok) throw new Error(String(response.status))
      const page = new DOMParser().parseFromString(await response.text(), 'text/html')
      if (paused) return
      show(page)
      wait = Math.min(mostWait, Math.max(leastWait, 10 * (Date.now() - began))) // slow lists less often
    } catch {
      wait = Math.min(mostWait, 2 * wait)
    }
    schedule()
  }

  function schedule () {
    clearTimeout(timer)
    if (!paused && !document.hidden) timer = setTimeout(update, wait)
  }

  function pause (text) {
    paused = true
    clearTimeout(timer)
    button.textContent = 'Resume updates'
    say(text)
  }

  button.hidden = false
  button.addEventListener('click', () => {
    lastUse = Date.now()
    if (!paused) return pause('Paused.')
    paused = false
    button.textContent = 'Pause updates'
    say('')
    schedule()
  })
  for (const use of ['keydown', 'pointerdown', 'pointermove', 'wheel']) {
    document.addEventListener(use, () => { lastUse = Date.now() }, { passive: true })
  }
  document.addEventListener('visibilitychange', schedule)
  schedule()
}
