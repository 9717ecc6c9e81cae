// @ts-check
// Two models: what it cost, and where.
import { ask, host, problemOf } from './ask.js'
import { chooser } from './chooser.js'
import { choice, copy, el, faint, kbd, say, scroller, svg } from './dom.js'
import { chip, legend, meter } from './figure.js'
import { bytes, count, grouped, named, none, number, percent, quote, reals, seconds, thin, things } from './format.js'
import { binned, layerGrid } from './grid.js'

import { byLog } from './scale.js'
import { changed, isServed, listen, store } from './store.js'
import { go, put, read, tensorLink } from './route.js'
import { findingsList } from './findings.js'
import { strip } from './overview.js'

const one = (x) => (Number.isFinite(x) ? grouped(Math.abs(x) < 0.05 ? '0.0' : x.toFixed(1)) : number(x))
const same = (p) => p.same_elements || (p.db === Infinity && !p.lost)
const cosine = (x) => (x === null ? none : x.toFixed(5).replace('-', '−'))

/** The measures of pairs. at gives the place on the scale, from 0 to 1. */
const kinds = [
  { key: 'db', name: 'dB', sub: 'higher is better; stronger colour, more lost', ramp: 'odd', reversed: true, value: (p) => p.db, text: one, at: (v) => (45 - v) / 40, long: (v) => one(v) + thin + 'dB', d: { low: 45, high: 5 }, ticks: [5, 10, 15, 20, 25, 30, 35, 40, 45], foot: 'dB, linear, clamped to 5…45; 6 dB are about one bit' },
  { key: 'cosine', name: 'Cosine', sub: 'colour: 1 − cosine, log scale', ramp: 'odd', value: (p) => p.cosine, text: cosine, at: (v) => byLog(Math.max(1e-12, 1 - v), 1e-6, 1), long: (v) => 'cosine ' + cosine(v), d: { low: 1e-6, high: 1 }, log: true, place: (v) => Math.max(1e-12, 1 - v), ticks: [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], tick: number, foot: '1 − cosine, log scale' },
  { key: 'relative_rms', name: 'Relative RMS', sub: 'error ÷ values', ramp: 'odd', value: (p) => p.relative_rms, text: percent3, at: (v) => byLog(v, 1e-3, 1), long: (v) => 'relative RMS ' + percent3(v), d: { low: 1e-3, high: 1 }, log: true, ticks: [1e-3, 1e-2, 0.1, 1], tick: percent, foot: 'relative RMS, log scale from 0.1 % to 100 %' },
  { key: 'bits', name: 'Bits', sub: 'per weight, of B', ramp: 'amount', value: (p) => p.bits, text: number, at: (v) => byLog(v, 1, 32), long: (v) => number(v) + ' bits', d: { low: 1, high: 32 }, log: true, ticks: [1, 2, 4, 8, 16, 32], tick: String, foot: 'bits per weight, log scale', all: true },
]

const kept = new Map() // what was read, by direction

