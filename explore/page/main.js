// @ts-check
// Starts the page: the frame, the views, keys.
import { ask, host, onSwap, accept, Refusal, problemOf } from './ask.js'
import { copy, el, kbd, say, seen } from './dom.js'
import { grouped, seconds } from './format.js'
import { onTheme } from './scale.js'
import { forget, leave, listen, load, store } from './store.js'
import { back, go, link, read, step } from './route.js'
import { overview } from './overview.js'
import { listView } from './list.js'
import { tensorView } from './tensor.js'
import { compareView, forgetComparisons } from './compare.js'
import { mapView } from './map.js'
import { metadataView } from './metadata.js'
import { chooser } from './chooser.js'

const views = [
  ['overview', 'Overview', overview], ['tensors', 'Tensors', listView], ['compare', 'Compare', compareView], ['map', 'Map', mapView], ['metadata', 'Metadata', metadataView],
]
const $ = (id) => /** @type {any} */ (document.getElementById(id))
const main = $('main')
let view = null
let shownPath = ''
let lettersOff = stored('letters') === 'off'

/** Reads a setting that the browser keeps for this page, if it does. */
function stored(key) {
  try {
    return localStorage.getItem('tensormap.' + key)
  } catch {
    return null
  }
}

/** Writes the bar: title, tabs, search. */
function frame() {
  const m = store.model
  document.title = seen(m ? m.title + ' · ' : '') + 'tensormap explore'
  $('title').textContent = seen(m?.title ?? 'tensormap')
  $('title').title = m?.from ?? ''
  $('about').textContent = m ? (m.compared ? 'against ' + m.compared.title : [m.format, m.quantization].filter(Boolean).join(' · ')) : ''
  const now = read().view
  $('tabs').replaceChildren(...views.map(([key, name]) => el('a', { href: link(key), 'aria-current': key === now || (now === 't' && key === 'tensors') ? 'page' : null }, name,
    key === 'tensors' && m ? el('small', { text: grouped(m.tensors) }) : key === 'compare' && store.differ ? el('small', { text: grouped(store.differ) }) : null)))
  $('find').querySelector('input').placeholder = m?.example ?? ''
  $('place').replaceChildren(host === 'server' ? 'read-only · ' + location.hostname : host === 'file' ? 'saved in one file' : 'read in this browser, nothing leaves it',
    m && host === 'worker' ? el('button', { class: 'link small', text: ' · open another', click: choose }) : '')
}

/** Writes the line at the bottom. */
function footer() {
  const p = store.progress, m = store.model
  if (store.differ && !$('tabs').children[2]?.querySelector('small')) frame()
  if (!m || !p) {
    $('state').textContent = ''
    return
  }
  const bad = store.stats.filter((s) => s?.error && s.kind !== 'no values').length
  const nan = store.stats.filter((s) => s && s.nan + s.pos_inf + s.neg_inf > 0).length
  const odd = (bad ? ' · ' + bad + (bad === 1 ? ' tensor' : ' tensors') + ' damaged' : '') + (nan ? ' · ' + nan + ' with NaN or infinities' : '')
  const read = !p.done ? 'Reading: ' : p.share < 1 ? 'Sampled: ' : 'Exact: '
  $('state').textContent = (view?.state?.() ?? read + grouped(p.values) + ' of ' + grouped(p.all_values) + ' values' + (p.done && host !== 'file' ? ', read in ' + seconds(p.seconds) : '')) + odd
}

/** Shows the view of the address. */
function route() {
  const s = read()
  step()
  const path = s.view + '/' + s.name
  if (path === shownPath && view?.reset?.(s)) return frame()
  if (!store.model) return
  view?.leave?.()
  view = null
  main.replaceChildren()
  frame()
  if (shownPath) main.focus({ preventScroll: true })
  shownPath = path
  const found = views.find(([key]) => key === s.view)
  try {
    if (s.view === 't') view = tensorView(main, s.name)
    else view = (found ?? views[0])[2](main)
  } catch (e) {
    problem(problemOf(e))
  }
  swapNote()
  footer()
  scrollTo(0, 0)
}

/** Shows an error: a sentence, the command's line, what to do. */
function problem(p) {
  main.replaceChildren(el('section', { class: 'near' },
    el('p', { class: 'note bad' }, el('b', { text: p.text })), p.line ? el('pre', { class: 't12', text: p.line }) : null,
    el('div', { class: 'btns' }, el('button', { class: 'btn', click: start }, 'Try again ', kbd('r')),
      host === 'worker' ? el('button', { class: 'btn', text: 'Open another', click: choose }) : null,
      p.line ? el('button', { class: 'btn', text: 'Copy the message', click: () => copy(p.line) }) : null),
    p.hint ? el('p', { class: 'sub t16', text: p.hint }) : null))
}

