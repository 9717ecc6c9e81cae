// @ts-check
// Where bytes lie: the picture that the command's map draws, in the page, so that it leads to tensors.
import { ask, host } from './ask.js'
import { atRest, choice, el, kbd, say, svg } from './dom.js'
import { bytes, grouped, named, shape, thin } from './format.js'
import { go, put, read, tensorLink } from './route.js'
import { changed, rowsOf, store } from './store.js'

const words = { part: 'part', dtype: 'dtype', sigma: 'max in σ', memory: 'in memory' }
const copied = new Set('class x y width height d cx cy r id fill fill-opacity stroke stroke-opacity patternUnits patternTransform'.split(' '))
const sheet = new CSSStyleSheet()

/** Says whether the window has no room for the wide picture. */
const isNarrow = () => innerWidth <= 1000

/** Makes an element of the page like one of the picture: shapes and text alone, with what places and colours them. */
function like(node) {
  if (!['defs', 'pattern', 'rect', 'circle', 'path', 'text'].includes(node.localName)) return null
  const props = Object.fromEntries([...node.attributes].filter((a) => copied.has(a.name)).map((a) => [a.name, a.value]))
  return svg(node.localName, props, ...(node.localName === 'text' ? [node.textContent] : [...node.children].map(like)))
}

/** Makes a table of the picture's legend: a row begins with its square, a heading where class u is. */
function legendTable(legend) {
  const parts = []
  for (const node of legend.children) {
    const kind = node.getAttribute('class') ?? '', part = parts[parts.length - 1], last = part?.rows[part.rows.length - 1]
    if (kind === 'u') parts.push({ heads: [node.textContent], rows: [] })
    else if (kind === 'u e') part.heads.push(node.textContent)
    else if (node.localName === 'rect') last && !last.cells.length ? last.squares.push(node) : part.rows.push({ squares: [node], cells: [] })
    else if (node.localName === 'text' && last) last.cells.push(node.textContent)
  }
  return parts.filter((p) => p.rows.length).map((p) => el('table', { class: 'tb' },
    el('thead', null, el('tr', null, p.heads.map((h, k) => el('th', { scope: 'col', class: place(k, p), text: h.toLowerCase().replace('of all', 'of all bytes') })))),
    el('tbody', null, p.rows.map((r) => el('tr', null, r.cells.map((c, k) => el('td', { class: place(k, p) }, k ? null : square(r.squares), c.replace(/^0.0 %/, '<0.1 %').replace(/(\d) ?([KMGT]?i?B|[KMBT]|%)$/, '$1' + thin + '$2'))))))))
}

/** Returns the class of a column: the first is at the left, and a narrow window leaves out the elements. */
function place(k, part) {
  return k === 0 ? 'l' : k === 2 && part.heads.length > 4 ? 'wide' : null
}

/** Makes the square of a kind of bytes, in the colours of the picture. */
function square(rects) {
  return svg('svg', { width: 12, height: 12, 'aria-hidden': 'true' }, rects.map((r) => svg('rect', { class: r.getAttribute('class'), width: 12, height: r.getAttribute('height') })))
}