/** Shows the comparison. */
export function compareView(main) {
  if (!store.model.compared) return needsSecond(main)
  const state = read()
  const swap = state.params.get('swap') === '1'
  let kind = kindOf(state)
  let sort = state.params.get('sort') ?? '', all = false, isTune = false
  const stop = new AbortController()
  const data = kept.get(swap) ?? { a: null, b: null, grid: null, pairs: [], overall: null, types: [], findings: [], progress: null, problem: null, complete: false }
  kept.set(swap, data)
  let marked = [], now = -1

  const sides = el('div', { class: 'sides' }), figures = el('div'), progress = meter(), notes = el('div')
  const findings = findingsList('What it cost', (f) => { marked = f.numbers ?? []; now = marked[0] ?? -1; select() })
  const cost = el('section', { class: 'near', hidden: true }, el('h2', { text: 'What it cost' }), ...findings.nodes)
  const maps = el('section', { class: 'maps' }), bits = el('div'), types = el('div'), worst = el('section')
  main.append(el('h1', { class: 'hidden', text: 'Comparison' }), sides, figures, progress.node, notes, cost, maps, el('section', { class: 'buy' }, bits, types), worst)

  let left = null, right = null
  const by = new Map()

  /** Reads the comparison, unless it is known. */
  async function start() {
    if (data.complete) return
    Object.assign(data, { pairs: [], findings: [], problem: null })
    try {
      const reply = await ask('data/compare' + (swap ? '?swap=1' : ''), { signal: stop.signal })
      for await (const line of reply.lines()) {
        for (const k of ['a', 'b', 'grid', 'progress', 'overall', 'types', 'findings']) if (line[k]) data[k] = line[k]
        reals(line.overall)
        line.types?.forEach(reals)
        for (const p of line.pairs ?? []) data.pairs[p.number] = reals(p)
        if (line.error?.swapped && await isServed()) return start()
        if (line.error) data.problem = line.error
        changed()
      }
      data.complete = !data.problem && Boolean(data.overall)
    } catch (e) {
      if (e.name === 'AbortError') return
      data.problem = problemOf(e)
    }
    changed()
  }

  /** Makes the maps, once the grid is known. Vectors that are the same everywhere are left out. */
  function makeMaps() {
    if (!data.grid?.layers.length) return
    const groups = data.grid.groups.map((g) => ({ ...g, rows: g.rows.filter((r) => !r.vector || r.cells.flat().some((n) => by.get(n) && !by.get(n).same_elements)) })).filter((g) => g.rows.length)
    const hasTypes = data.pairs.some((p) => Number.isFinite(p?.type_db))
    const grid = binned({ ...data.grid, groups }, innerWidth <= 600 ? 400 : (hasTypes && innerWidth > 1000 ? maps.clientWidth - 448 : maps.clientWidth) - 192)
    const key = groups.map((g) => g.rows.length).join() + hasTypes + grid.binned
    if (maps.dataset.key === key) return
    maps.dataset.key = key
    left?.leave()
    right?.leave()
    const common = { grid, shapes: false, bad: 'damaged, in one model alone, or of another shape', go: (numbers) => { now = numbers[0] ?? -1; select() }, open }
    left = layerGrid({ ...common, label: 'Comparison by role and layer', look: lookLeft })
    right = layerGrid({ ...common, label: 'dB against what the type keeps of Gaussian values', look: lookRight })
    left.node.querySelector('.grid').classList.add('tall')
    right.node.querySelector('.grid').classList.add('tall', 'bare')
    maps.replaceChildren(el('div', null, el('div', { class: 'row mid' }, el('h2', { text: shown().name + ' by layer and role' }), el('span', { class: 'kindbox' }), el('span', { class: 'sub kindsub' })), left.node, el('div', { class: 'legendbox' })),
      hasTypes ? el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Against the type' }), faint('dB above or below Gaussian values')), right.node, el('p', { class: 'sub typewords t8' })) : '')
    maps.classList.toggle('lone', !hasTypes)
  }

  /** Says how a cell of the left map looks. */
  function lookLeft(numbers) {
    const kind = shown()
    const p = worstOf(numbers)
    if (!p) return { text: '', name: 'not computed yet' }
    const fail = broken(p)
    if (fail) return { mark: 'bad', text: '✕', name: fail }
    if (same(p) && !kind.all) return { text: '=', name: 'identical', two: p.type_b }
    const v = kind.value(p)
    if (v === null) return { text: none, name: 'not defined' }
    return { text: kind.text(v), two: p.type_b, t: Math.min(1, Math.max(0, kind.at(v))), ramp: kind.ramp, name: kind.long(v) + ', ' + p.type_b, bold: p.odd === 2 }
  }

  /** Says how a cell of the right map looks. */
  function lookRight(numbers) {
    const p = worstOf(numbers)
    if (!p) return { text: '', name: 'not computed yet' }
    const fail = broken(p)
    if (fail) return { mark: 'bad', text: '✕', name: fail }
    if (same(p)) return { text: '=', name: 'identical' }
    if (!Number.isFinite(p.type_db) || p.db === null) return { text: none, name: 'its type keeps all' }
    const v = p.db - p.type_db
    return { text: one(v), t: Math.min(1, Math.max(0, -v / 6)), ramp: 'odd', name: one(v) + ' dB against ' + p.type_b, bold: p.odd === 2 }
  }

  /** Says why a pair has no figures. */
  function broken(p) {
    if (p.error) return 'damaged: ' + p.error
    if (p.only_in) return 'only in ' + p.only_in.toUpperCase()
    if (p.lost) return 'NaN or infinite: ' + things(p.lost, 'value') + ', in one model alone'
    return p.other_shape ? 'another shape' : ''
  }

  /** Returns the pair of a cell that lost most. */
  function worstOf(numbers) {
    let w = null
    for (const n of numbers) {
      const p = by.get(n)
      if (p && (!w || broken(p) || (p.db ?? Infinity) < (w.db ?? Infinity))) w = p
    }
    return w
  }

  /** Opens the tensor of a cell. */
  function open(numbers) {
    const p = worstOf(numbers)
    if (p && p.only_in !== 'b') go(tensorLink(p.name))
  }

  /** Outlines what is looked at in both maps. */
  function select() {
    left?.select(marked, now)
    right?.select(marked, now)
  }

  /** Shows all as it is now known. */
  function update() {
    by.clear()
    for (const p of data.pairs) if (p) by.set(p.number, p)
    isTune = data.pairs.some((p) => p && p.relative_rms > 0) && !data.pairs.some((p) => Number.isFinite(p?.type_db))
    side()
    const p = data.progress, busy = p && !p.done && !data.problem
    progress.show(busy ? p.values / Math.max(1, p.all_values) : null, p?.seconds, `Reading both models: ${grouped(p?.tensors)} of ${grouped(p?.all_tensors)} tensors`)
    notes.replaceChildren(...(data.problem ? [el('p', { class: 'note bad' }, el('b', { text: data.problem.text }), el('br'), el('span', { class: 'm', text: data.problem.line }), ' ' + (data.problem.hint ?? ''))] : []))
    const o = data.overall
    if (o) {
      if (store.differ !== o.differ) changed()
      store.differ = o.differ
      const a = data.a, b = data.b
      const exact = o.relative_rms === 0 // no decibels also mean that A is all zeros, or that nothing could be compared
      const db = ['Overall, signal to error', exact ? 'identical' : o.db === null ? none : one(o.db) + thin + 'dB'], rms = ['Relative RMS', percent3(o.relative_rms)]
      figures.replaceChildren(strip([
        isTune ? rms : db, isTune && db, o.matrices_db !== null && ['Matrices of layers', one(o.matrices_db) + thin + 'dB'],
        !isTune && rms, ['Cosine', cosine(o.cosine)],
        ['Changed', `${grouped(o.differ)} of ${grouped(o.differ + o.identical + o.only_a + o.only_b)}`, `${grouped(o.identical)} identical, ${grouped(o.only_a + o.only_b)} missing` + (o.damaged ? `, ${o.damaged} damaged` : '')],
        a && b && ['Bits per weight', number(a.bits_per_weight) + ' → ' + number(b.bits_per_weight)],
        a && b && ['Size', bytes(a.bytes) + ' → ' + bytes(b.bytes), (b.bytes > 1.005 * a.bytes ? '+' : '') + grouped(Math.round(100 * (b.bytes / a.bytes - 1))) + thin + '%'],
      ], isTune ? rms[0] : db[0]))
      figures.firstElementChild?.classList.add('gapped')
    }
    cost.hidden = !data.findings.length
    findings.update(data.findings, !busy)
    cost.firstChild.textContent = 'What it cost' + (busy ? ', so far' : '')
    makeMaps()
    if (left) drawMaps()
    if (o) {
      bits.replaceChildren(...buy())
      bits.parentElement.classList.toggle('lone', !bits.firstChild)
      types.replaceChildren(...byType())
    }
    if (data.pairs.length) worstTable()
  }

  /** Draws both maps and their scale. */
  function drawMaps() {
    const kind = shown()
    left.update()
    if (right.node.isConnected) right.update()
    select()
    maps.querySelector('h2').textContent = kind.name + ' by layer and role'
    maps.querySelector('.kindsub').textContent = kind.sub
    choice(maps.querySelector('.kindbox'), 'Measure of comparison', kinds.map((k) => [k.key, k.name]), kind.key, setKind)
    const values = []
    for (const r of left.rows) for (const n of r.cells.flat()) {
      const q = by.get(n), v = q && (!same(q) || kind.all) ? kind.value(q) : null
      if (v !== null && v !== undefined) values.push(kind.place ? kind.place(v) : v)
    }
    const m = { ...kind, short: String }
    const w = left.node.clientWidth - (innerWidth > 600 ? 186 : 16)
    maps.querySelector('.legendbox').replaceChildren(legend(m, kind.d, values, Math.min(600, w)))
    maps.querySelector('.legend').style.marginLeft = innerWidth > 600 ? '178px' : '0'
    const typewords = maps.querySelector('.typewords')
    if (typewords) {
      const lows = [...by.values()].filter((q) => Number.isFinite(q.db) && Number.isFinite(q.type_db)).map((q) => q.db - q.type_db)
      const least = Math.min(...lows), explained = least > -3 && [...by.values()].every((q) => !Number.isFinite(q.db) || Number.isFinite(q.type_db))
      typewords.textContent = 'Colour from 0 to −6 dB' + (lows.length ? `; the furthest is ${one(least)} dB` + (explained ? ', so the dB lost come from the types chosen, not from these weights.' : '.') : '.')
    }
  }

  /** Returns the measure of the address, or null: the usual one. */
  function kindOf(s) {
    return kinds.find((k) => k.key === s.params.get('m')) ?? null
  }

  /** Returns the measure that is shown: relative RMS of a fine-tune, whose types have no dB of their own; dB else. */
  function shown() {
    return kind ?? kinds[isTune ? 2 : 0]
  }

  /** Changes the measure. */
  function setKind(key) {
    kind = null
    if (key !== shown().key) kind = kinds.find((k) => k.key === key)
    put({ m: kind?.key })
    if (left) drawMaps()
  }

  /** Shows the two models. */
  function side() {
    const box = (label, s, title) => el('div', { class: 'sidebox' }, faint(label), el('br'), el('b', { text: s?.title ?? title }), ' ', s ? faint([s.format, s.quantization || s.types, bytes(s.bytes)].filter(Boolean).join(' · ')) : null)
    if (sides.children.length && sides.dataset.known === String(Boolean(data.a))) return
    sides.dataset.known = String(Boolean(data.a))
    sides.replaceChildren(box('A, the reference', data.a, swap ? store.model.compared.title : store.model.title), el('button', { class: 'btn', title: 'Swap A and B', click: exchange }, el('span', { class: 'hidden', text: 'Swap A and B' }), '⇄ ', kbd('x')), box('B', data.b, swap ? store.model.title : store.model.compared.title))
  }

  /** Swaps A and B. */
  function exchange() {
    go('#/compare?' + new URLSearchParams(swap ? {} : { swap: '1' }).toString().replace(/\?$/, ''))
    say('A and B are swapped')
  }

  /** Draws dB over bits, unless all tensors have the same: a mark a tensor, a line for what a type keeps of Gaussian values. */
  function buy() {
    const points = [...by.values()].filter((p) => Number.isFinite(p.db) && Number.isFinite(p.bits) && !broken(p))
    if (new Set(points.map((p) => Math.round(10 * p.bits))).size < 2) return []
    const ts = data.types.filter((t) => Number.isFinite(t.db))
    const xs = points.map((p) => p.bits).concat(ts.map((t) => t.bits)), ys = points.map((p) => p.db).concat(ts.map((t) => t.type_db).filter(Number.isFinite))
    const x0 = Math.floor(Math.min(...xs) - 0.4), x1 = Math.ceil(Math.max(...xs) + 0.4), y0 = Math.floor((Math.min(...ys) - 2) / 5) * 5, y1 = Math.ceil(Math.max(...ys) / 5) * 5
    const w = Math.max(320, Math.min(560, innerWidth - 32)), h = 264, x = (v) => 40 + ((w - 56) * (v - x0)) / (x1 - x0), y = (v) => 214 - (178 * (v - y0)) / Math.max(5, y1 - y0)
    const g = svg('svg', { viewBox: `0 0 ${w} ${h}`, width: '100%', class: 'buyfig', role: 'img', 'aria-label': 'Bits per weight against dB: ' + ts.map((t) => `${t.type} ${number(t.bits)} bits, ${one(t.db)} dB`).join('; ') })
    const stepY = [5, 10, 20, 50].find((s) => y1 - y0 <= 9 * s) ?? 100
    for (let v = y0; v <= y1; v += stepY) g.append(svg('line', { class: 'gl', x1: 40, x2: w - 16, y1: y(v), y2: y(v) }), svg('text', { class: 'k e', x: 32, y: y(v) + 4, text: String(v).replace('-', '−') }))
    const stepX = x1 - x0 > 10 ? 4 : 1
    for (let v = x0; v <= x1; v += stepX) g.append(svg('text', { class: 'k c', x: x(v), y: 238, text: v }))
    g.append(svg('text', { class: 'k', x: 0, y: 12, text: 'dB' }), svg('text', { class: 'k e', x: w - 16, y: 256, text: 'bits per weight' }))
    const seen = {}
    points.slice(0, 1500).forEach((p) => {
      const i = (seen[p.type_b] = (seen[p.type_b] ?? 0) + 1)
      g.append(svg('circle', { class: 'pt', cx: (x(p.bits) + (((i * 0.618034) % 1) - 0.5) * 22).toFixed(1), cy: y(p.db).toFixed(1), r: 3 }))
    })
    for (const t of ts) {
      if (Number.isFinite(t.type_db)) g.append(svg('line', { class: 'ty', x1: x(t.bits) - 16, x2: x(t.bits) + 16, y1: y(t.type_db), y2: y(t.type_db) }))
      const flip = x(t.bits) > w - 90
      g.append(svg('text', { class: flip ? 'b e' : 'b', x: x(t.bits) + (flip ? -20 : 20), y: y(Number.isFinite(t.type_db) ? t.type_db : t.db) + 18, text: t.type + ' ' + grouped(seen[t.type] ?? 0) }))
    }
    g.append(svg('line', { class: 'ty', x1: 48, x2: 68, y1: 24, y2: 24 }), svg('text', { x: 74, y: 28, text: 'the type on Gaussian values' }), svg('circle', { class: 'pt', cx: 58, cy: 44, r: 3 }), svg('text', { x: 74, y: 48, text: 'a tensor' }))
    return [el('h2', { text: 'What bits buy' }), g]
  }

  /** Makes the table of types. */
  function byType() {
    const rows = data.types.map((t) => el('tr', null, el('td', { class: 'l m', text: t.type }), el('td', { text: grouped(t.tensors) }), el('td', { class: 'wide', text: count(t.elements) }), el('td', { text: number(t.bits) }),
      el('td', null, t.db === Infinity ? 'identical' : t.db === null ? none : dbChip(t.db)), el('td', { class: 'wide', text: one(t.type_db) }), el('td', { text: t.error_share ? percent(t.error_share) : '0' })))
    return [el('h2', { text: 'By type' }), scroller('By type', el('table', { class: 'tb t8' }, el('thead', null, el('tr', null, [['type in B', 'l'], ['tensors', ''], ['values', 'wide'], ['bits', ''], ['dB', ''], ['Gaussian', 'wide'], ['share of error', '']].map(([h, c]) => el('th', { scope: 'col', class: c, text: h })))), el('tbody', null, rows)))]
  }

  /** Makes a chip of dB. */
  function dbChip(v) {
    const m = { ...kinds[0], text: one }
    return chip({ ...m, unit: '' }, kinds[0].d, v, null)
  }

  const columns = [['name', 'tensor', 'l'], ['type_b', 'type', 'l wide'], ['bits', 'bits', 'wide'], ['db', 'dB', ''], ['to', 'to the type', 'wide'], ['relative_rms', 'relative RMS', 'wide'], ['cosine', 'cosine', 'wide'], ['max_abs', 'largest error', 'wide'], ['error_share', 'share of all error', 'wide']]
  let tableKey = ''
  /** Makes the table of the worst tensors. */
  function worstTable() {
    const key = [sort, all, data.pairs.length, Boolean(data.overall), Math.floor(Date.now() / 500) * (data.overall ? 0 : 1)].join()
    if (key === tableKey) return
    tableKey = key
    const value = (p, k) => (k === 'to' ? (p.db !== null && Number.isFinite(p.type_db) ? p.db - p.type_db : null) : p[k])
    const [by_, down] = [sort.replace(/^-/, '') || 'db', sort.startsWith('-')]
    const list = [...by.values()].filter((p) => !p.same_elements || broken(p))
    list.sort((p, q) => {
      const x = value(p, by_), y = value(q, by_)
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0)
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1)
    })
    list.sort((p, q) => Number(Boolean(broken(q))) - Number(Boolean(broken(p))))
    const shown = list.slice(0, all ? 400 : 10), only = list.filter((p) => p.only_in).length
    const held = worst.contains(document.activeElement) ? document.activeElement?.textContent?.replace(/ [↑↓]$/, '') : ''
    worst.replaceChildren(el('div', { class: 'row mid', css: { 'margin-bottom': '4px' } }, el('h2', { text: 'Worst tensors' }), el('span', { class: 'sub', text: `${shown.length} of ${grouped(list.length)}` + (only ? ` · only in one model: ${only}` : ' · only in one model: 0') }),
      list.length > 10 ? el('button', { class: 'link', text: all ? 'fewer' : 'all', click: () => { all = !all; worstTable() } }) : null,
      el('span', { class: 'sp' }, el('button', { class: 'btn low', text: 'Copy command', click: () => copy(`tensormap diff ${[store.model, store.model.compared].map((m) => quote(m.from))[swap ? 'reverse' : 'slice']().join(' ')} --sort db`) }))),
    scroller('Worst tensors', el('table', { class: 'tb' }, el('thead', null, el('tr', null, columns.map(([k, h, c]) => el('th', { scope: 'col', class: c, 'aria-sort': k === by_ ? (down ? 'descending' : 'ascending') : null }, el('button', { class: 'headbtn', text: h + (k === by_ ? (down ? ' ↓' : ' ↑') : ''), click: () => { sort = k === by_ ? (down ? k : '-' + k) : k === 'db' || k === 'name' || k === 'cosine' || k === 'to' ? k : '-' + k; put({ sort: sort === 'db' ? '' : sort }); worstTable() } }))))),
      el('tbody', null, shown.map((p) => {
        const fail = broken(p)
        return el('tr', null, el('td', { class: 'l m name' }, p.only_in === 'b' ? p.name : el('a', { href: tensorLink(p.name), text: named(p.name), title: p.name })), el('td', { class: 'l wide', text: p.type_a === p.type_b ? p.type_a : (p.type_a || none) + ' → ' + (p.type_b || none) }),
          el('td', { class: 'wide', text: number(p.bits) }), el('td', null, fail ? el('span', { class: 'chip bad', text: '✕ ' + fail.split(':')[0] }) : p.db === null ? none : dbChip(p.db)), el('td', { class: 'wide', text: one(value(p, 'to')) }), el('td', { class: 'wide', text: percent3(p.relative_rms) }),
          el('td', { class: 'wide', text: cosine(p.cosine) }), el('td', { class: 'wide', text: number(p.max_abs) }), el('td', { class: 'wide', text: data.overall ? percent(p.error_share) : '' }))
      })))))
    if (held) [...worst.querySelectorAll('button')].find((b) => b.textContent?.startsWith(held))?.focus()
  }

  const end = listen(update)
  update()
  start()
  return {
    update,
    state: () => (data.progress?.done || data.overall ? 'Exact: ' + grouped(data.progress?.values ?? 0) + ' pairs of values' + (data.progress && host !== 'file' ? ', ' + seconds(data.progress.seconds) : '') : 'Reading both models'),
    leave: () => { end(); stop.abort(); left?.leave(); right?.leave() },
    reset(s) {
      if ((s.params.get('swap') === '1') !== swap) return false
      kind = kindOf(s)
      sort = s.params.get('sort') ?? ''
      update()
      return true
    },
    keys(e) {
      if (e.key === 'x') exchange()
      else if (e.key === 'o') findings.next()
      else if (e.key === 'm' || e.key === 'M') {
        setKind(kinds[(kinds.indexOf(shown()) + (e.key === 'm' ? 1 : -1) + kinds.length) % kinds.length].key)
        say(shown().name)
      } else if (e.key === 's') {
        const keys = ['', 'to', '-relative_rms', '-error_share', 'name']
        sort = keys[(keys.indexOf(sort) + 1) % keys.length]
        put({ sort })
        worstTable()
      } else return false
      return true
    },
  }
}

/** Writes a share with three digits. */
function percent3(x) {
  return x === null ? none : number(100 * x) + thin + '%'
}

/** Forgets comparisons: another model is shown. */
export function forgetComparisons() {
  kept.clear()
}

/** Says how two models are compared. */
function needsSecond(main) {
  const line = `tensormap explore ${quote(store.model.from)} SECOND`
  main.append(el('section', { class: 'near' }, el('h1', { text: 'Compare' }), el('p', { class: 't8', text: 'A comparison needs a second model: an original and its quantization, or a base and its fine-tune. The first is the reference.' }),
    el('pre', { css: { 'margin-top': '16px', 'max-width': '704px' }, text: line }), el('div', { class: 'btns' }, el('button', { class: 'btn', text: 'Copy command', click: () => copy(line) }))))
  if (host === 'worker') chooser(main, () => document.dispatchEvent(new Event('again')), 'b')
  return { reset: () => true, leave() {} }
}