/** Says that another model is served now, where there is one. */
function swapNote() {
  document.getElementById('swap')?.remove()
  if (!store.swapped) return
  main.before(el('p', { class: 'note warn', id: 'swap', role: 'status' }, 'Another model is served now. This page still shows the one before. ', el('button', { class: 'link', text: 'Show the new one', click: start })))
}

/** Shows the page that asks for a file, in a browser alone. */
function choose() {
  view?.leave?.()
  view = null
  shownPath = ''
  store.model = null
  main.replaceChildren()
  frame()
  chooser(main, start)
}

/** Reads the model and shows it. */
async function start() {
  accept()
  document.getElementById('swap')?.remove()
  forget()
  forgetComparisons()
  view?.leave?.()
  view = null
  shownPath = ''
  try {
    await load()
    route()
  } catch (e) {
    if (host === 'worker' && e instanceof Refusal && e.status === 404) return choose()
    frame()
    problem(problemOf(e))
  }
}

const keys = [
  ['/', 'find tensors'], ['1 – 5', 'views'], ['o', 'next finding'], ['m M', 'measure, next and before'], ['← → ↑ ↓', 'move in maps, lists, the matrix'], ['↵', 'open'], ['Esc', 'back to where you came from'],
  ['[ ]', 'the same role, a layer before or after'], ['→ ←', 'unfold, fold'], ['s', 'sort'], ['+ − 0', 'zoom'], ['c', 'copy the lines of Go'], ['x', 'swap A and B'], ['r', 'read again'], ['?', 'these keys'],
]

/** Shows the keys. */
function showKeys() {
  const box = el('input', { type: 'checkbox', change: () => {
    lettersOff = !box.checked
    try {
      localStorage.setItem('tensormap.letters', lettersOff ? 'off' : 'on')
    } catch { /* not kept */ }
  } })
  box.checked = !lettersOff
  const dialog = el('dialog', { 'aria-label': 'Keys' }, el('h2', { text: 'Keys' }),
    el('dl', null, ...keys.flatMap(([k, what]) => [el('dt', null, ...k.split(' ').filter((x) => x !== '–').flatMap((x, i) => [i ? ' ' : '', kbd(x)])), el('dd', { text: what })])),
    el('label', null, box, 'Letters, digits and signs do something. They never do in fields.'),
    el('div', { class: 'btns' }, el('button', { class: 'btn p', text: 'Close', click: () => dialog.close() })))
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

/** Does what a key says. */
function key(e) {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return
  const field = e.target.closest?.('input, select, textarea')
  if (field) {
    if (e.key === 'Escape') field.blur()
    return
  }
  if (e.key.length === 1 && lettersOff && e.key !== '?') return
  if (e.key === '?') showKeys()
  else if (e.key === '/') openFind()
  else if (view?.keys?.(e)) { /* the view did it */ }
  else if (e.key >= '1' && e.key <= '5') go(link(views[Number(e.key) - 1][0]))
  else if (e.key === 'Escape') back()
  else if (e.key === 'r') start()
  else return
  e.preventDefault()
}

/** Puts the cursor into the search field. */
function openFind() {
  $('find').classList.add('open')
  const field = main.querySelector('input[type=search]') ?? $('find').querySelector('input')
  field.focus()
  field.select()
}

$('find').addEventListener('submit', (e) => {
  e.preventDefault()
  const field = $('find').querySelector('input')
  go(link('tensors', { q: field.value.trim() }))
  field.blur()
})
$('findbutton').addEventListener('click', openFind)
$('keysbutton').addEventListener('click', showKeys)
$('skip').addEventListener('click', (e) => {
  e.preventDefault()
  main.focus()
})
addEventListener('keydown', key)
addEventListener('hashchange', route)
document.addEventListener('again', start)
addEventListener('pagehide', leave)
addEventListener('resize', () => view?.update?.())
onTheme(() => view?.update?.())
if (host === 'server') setInterval(() => { // sees that another model is served
  if (store.model?.tensors && !store.swapped && !document.hidden) ask('data/rows?numbers=0').then((r) => r.json()).catch(() => {})
}, 15000)
listen(footer)
onSwap(() => {
  store.swapped = true
  swapNote()
  say('Another model is served now.')
})
frame()
start()

export { ask }
