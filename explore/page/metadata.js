// @ts-check
// What the file says of itself: a tree of keys; long lists are read as they are scrolled and searched.
import { ask, host } from './ask.js'
import { choice, copy, el, faint, scroller } from './dom.js'
import { grouped, quote, things } from './format.js'
import { put, read, tensorLink } from './route.js'
import { changed, store } from './store.js'

const most = 3, rowHigh = 24, view = 288

/** Says whether the metadata of the compared model are shown. */
function isB() {
  return store.model.compared && read().params.get('of') === 'b'
}

/** Returns the path of the metadata that are shown, or of a list in them. */
function path(query = '') {
  const parts = [isB() && 'compared', query].filter(Boolean)
  return 'data/metadata' + (parts.length ? '?' + parts.join('&') : '')
}

/** Shows the metadata of the model, or of the one that it is compared with. */
export function metadataView(main) {
  const { compared } = store.model
  const stop = new AbortController(), { signal } = stop
  const found = el('span', { class: 'sub', role: 'status' }), tree = el('div', { class: 'tree' })
  const field = el('input', { type: 'search', 'aria-label': 'Find in metadata', placeholder: 'find a key or a value', class: 'bigfield', autocomplete: 'off', spellcheck: 'false', input: () => search() })
  let entries = [], graph = null, more = 0, isRead = false, timer = 0
  const inLists = new Map() // how many values of a long list the search finds, by key
  const folded = new Set()
  const sides = el('span')
  main.append(el('div', { class: 'row mid' }, el('h1', { text: 'Metadata' }), compared ? sides : null, found), el('div', { class: 'listbar t12' }, field), tree)
  load()

  /** Returns the command that prints all metadata. */
  const command = () => `tensormap inspect ${quote((isB() ? compared : store.model).from)} --json`

  /** Asks for the tree. */
  async function load() {
    if (compared) choice(sides, 'Model', [['', 'A ' + store.model.title], ['b', 'B ' + compared.title]], isB() ? 'b' : '', (of) => { put({ of }); load() })
    try {
      const asked = path(), a = await (await ask(asked, { signal })).json()
      if (asked !== path()) return
      entries = a.entries ?? []
      graph = a.graph
      more = a.more
      isRead = true
      search()
      changed()
    } catch (e) {
      if (e.name !== 'AbortError') tree.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: e.problem?.text ?? 'The metadata cannot be read.' }), ' ', el('span', { class: 'm', text: e.problem?.line ?? String(e) })))
    }
  }

  /** Searches keys and values at once, and long lists soon. */
  function search() {
    inLists.clear()
    draw()
    clearTimeout(timer)
    timer = setTimeout(() => searchLists(field.value.trim()).catch(() => {}), 150)
  }

  /** Counts what long lists have of the search. */
  async function searchLists(q) {
    if (!q || host === 'file') return
    for (const e of entries) {
      if (e.length > 0) {
        const a = await (await ask(path(`key=${encodeURIComponent(e.key)}&q=${encodeURIComponent(q)}&from=0&count=1`), { signal })).json()
        if (q !== field.value.trim()) return
        inLists.set(e.key, a.matches)
      }
    }
    draw()
  }

  /** Shows the entries that the search leaves, by the first part of their keys. */
  function draw() {
    const q = field.value.trim().toLowerCase()
    const list = entries.filter((e) => !q || e.key.toLowerCase().includes(q) || e.value.toLowerCase().includes(q) || inLists.get(e.key))
    found.textContent = q ? `${grouped(list.length)} of ${things(entries.length, 'key')}` : things(entries.length, 'key')
    const groups = new Map()
    for (const e of list) {
      const g = e.key.match(/^[^.]+(\.json)?(?=\.)/)?.[0] ?? '' // config.json is the name of a file
      if (!groups.has(g)) groups.set(g, [])
      groups.get(g).push(e)
    }
    const out = []
    for (const [g, es] of groups) {
      const box = el('dl', { class: 'meta' }, es.slice(0, 500).flatMap((e) => [el('dt', null, el('span', { class: 'm', text: g && groups.size > 1 ? e.key.slice(g.length + 1) : e.key, title: e.key }), faint(e.type)), el('dd', null, value(e))]))
      if (g && groups.size > 1) {
        const d = el('details', { open: !folded.has(g), toggle: () => { d.open ? folded.delete(g) : folded.add(g) } }, el('summary', null, el('b', { class: 'm', text: g }), faint(' ' + grouped(es.length))), box)
        out.push(d)
      } else out.push(box)
      if (es.length > 500) out.push(el('p', { class: 'sub', text: grouped(es.length - 500) + ' more: search for them' }))
    }
    if (more) out.push(el('p', { class: 'note', text: things(more, 'key') + ' more than the page shows: ' + command() + ' prints all' }))
    if (!entries.length) out.push(el('p', { class: 'note', text: 'This file says nothing of itself beyond its tensors.' }))
    if (store.model.summary && typeof store.model.summary === 'object' && !q && !isB()) out.push(el('details', null, el('summary', null, el('b', { text: 'Summary' })), el('pre', { text: JSON.stringify(store.model.summary, null, 2) })))
    if (graph && !q) out.push(graphPart())
    tree.replaceChildren(...out)
  }

  /** Shows a value: folded at three lines; a list with a search of its own. */
  function value(e) {
    if (e.length > 0) return longList(e)
    const lines = e.value.split('\n')
    if (lines.length <= most && e.value.length <= 400) return el('span', { class: 'm val', text: e.value })
    const pre = el('pre', { tabindex: 0, text: lines.length > most ? lines.slice(0, most).join('\n') : e.value.slice(0, 400) + ' …' })
    const more = el('button', { class: 'link', 'aria-expanded': 'false', text: lines.length > most ? things(lines.length - most, 'more line') : 'all of it', click: () => {
      pre.textContent = e.value
      more.remove()
    } })
    return el('div', null, pre, el('div', { class: 'row' }, more, el('button', { class: 'link', text: 'copy', click: () => copy(e.value) })))
  }

  /** Shows a long list: its length, a button that opens it. A page in one file has the command that prints it in place of that. */
  function longList(e) {
    if (host === 'file') return el('span', null, things(e.length, 'value') + ', ', faint('not in this file: '), el('span', { class: 'm', text: e.key.startsWith('config.json.') ? 'config.json' : command() }), faint(' has them'))
    const box = el('div')
    const q = inLists.get(e.key) ? field.value.trim() : ''
    const button = el('button', { class: 'link', 'aria-expanded': String(Boolean(q)), text: 'show ' + things(e.length, 'value'), click: () => {
      if (button.getAttribute('aria-expanded') === 'true') {
        button.setAttribute('aria-expanded', 'false')
        box.replaceChildren()
        return
      }
      button.setAttribute('aria-expanded', 'true')
      box.replaceChildren(listBox(e, signal, ''))
    } })
    if (q) box.append(listBox(e, signal, q))
    return el('div', null, button, box)
  }

  /** Shows the operations of a graph. */
  function graphPart() {
    const { nodes } = graph, names = (list) => list.slice(0, 12).map((i) => nodes[i]?.name || '#' + i).join(', ') + (list.length > 12 ? ', …' : '')
    const cells = (n, i) => [n.op, el('span', { title: n.attributes ? JSON.stringify(n.attributes) : null, text: n.name || '#' + i }), names(n.inputs), el('span', null, n.tensors.slice(0, 12).flatMap((t, k) => [k ? ', ' : '', el('a', { href: tensorLink(t), text: t })]))]
    return el('details', null, el('summary', null, el('b', { text: 'Graph' }), faint(' ' + things(nodes.length, 'operation'))),
      el('p', { class: 'sub', text: 'inputs: ' + (names(graph.inputs) || 'none') + ' · outputs: ' + (names(graph.outputs) || 'none') }),
      scroller('Graph', el('table', { class: 'tb' }, el('thead', null, el('tr', null, ['operation', 'name', 'inputs', 'tensors'].map((h) => el('th', { class: 'l', scope: 'col', text: h })))),
        el('tbody', null, nodes.slice(0, 400).map((n, i) => el('tr', null, cells(n, i).map((c) => el('td', { class: 'l m wrap' }, c)))))), nodes.length > 400 ? el('p', { class: 'sub', text: grouped(nodes.length - 400) + ' more: tensormap inspect --json lists all' }) : null))
  }

  return { leave: () => { stop.abort(); clearTimeout(timer) }, reset: () => { load(); return true }, state: () => (isRead ? things(entries.length, 'key') : 'Reading the metadata'), keys: () => false }
}

