// Improves pages that work without it: times in the zone of the browser, copying, questions before what
// cannot be undone, and keys.
'use strict'

const locale = navigator.language
const sameDay = (a, b) => a.toDateString() === b.toDateString()

// How some times are shown: those of a timeline, of the audit log, and below a chart. Days of a chart are those of UTC.
const forms = {
  clock: { hour: 'numeric', minute: '2-digit' },
  second: { month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit' },
  weekday: { weekday: 'short', hour: 'numeric', minute: '2-digit' },
  day: { month: 'short', day: 'numeric', timeZone: 'UTC' }
}
const exact = { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' }
const dayNames = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })

// A time is as short as it can be: "today" and "yesterday" instead of dates, and the year of other years only.
function shortTime (at) {
  const now = new Date()
  const clock = at.toLocaleTimeString(locale, forms.clock)
  for (const days of [0, -1]) {
    if (sameDay(at, now)) return `${dayNames.format(days, 'day')} ${clock}`
    now.setDate(now.getDate() - 1)
  }
  const year = at.getFullYear() === new Date().getFullYear() ? undefined : 'numeric'
  return at.toLocaleString(locale, { year, month: 'short', day: 'numeric', ...forms.clock })
}

function showTimes (root) {
  for (const element of root.querySelectorAll('time[datetime]')) {
    const at = new Date(element.dateTime)
    if (isNaN(at)) continue
    const form = forms[element.dataset.shown]
    element.textContent = form ? at.toLocaleString(locale, form) : shortTime(at)
    if (element.title) element.title = `${at.toLocaleString(locale, exact)}\n${element.title}`
  }
}
showTimes(document)
for (const title of document.querySelectorAll('.chart title')) {
  title.textContent = title.textContent.replace(/^([\d-]+)[ T]([\d:.]+)( UTC|Z)/, (all, day, clock) => shortTime(new Date(`${day}T${clock}Z`)))
}
const zone = document.getElementById('zone')
if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone

// The server groups a timeline by the days of UTC: group it by those of the browser's zone.
const rows = [...document.querySelectorAll('.timeline > li')]
if (rows.length > 0) {
  const place = document.querySelector('.day')
  const groups = document.createDocumentFragment()
  let last, list
  for (const row of rows) {
    const at = new Date(row.querySelector('time').dateTime)
    if (!last || !sameDay(last, at)) {
      const heading = document.createElement('h3')
      heading.className = 'day'
      heading.textContent = at.toLocaleDateString(locale, { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' })
      list = document.createElement('ol')
      list.className = 'timeline'
      groups.append(heading, list)
    }
    list.append(row)
    last = at
  }
  place.before(groups)
  for (const element of document.querySelectorAll('.day, .timeline')) {
    if (element.matches('.timeline:empty')) {
      element.previousElementSibling.remove()
      element.remove()
    }
  }
}

for (const button of document.querySelectorAll('button.copy')) {
  if (!navigator.clipboard) break // only over TLS and on this machine
  button.hidden = false
  button.addEventListener('click', async () => {
    const from = button.dataset.copyFrom
    await navigator.clipboard.writeText(from ? document.getElementById(from).textContent : button.dataset.copy)
    button.textContent = 'Copied'
    setTimeout(() => { button.textContent = 'Copy' }, 1500)
  })
}

for (const question of document.querySelectorAll('input[name=question]')) {
  question.form.addEventListener('submit', event => {
    if (!confirm(question.value)) return event.preventDefault()
    question.name = 'confirmed'
  })
}

// A double click sends a form once.
for (const form of document.querySelectorAll('form[method=post]')) {
  form.addEventListener('submit', event => {
    if (event.defaultPrevented) return
    if (form.dataset.sent) return event.preventDefault()
    form.dataset.sent = 'true'
    setTimeout(() => { delete form.dataset.sent }, 2000)
  })
}

// The fields of a form have times in UTC: show them in the zone of the browser, and send them in UTC.
const two = number => String(number).padStart(2, '0')
const inZone = at => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`
for (const input of document.querySelectorAll('input[data-utc]')) {
  const sent = document.createElement('input')
  sent.type = 'hidden'
  sent.name = input.name
  sent.value = input.value
  input.removeAttribute('name')
  input.after(sent)
  if (input.value) input.value = inZone(new Date(input.value + 'Z'))
  input.addEventListener('input', () => { sent.value = input.value && new Date(input.value).toISOString().slice(0, 16) })
  input.closest('label').querySelector('small').textContent = Intl.DateTimeFormat().resolvedOptions().timeZone
}

// The last row of a list is for one more element: a button shows it, and then adds another such row.
const newRow = list => [...list.children].findLast(child => child.matches('.row'))
for (const list of document.querySelectorAll('.rows')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = `Add ${list.dataset.element}`
  const empty = [...newRow(list).querySelectorAll('input, textarea')].every(field => field.type === 'checkbox' ? !field.checked : !field.value)
  newRow(list).hidden = empty
  button.addEventListener('click', () => {
    let row = newRow(list)
    if (row.hidden) {
      row.hidden = false
    } else {
      const name = row.querySelector('[name]').name
      const before = name.slice(0, name.lastIndexOf(':') + 1)
      const next = before.replace(/[0-9]+:$/, number => parseInt(number) + 1 + ':')
      const last = row
      row = last.cloneNode(true)
      for (const field of row.querySelectorAll('[name]')) {
        if (field.name.startsWith(before)) field.name = next + field.name.slice(before.length)
        if (field.type === 'checkbox') field.checked = false
        else field.value = ''
      }
      for (const inner of row.querySelectorAll('button')) inner.remove()
      for (const inner of row.querySelectorAll('.row')) inner.hidden = false
      last.after(row)
    }
    row.querySelector('input').focus()
  })
  list.append(button)
}

// "?" shows the shortcuts. The dialog is not modal: the page stays usable. Closing it gives the focus back.
const shortcuts = document.getElementById('shortcuts')
const showShortcuts = () => shortcuts?.open ? shortcuts.close() : shortcuts?.show()
if (shortcuts) {
  const button = document.getElementById('shortcuts-button')
  button.hidden = false
  button.addEventListener('click', showShortcuts)
  document.getElementById('shortcuts-close').addEventListener('click', showShortcuts)
}

// "/" goes to the search, "g" and the first letter of a section to that section.
let afterG = false
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, select, textarea')) return
  if (event.key === '?') return showShortcuts()
  if (event.key === 'Escape' && shortcuts?.open) return shortcuts.close()
  if (event.key === '/') {
    const search = document.querySelector('header [name=q]')
    if (search) {
      event.preventDefault()
      search.select()
    }
    return
  }
  if (afterG) {
    for (const link of document.querySelectorAll('nav a[data-shortcut]')) {
      if (link.dataset.shortcut === event.key) link.click()
    }
  }
  afterG = event.key === 'g'
})