/** Shows the map. */
export function mapView(main) {
  let by = read().params.get('by') ?? '', narrow = false, wanted = ''
  const stop = new AbortController()
  const modes = el('span'), note = el('span', { class: 'sub' }), legend = el('div', { class: 'maplegend' }), picture = el('div', { class: 'box', role: 'region', tabindex: 0, 'aria-label': 'Where bytes lie' }), looked = el('p', { class: 'written', role: 'status' })
  let answer = null, order = [], at = null // the tensor or cell that is looked at
  let cells = [] // {boxes, d, lines, first}: first is the number of the first tensor
  const outline = svg('path', { class: 'now' })
  if (!Object.hasOwn(words, by) || (host === 'file' && by === 'memory')) by = 'part' // what is in memory is not saved
  main.append(el('div', { class: 'row mid' }, el('h1', { text: 'Where bytes lie' }), modes, note, el('span', { class: 'sp' }, el('button', { class: 'btn low', text: 'Save SVG', click: () => save().catch((e) => say(String(e))) }))),
    el('div', { class: 'mappicture' }, legend, looked, picture))
  load()

  /** Asks for the map and shows it. */
  async function load() {
    narrow = isNarrow()
    const path = wanted = 'data/map?by=' + by + (narrow ? '&narrow' : '')
    try {
      const got = await (await ask(path, { signal: stop.signal })).json()
      if (path !== wanted) return
      answer = got
      draw()
    } catch (e) {
      if (e.name !== 'AbortError') picture.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: e.problem?.text ?? 'The map cannot be drawn.' }), ' ', el('span', { class: 'm', text: e.problem?.line ?? String(e) })))
    }
  }

  /** Takes another measure for colours. */
  function take(b) {
    by = b
    put({ by: b === 'part' ? '' : b })
    load()
  }

  /** Shows the choice of colours, what they mean, and the picture. */
  function draw() {
    if (answer.bys.length > 1) choice(modes, 'Colours', answer.bys.map((b) => [b, words[b] ?? b]), by, take)
    note.replaceChildren(answer.note || '', ' ', el('span', { class: 'wide' }, kbd('←'), ' ', kbd('→'), ' tensor before, after, ', kbd('↵'), ' open'))
    const [before, style, rest] = answer.svg.split(/<\/?style>/) // the page's policy forbids it within the document
    const root = new DOMParser().parseFromString(before + rest, 'image/svg+xml').documentElement, key = root.querySelector('.legend')
    sheet.replaceSync('.mappicture{' + style + '}')
    document.adoptedStyleSheets = [sheet]
    legend.replaceChildren(...legendTable(key))
    picture.replaceChildren(inline(root))
    if (at) show(at)
    changed()
  }

  /** Makes the picture without its legend. Cells of a colour are one path, so that there are few nodes. */
  function inline(root) {
    const wide = Number(root.getAttribute('width')), high = Number(root.getAttribute('height'))
    const out = svg('svg', { role: 'img', 'aria-label': 'Map of the bytes of all tensors, coloured by ' + (words[by] ?? by) })
    const groups = new Map()
    let top = high
    cells = []
    for (const node of root.children) {
      if (node.localName === 'g' || /bg/.test(node.getAttribute('class'))) continue
      if (node.localName === 'text') top = Math.min(top, Number(node.getAttribute('y')) - 24)
      if (!node.matches('.c')) {
        out.append(like(node) ?? '')
        continue
      }
      const kind = node.getAttribute('class'), d = node.getAttribute('d'), n = node.getAttribute('data-t')
      const group = kind + /h1\.5v/.test(d) // narrow ones lie upon others
      if (!groups.has(group)) {
        groups.set(group, { path: svg('path', { class: kind }), d: [] })
        out.append(groups.get(group).path)
      }
      groups.get(group).d.push(d)
      cells.push({ d, first: n === null ? null : Number(n), lines: node.textContent.split('\n'), boxes: [...d.matchAll(/M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)/g)].map((m) => m.slice(1).map(Number)) })
    }
    for (const g of groups.values()) g.path.setAttribute('d', g.d.join(''))
    out.append(outline)
    for (const [k, v] of [['viewBox', `0 ${top} ${wide} ${high - top}`], ['width', wide], ['height', high - top]]) out.setAttribute(k, String(v))
    return out
  }

  /** Returns the cell under a pointer: the one that is drawn last. */
  function under(e) {
    const box = picture.querySelector('svg')?.getScreenCTM()
    if (!box) return null
    const x = (e.clientX - box.e) / box.a, y = (e.clientY - box.f) / box.d
    return cells.findLast((c) => c.boxes.some(([left, top, w, h]) => x >= left && x <= left + w && y >= top && y <= top + h)) ?? null
  }

  /** Says what a cell holds, or a tensor, and outlines it. */
  function show(what) {
    at = what
    const r = store.rows[what.number ?? what.first]
    const cell = what.boxes ? what : cellOf(what.number)
    outline.setAttribute('d', cell?.d ?? '')
    const many = what.boxes && (what.lines.length > 5 || r === undefined) ? what.lines.slice(0, 2).join(' · ') + (r ? ', from ' : '') : ''
    looked.replaceChildren(many, ...(r ? [el('a', { class: 'm', href: tensorLink(r.name), text: named(r.name) }), ` · ${r.type} · ${shape(r.shape)} · ${bytes(r.stored_bytes)} at ${grouped(r.offset)}` + (store.model.files > 1 ? `, file ${r.file + 1}` : '')] : []))
  }

  /** Returns the cell that a tensor lies in: its own, or the last one that begins before it. */
  function cellOf(number) {
    const places = new Map(order.map((r, i) => [r.number, i])), here = places.get(number)
    let found = null, best = -1
    for (const c of cells) {
      const p = places.get(c.first) ?? -1
      if (p <= here && p > best) [best, found] = [p, c]
    }
    return found
  }

  /** Opens what is looked at. */
  function open() {
    const n = at?.number ?? at?.first
    if (n !== null && n !== undefined) rowsOf([n]).then(() => go(tensorLink(store.rows[n].name)), () => {})
  }

  /** Saves the picture as a file. */
  async function save() {
    const answer = await (await ask('data/map?by=' + by)).json()
    const a = el('a', { href: URL.createObjectURL(new Blob([answer.svg.replace(/ data-t="\d+"/g, '')], { type: 'image/svg+xml' })), download: store.model.title + '.svg' })
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 1000)
    say('Saved ' + a.download)
  }

  /** Tells of the tensor before or after, in the order of the file. */
  function step(d) {
    order = store.rows.filter(Boolean).sort((a, b) => a.file - b.file || a.offset - b.offset)
    if (!order.length) return
    const i = at ? order.indexOf(store.rows[at.number ?? at.first]) + d : d > 0 ? 0 : order.length - 1
    show({ number: order[Math.max(0, Math.min(order.length - 1, i))].number })
  }

  picture.addEventListener('mousemove', (e) => {
    const cell = under(e)
    picture.style.cursor = cell && cell.first !== null ? 'pointer' : ''
    if (cell && cell !== at) show(cell)
  })
  picture.addEventListener('click', (e) => {
    const cell = under(e)
    if (!cell) return
    show(cell)
    if (e.pointerType !== 'touch') open() // a finger hits a neighbour: the name above the picture is the link
  })
  return {
    update: () => { if (narrow !== isNarrow()) load() },
    leave: () => { stop.abort(); document.adoptedStyleSheets = [] },
    reset: () => false,
    state: () => (answer ? bytes(store.model.bytes) + ' in ' + grouped(store.model.files) + (store.model.files === 1 ? ' file' : ' files') : ''),
    keys(e) {
      const bys = answer?.bys ?? []
      if (e.key === 'ArrowRight') step(1)
      else if (e.key === 'ArrowLeft') step(-1)
      else if (e.key === 'Enter' && at && (atRest() || document.activeElement === picture)) open()
      else if ((e.key === 'm' || e.key === 'M') && bys.length > 1) {
        take(bys[(Math.max(0, bys.indexOf(by)) + (e.key === 'm' ? 1 : bys.length - 1)) % bys.length])
      } else return false
      return true
    },
  }
}
