// @ts-check
// The list of tensors. Go searches, sorts and groups; the page asks for windows of 60 rows and keeps only the ones in view in
// the document.
import { copyGo } from './aside.js'
import { ask, host } from './ask.js'
import { atRest, choice, el, faint, kbd, svg } from './dom.js'
import { sigmaChip, chip } from './figure.js'
import { bytes, grouped, named, none, number, shape, things } from './format.js'
import { layerExperts } from './experts.js'
import { findingsList } from './findings.js'
import { merged } from './grid.js'
import { allZero, bound, broken, measure, position } from './measures.js'
import { colour } from './scale.js'
import { savedList } from './saved.js'
import { listen, rowsOf, store } from './store.js'
import { go, put, read, tensorLink } from './route.js'

const windowSize = 60
const sorts = [['name', 'name', 'l'], ['', 'largest, by layer', 'l strip0'], ['type', 'dtype', 'l'], ['elements', 'shape', ''], ['size', 'size', ''], ['std', 'σ', ''], ['max_sigma', 'max in σ', ''], ['', 'note', 'l']]

/** Makes a cell of a row. */
function cell(css, ...children) {
  return el('span', { class: 'lc ' + css, role: 'gridcell' }, ...children)
}

/** Shows the list; inside another view without a field of its own height. */
export function listView(main, inside) {
  let q = '', group = '', sort = '', show = '', open = new Set()
  let high = 28 // of a row: in a narrow window it has a second line
  let rows = 0, matches = 0, active = history.state?.row ?? 0, wantFocus = false, fresh = true, returns = active > 0
  let windows = new Map(), generation = 0, stop = new AbortController()
  const extras = new Map() // heights of opened maps of experts, by row

  const field = el('input', { type: 'search', maxlength: 400, 'aria-label': 'Find tensors', placeholder: store.model.example, autocomplete: 'off', spellcheck: 'false', class: 'bigfield' })
  take(read())
  const groups = el('span'), shows = el('span'), summary = el('span', { class: 'sub', role: 'status' }), problem = el('p', { class: 'note warn', hidden: true })
  const head = el('div', { class: 'lr lh', role: 'row' }), body = el('div', { class: 'lbody', role: 'rowgroup' })
  const table = el('div', { class: 'list', role: 'treegrid', 'aria-label': 'Tensors' }, el('div', { role: 'rowgroup' }, head), body)
  const layers = store.model.grid.layers
  const findings = findingsList('Findings', () => {}, (f) => rowsOf(f.numbers.slice(0, 1)).then(() => go(tensorLink(store.rows[f.numbers[0]].name)), () => {})), odd = el('div', { hidden: true, class: 'listodd' }, findings.nodes[0], findings.nodes[2])
  main.append(inside ? '' : el('h1', { class: 'hidden', text: store.model.title + ': tensors' }),
    el('div', { class: 'listbar' }, field, el('span', null, faint('Group'), groups), el('span', null, faint('Show'), shows)),
    el('p', { class: 'sub listhelp' }, 'Words match whole parts: ', el('b', { text: 'layer 3' }), ' is layer 3, not 13 or 30. ' + (host === 'file' ? '' : 'Whole names take globs. '), el('span', { class: 'wide' }, kbd('↑'), ' ', kbd('↓'), ' move, ', kbd('→'), ' unfold, ', kbd('←'), ' fold, ', kbd('↵'), ' open, ', kbd('s'), ' sort'), ' ', summary),
    problem, inside ? '' : odd, table)

  /** Takes search, groups, order and filter from the address. */
  function take(s) {
    [q, group, sort, show] = ['q', 'group', 'sort', 'only'].map((k) => s.params.get(k) ?? '')
    open = new Set(s.params.getAll('open'))
    field.value = q
    fresh = true
  }

  /** Asks for everything anew: the search, order or groups have changed. */
  function ask_() {
    generation++
    stop.abort()
    stop = new AbortController()
    windows = new Map()
    table.setAttribute('aria-busy', 'true')
    put({ q, group, sort, only: show, m: '', at: '' })
    const s = read()
    s.params.delete('open')
    history.replaceState(history.state, '', location.hash.split('?')[0] + query(s.params))
    bar()
    fetchWindow(0)
  }

  /** Writes the parameters of the address, unfolded groups included while they are few. */
  function query(params) {
    if (open.size < 12) for (const id of open) params.append('open', id)
    const text = params.toString()
    return text ? '?' + text : ''
  }

  /** Returns how rows are grouped: by role, but for what is searched, sorted or filtered, or few in place of a map. */
  function grouping() {
    return group || (q || sort || show || (inside && store.model.tensors < 100) ? 'none' : 'role')
  }

  /** Returns the path that asks for rows from one on. */
  function path(from) {
    const p = new URLSearchParams({ q, group: grouping(), sort, show })
    for (const id of open) p.append('open', id)
    p.append('from', String(from))
    p.append('count', String(windowSize))
    return 'data/list?' + p.toString().replaceAll('+', '%20')
  }

  /** Asks for a window of rows. */
  async function fetchWindow(from) {
    if (windows.has(from)) return
    windows.set(from, null)
    const mine = generation
    try {
      const a = host === 'file' ? await savedList({ q, group: grouping(), sort, show, open }) : await (await ask(path(from), { signal: stop.signal })).json()
      if (mine !== generation) return
      rows = a.rows
      matches = a.matches
      problem.hidden = !a.problem
      problem.textContent = a.problem
      if (host === 'file') for (let i = 0; i < a.window.length; i += windowSize) windows.set(i, a.window.slice(i, i + windowSize))
      else windows.set(from, a.window)
      for (const r of a.window) if (r.tensor) store.rows[r.tensor.number] ??= r.tensor
      if (from === 0) {
        active = Math.min(active, Math.max(0, rows - 1))
        filters(a.shows)
        if (unfold()) return
      }
      table.removeAttribute('aria-busy')
      summary.textContent = q || show ? `${grouped(matches)} of ${grouped(store.model.tensors)}` + (sort ? ' · sort ' + sortName() : '') : sort ? 'sort ' + sortName() : ''
      if (from === 0 && returns) move(active)
      else draw(true)
      returns = false
    } catch (e) {
      if (e.name === 'AbortError' || mine !== generation) return
      table.removeAttribute('aria-busy')
      problem.hidden = false
      problem.textContent = (e.problem?.text ?? String(e)) + ' ' + (e.problem?.hint ?? '')
    }
  }

  /** Unfolds the groups that hold something wrong, once and if they are few. Returns whether there are any. */
  function unfold() {
    if (!fresh || !store.progress?.done || q || sort || show || open.size) return false
    fresh = false
    const wrong = (windows.get(0) ?? []).filter((r) => !r.tensor && note(r).length)
    if (!wrong.length || wrong.length > 6) return false
    open = new Set(wrong.map((r) => r.id))
    ask_()
    return true
  }

  /** Says by what is sorted. */
  function sortName() {
    const key = sort.replace(/^-/, '')
    return (sorts.find(([k]) => k === key)?.[1] ?? key) + (sort.startsWith('-') ? ' ↓' : ' ↑')
  }

  /** Writes the choice of groups and the heads. */
  function bar() {
    table.classList.toggle('flat', grouping() === 'none')
    choice(groups, 'Group', [['role', 'role'], ['layer', 'layer'], ['none', 'none']], grouping(), (k) => { group = k; open = new Set(); ask_() })
    const heldHead = head.contains(document.activeElement) ? document.activeElement?.textContent?.replace(/ [↑↓]$/, '') : null
    head.replaceChildren(...sorts.map(([key, name, cls]) => {
      const on = key && sort.replace(/^-/, '') === key
      const label = name === 'largest, by layer' ? (layers.length > 1 ? `largest, by layer ${layers[0]} – ${layers[layers.length - 1]}` : '') : name
      return el('span', { class: 'lc ' + cls, role: 'columnheader', 'aria-sort': on ? (sort.startsWith('-') ? 'descending' : 'ascending') : null }, key ? el('button', { class: 'headbtn', text: label + (on ? (sort.startsWith('-') ? ' ↓' : ' ↑') : ''), click: () => sortBy(key) }) : label)
    }))
    if (heldHead) [...head.querySelectorAll('button')].find((b) => b.textContent?.startsWith(heldHead))?.focus()
  }

  /** Sorts by a column; again, the other way; a third time, not at all. */
  function sortBy(key) {
    const first = key === 'name' || key === 'type' ? key : '-' + key, second = first.startsWith('-') ? key : '-' + key
    sort = sort === first ? second : sort === second ? '' : first
    active = 0
    ask_()
  }

  /** Writes the filters with their counts. */
  function filters(list) {
    choice(shows, 'Show', list.map((s) => [s.show, (s.show || 'all') + ' ' + grouped(s.tensors)]), show, (k) => { show = k; active = 0; ask_() })
  }

  /** Returns the height above a row. */
  function y(i) {
    let sum = i * high
    for (const [row, h] of extras) if (row < i) sum += h
    return sum
  }

  /** Returns the row at a height. */
  function rowAt(h) {
    let i = Math.floor(h / high)
    while (i > 0 && y(i) > h) i--
    return Math.max(0, i)
  }

  /** Returns a row that is known, or undefined. */
  function row(i) {
    const from = Math.floor(i / windowSize) * windowSize
    return windows.get(from)?.[i - from]
  }

  /** Says above the groups what is odd in them: folded, they show no layer and no expert. */
  function drawOdd() {
    const list = store.findings.filter((f) => f.severity > 0 && f.numbers?.length)
    odd.hidden = !list.length || Boolean(q || sort || show) || grouping() === 'none'
    if (!odd.hidden) findings.update(list, Boolean(store.progress?.done))
  }

  let drawn = ''
  /** Puts the rows in view into the document, ten over. */
  function draw(force) {
    if (!inside) drawOdd()
    high = innerWidth <= 900 ? 44 : 28
    const top = -body.getBoundingClientRect().top
    let a = Math.max(0, rowAt(Math.max(0, top)) - 10), b = Math.min(rows, rowAt(Math.max(0, top + innerHeight)) + 11)
    if (inside) b = Math.min(rows, b)
    const key = `${generation}/${a}/${b}`
    if (key === drawn && !force) return
    drawn = key
    extras.clear()
    for (const [from, list] of windows) list?.forEach((r, i) => { if (r.open && r.experts > 0) extras.set(from + i, layerExperts.height(r)) })
    body.style.height = y(rows) + 'px'
    table.setAttribute('aria-rowcount', String(rows + 1))
    for (let from = Math.floor(a / windowSize) * windowSize; from < b; from += windowSize) fetchWindow(from)
    const held = body.contains(document.activeElement) || wantFocus
    const out = []
    for (let i = a; i < b; i++) out.push(line(i))
    if (active < a || active >= b) if (active < rows) out.push(line(active))
    body.replaceChildren(...out.flat())
    if (held) body.querySelector('[data-i][tabindex="0"]')?.focus({ preventScroll: true })
    wantFocus = false
  }

  /** Makes a row. */
  function line(i) {
    const r = row(i)
    const node = el('div', { class: 'lr', role: 'row', 'data-i': i, tabindex: i === active ? 0 : -1, 'aria-rowindex': i + 2, 'aria-level': (r?.depth ?? 0) + 1, css: { top: y(i) + 'px', '--in': 20 * (r?.depth ?? 0) + 16 + 'px' } })
    if (!r) {
      node.append(cell('l', '…'))
      return [node]
    }
    const t = r.tensor, s = t && store.stats[t.number]
    if (!t) node.setAttribute('aria-expanded', String(r.open))
    const name = el('span', { class: 'lc l m nm' + (r.by_layer ? '' : ' long'), role: 'gridcell', title: r.name, css: { 'padding-left': 20 * r.depth + (t ? 16 : 0) + 'px' } },
      t ? null : el('span', { class: 'fold', 'aria-hidden': 'true', text: r.open ? '▾' : '▸' }), el('span', { class: 'nn' }, el('bdi', { dir: 'ltr' }, ...marked(r))), t ? null : faint(' ' + grouped(r.tensors)))
    const size = bytes(t ? t.stored_bytes : r.stored_bytes)
    const std = t ? (s ? (s.error ? none : bound(s, '≈') + number(s.std)) : '') : range(r)
    const sigma = t ? sigmaChip(s) : worst(r)
    node.append(name, cell('strip0', r.by_layer ? stripOf(r) : ''), cell('l ty', t ? t.type : r.types),
      cell('shp', shape(t ? t.shape : r.shape)), cell('sz', size), cell('sd', std), cell('', sigma),
      cell('l nt', ...note(r, s)))
    if (!t && r.open && r.experts > 0) {
      const map = layerExperts(r, y(i) + high, (numbers) => rowsOf(numbers).then(() => go(tensorLink(store.rows[numbers[0]].name)), () => {}), () => { q = ''; group = 'none'; field.value = q = r.search || r.name; ask_() })
      return [node, map]
    }
    return [node]
  }

  /** Marks what the search found in a name. Offsets are in bytes. */
  function marked(r) {
    if (!r.matched?.length) return [named(r.name)]
    const raw = new TextEncoder().encode(r.name), dec = new TextDecoder(), out = []
    let from = 0
    for (let i = 0; i + 1 < r.matched.length; i += 2) {
      if (r.matched[i] < from) continue
      out.push(dec.decode(raw.slice(from, r.matched[i])), el('mark', { text: dec.decode(raw.slice(r.matched[i], r.matched[i + 1])) }))
      from = r.matched[i + 1]
    }
    out.push(dec.decode(raw.slice(from)))
    return out
  }

  /** Says whether figures of a group are of a sample, by its tensors where these are known. */
  function ofSample(r) {
    return { sampled: r.by_layer ? r.by_layer.flat().some((n) => store.stats[n]?.sampled) : store.progress?.share < 1 }
  }

  /** Writes the smallest and the largest σ of a group. */
  function range(r) {
    const [low, high] = r.std ?? [null]
    return low === null ? '' : bound(ofSample(r), '≈') + (low === high ? number(low) : number(low) + ' – ' + number(high))
  }

  /** Makes the chip of the worst tensor of a group. */
  function worst(r) {
    let most = r.max_sigma
    for (const n of r.by_layer?.flat() ?? []) {
      const v = store.stats[n]?.max_sigma
      if (v !== undefined && v !== null && (most === null || v > most)) most = v
    }
    return most === null || most === undefined ? el('span', { class: 'chip' }) : chip(measure('max_sigma'), { low: 4, high: 256 }, most, ofSample(r))
  }

  /** Draws the strip of a group: a cell a layer, of the colour of its worst tensor. */
  function stripOf(r) {
    const m = measure('max_sigma'), cells = merged(r.by_layer, 96), w = 192 / cells.length
    const g = svg('svg', { width: 192, height: 14, role: 'img', 'aria-label': 'largest in σ by layer' })
    cells.forEach((list, i) => {
      if (!list.length) return
      let v, bad = false, zero = false
      for (const k of list) {
        const s = store.stats[k]
        if (broken(s)) bad = true
        if (allZero(s)) zero = true
        if (s?.max_sigma !== undefined && s.max_sigma !== null && (v === undefined || s.max_sigma > v)) v = s.max_sigma
      }
      const cw = Math.max(0.6, w - (w > 3 ? 1 : 0))
      g.append(svg('rect', { x: (i * w).toFixed(2), width: cw.toFixed(2), height: 14, fill: v === undefined ? 'var(--void)' : colour('odd', position(m, { low: 4, high: 256 }, v)) }))
      if (bad || zero) g.append(svg('path', { d: `M${(i * w + 0.5).toFixed(2)} .5h${Math.max(1, cw - 1).toFixed(2)}v13h${-Math.max(1, cw - 1).toFixed(2)}z` + (bad ? `l${cw.toFixed(2)} 13` : ''), fill: 'none', stroke: bad ? 'var(--bad)' : 'var(--warn)' }))
    })
    return g
  }

  /** Says what is wrong with a tensor or in a group. */
  function note(r, s) {
    if (r.tensor) {
      if (s?.error && s.kind !== 'no values') return [el('span', { class: 'bad', text: 'damaged', title: s.error })]
      if (s && s.nan + s.pos_inf + s.neg_inf > 0) return [el('span', { class: 'bad', text: bound(s) + things(s.nan, 'NaN', 'NaN') + (s.pos_inf + s.neg_inf ? ', ' + bound(s) + grouped(s.pos_inf + s.neg_inf) + ' infinite' : '') })]
      if (allZero(s)) return [el('span', { class: 'warn', text: 'all zero' })]
      return [r.note || (s?.excess >= 10 ? '▲ outlier' : s?.excess >= 4 ? '△ outlier' : s?.odd ? '△ odd' : '')]
    }
    if (r.note) return r.note.split(/(, )/).map((x) => (/damaged|NaN/.test(x) ? el('span', { class: 'bad', text: x }) : /all zero/.test(x) ? el('span', { class: 'warn', text: x }) : x))
    const all = (r.by_layer ?? []).flat().map((n) => store.stats[n]).filter(Boolean)
    const bad = all.filter((x) => x.error && x.kind !== 'no values').length, nan = all.filter((x) => !x.error && broken(x)).length, zero = all.filter(allZero).length
    return [bad && el('span', { class: 'bad', text: bad + ' damaged' }), bad && nan ? ', ' : '', nan && el('span', { class: 'bad', text: nan + ' with NaN' }), zero && (bad || nan) ? ', ' : '', zero && el('span', { class: 'warn', text: zero + ' all zero' })].filter(Boolean)
  }

  /** Moves to a row and brings it into view. */
  function move(i) {
    active = Math.max(0, Math.min(rows - 1, i))
    const at = body.getBoundingClientRect().top + scrollY + y(active)
    if (at < scrollY + 60) scrollTo(0, at - 60)
    else if (at + high > scrollY + innerHeight - 48) scrollTo(0, at + high + 48 - innerHeight)
    wantFocus = true
    draw(true)
  }

  /** Opens a tensor, or folds or unfolds a group. */
  function enter(i) {
    const r = row(i)
    if (!r) return
    if (r.tensor) {
      history.replaceState({ ...history.state, row: i }, '') // where Esc comes back to
      return go(tensorLink(r.tensor.name))
    }
    fresh = false
    if (r.open) open.delete(r.id)
    else open.add(r.id)
    active = i
    wantFocus = body.contains(document.activeElement)
    ask_()
  }

  body.addEventListener('click', (e) => {
    const target = /** @type {Element} */ (e.target).closest('[data-i]')
    if (target instanceof HTMLElement) enter(Number(target.dataset.i))
  })
  body.addEventListener('keydown', (e) => {
    if (!/** @type {Element} */ (e.target).matches('[data-i]')) return
    const r = row(active), page = Math.max(1, Math.floor(innerHeight / high) - 6)
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows - 1 }[e.key]
    if (to !== undefined) move(to)
    else if (e.key === 'Enter') enter(active)
    else if (e.key === 'ArrowRight' && r && !r.tensor) r.open ? move(active + 1) : enter(active)
    else if (e.key === 'ArrowLeft' && r) {
      if (!r.tensor && r.open) enter(active)
      else {
        let i = active - 1
        while (i > 0 && (row(i)?.depth ?? 0) >= r.depth) i--
        if (r.depth) move(i)
      }
    } else return
    e.preventDefault()
    e.stopPropagation()
  })
  body.addEventListener('focusin', (e) => {
    const i = /** @type {Element} */ (e.target).closest('[data-i]')?.getAttribute('data-i')
    if (i !== null && i !== undefined) active = Number(i)
  })
  let typing = 0
  field.addEventListener('input', () => {
    clearTimeout(typing)
    typing = setTimeout(() => { q = field.value.trim(); active = 0; open = new Set(); ask_() }, 30)
  })
  field.addEventListener('keydown', (e) => {
    if (e.key === 'ArrowDown' || e.key === 'Enter') {
      e.preventDefault()
      move(0)
    }
  })
  const scrolled = () => draw(false)
  addEventListener('scroll', scrolled, { passive: true })
  let last = 0
  const end = listen(() => {
    if (Date.now() - last < 200 && !store.progress?.done) return
    last = Date.now()
    if (store.progress?.done && (sort === '-max_sigma' || sort.includes('std') || show === 'odd' || (fresh && !open.size)) && !finished) {
      finished = true
      ask_()
    } else draw(true)
  })
  let finished = Boolean(store.progress?.done)
  ask_()
  return {
    update: () => draw(true),
    leave: () => { end(); stop.abort(); clearTimeout(typing); removeEventListener('scroll', scrolled) },
    reset(s) {
      const was = JSON.stringify([q, group, sort, show, ...open])
      take(s)
      if (JSON.stringify([q, group, sort, show, ...open]) !== was) {
        active = 0
        ask_()
      }
      return true
    },
    keys(e) {
      const t = row(active)?.tensor
      if (e.key === 'c' && t) copyGo(t.name)
      else if (e.key === 's') {
        const keys = ['-max_sigma', '-size', '-std', 'name', '']
        sort = keys[(keys.indexOf(sort) + 1) % keys.length]
        active = 0
        ask_()
      } else if (e.key === 'o' && !odd.hidden) findings.next()
      else if (e.key === 'ArrowDown' && atRest()) move(active)
      else return false
      return true
    },
  }
}