/** Makes the window of a long list, with a search: only the rows in view are in the document. */
function listBox(e, signal, q) {
  const field = el('input', { type: 'search', 'aria-label': 'Find in ' + e.key, placeholder: 'find', autocomplete: 'off', spellcheck: 'false', input: () => { clearTimeout(timer); timer = setTimeout(again, 60) } })
  const said = el('span', { class: 'sub', role: 'status' }), inner = el('div', { class: 'inner' }), scroll = el('div', { class: 'scroll', tabindex: 0, role: 'list', 'aria-label': e.key }, inner)
  field.value = q
  let timer = 0, total = 0, generation = 0
  let windows = new Map()
  scroll.addEventListener('scroll', draw)

  /** Asks anew: the search has changed. */
  function again() {
    generation++
    windows = new Map()
    scroll.scrollTop = 0
    fetchWindow(0)
  }

  /** Asks for a hundred values. */
  async function fetchWindow(from) {
    if (windows.has(from)) return
    windows.set(from, null)
    const mine = generation
    try {
      const a = await (await ask(path(`key=${encodeURIComponent(e.key)}&q=${encodeURIComponent(field.value.trim())}&from=${from}&count=100`), { signal })).json()
      if (mine !== generation) return
      total = a.matches
      windows.set(from, a.values)
      said.textContent = field.value.trim() ? `${grouped(total)} of ${grouped(e.length)}` : ''
      draw()
    } catch (x) {
      if (x.name !== 'AbortError') said.textContent = x.problem?.text ?? String(x)
    }
  }

  /** Puts the rows in view into the document. */
  function draw() {
    const first = Math.max(0, Math.floor(scroll.scrollTop / rowHigh) - 5), last = Math.min(total, Math.ceil((scroll.scrollTop + view) / rowHigh) + 5)
    inner.style.height = total * rowHigh + 'px'
    const out = []
    for (let i = first; i < last; i++) {
      const from = Math.floor(i / 100) * 100
      fetchWindow(from)
      const v = windows.get(from)?.[i - from]
      out.push(el('div', { class: 'value', role: 'listitem', css: { top: i * rowHigh + 'px' } }, faint(v ? grouped(v.at) : ''), el('span', { class: 'm', text: v ? v.value : '…' })))
    }
    inner.replaceChildren(...out)
  }

  again()
  return el('div', { class: 'long' }, el('div', { class: 'row mid' }, field, said), scroll)
}
