// @ts-check
// One tensor: what is in it, and how it is read.
import { host, problemOf } from './ask.js'
import { figures, flat, paintTiles, pairs } from './aside.js'
import { choice, copy, el, faint, kbd, rich, scroller, svg } from './dom.js'
import { edge, histogram, legend } from './figure.js'
import { bytes, cell, grouped, named, none, number, place, thin, things } from './format.js'
import { allZero, bound, broken, measure, position, spreads } from './measures.js'
import { byLog, colour, ink, paint } from './scale.js'
import { changed, listen, picture, remember, rowsOf, store } from './store.js'
import { go, link, put, read, tensorLink } from './route.js'
import { strip } from './overview.js'

const matrixMeasure = { key: 'matrix', ramp: 'odd', log: true, ticks: [2, 4, 8, 16, 32, 64, 128, 256], tick: String, short: cell, foot: '|x − mean| in σ, log scale, clamped to 2…256' }
const meanMeasure = { key: 'mean', ramp: 'odd', ticks: [0, 1, 2, 3, 4], tick: String, short: cell, foot: '|mean of a tile − mean| in σ, linear, clamped to 4' }

/** Shows a tensor. */
export function tensorView(main, name) {
  const stop = new AbortController(), { signal } = stop
  const key = encodeURIComponent(name)
  let t = null, matrix = null
  let end = () => {}
  const reading = el('p', { class: 'sub', role: 'status', text: 'Reading the tensor …' })
  main.append(crumbs(name), el('h1', { class: 'm t4' }, ...breakable(name)), reading)

  start().catch((e) => {
    if (e.name === 'AbortError') return
    reading.remove()
    const p = problemOf(e)
    main.append(el('p', { class: 'note bad' }, el('b', { text: p.text }), p.line ? el('br') : null, el('span', { class: 'm', text: p.line }), ' ' + (p.hint ?? '')))
  })

  /** Asks for the tensor and shows it. */
  async function start() {
    t = await remember('data/tensor?name=' + key, signal)
    if (signal.aborted) return
    changed() // what the last line says
    const s = t.stat
    const same = el('span', { class: 'sp' })
    main.replaceChildren(crumbs(name), el('div', { class: 'row mid t4' }, el('h1', { class: 'm' }, ...breakable(t.name)), same), facts(t))
    for (const f of t.findings.slice(0, 4)) main.append(el('p', { class: 'note' + (f.severity >= 3 ? ' bad' : f.severity ? ' warn' : '') }, ...rich(f.text), f.evidence ? faint(' · ' + f.evidence) : null))
    if (s.error) main.append(el('p', { class: 'note' + (s.kind === 'no values' ? '' : ' bad') }, el('b', { text: s.kind === 'no values' ? 'No figures: ' : 'The values cannot be read: ' }), el('span', { class: 'm', text: s.error })))
    const drawSame = () => sameRole(same, t)
    end = listen(drawSame)
    drawSame()
    rowsOf(t.same_role).catch(() => {})
    if (!s.error) {
      main.append(values(t))
      if (t.matrix_rows >= 1 && t.matrix_columns > 1 && spreads(s)) {
        matrix = matrixPart(t, key, signal)
        main.append(matrix.node)
      }
    }
    main.append(el('section', { class: 'halves' }, t.parts.length ? parts(t) : el('div', null, blockWords(t), firstValues(t)), readIt(t)))
  }

  return {
    update: () => matrix?.update(),
    leave: () => { stop.abort(); end(); matrix?.leave() },
    state: () => (t && !t.stat.error ? 'Exact: ' + grouped(t.stat.finite + t.stat.nan + t.stat.pos_inf + t.stat.neg_inf) + ' values' : 'one tensor'),
    reset: () => false,
    keys(e) {
      if (!t) return false
      if (e.key === '[' && t.before) go(tensorLink(t.before))
      else if (e.key === ']' && t.after) go(tensorLink(t.after))
      else if (e.key === 'c') copy(t.go)
      else return matrix?.keys(e) ?? false
      return true
    },
  }
}

/** Makes the path of a name: each part leads to the tensors below it, in a page of one file to the tensors that have its words side by side. */
function crumbs(name) {
  if (name.length > 200) return el('nav')
  const parts = name.split('.'), [escaped, any] = host === 'file' ? [' ', ''] : ['\\$&', '*']
  if (parts.length > 2 && ['weight', 'bias'].includes(parts[parts.length - 1])) parts.pop()
  return el('nav', { class: 'sub', 'aria-label': 'Path' }, parts.flatMap((p, i) => [i ? ' / ' : '', el('a', { href: link('tensors', { q: parts.slice(0, i + 1).join('.').replace(/[\\*?[{]/g, escaped) + any }), text: named(p) })]))
}

/** Makes the strip of facts of a tensor. */
function facts(t) {
  const bits = t.elements ? (8 * t.stored_bytes) / t.elements : null
  const list = strip([
    ['Type', t.type, t.stored], ['Shape', t.shape.length ? t.shape.map(grouped).join(' × ') : 'scalar', things(t.elements, 'value')], ['Stored', bytes(t.stored_bytes), bits === null ? '' : number(bits) + ' bits per weight'],
    ['Offset', grouped(t.offset), '0x' + t.offset.toString(16).toUpperCase() + (store.model.files > 1 ? ', file ' + (t.file + 1) + ' of ' + store.model.files : '')], ['Read as', t.read_as, t.float_bytes ? bytes(t.float_bytes) : ''],
    store.model.compared && ['Against ' + store.model.compared.title, t.db === undefined ? el('a', { href: '#/compare', text: 'compare' }) : t.db === 'Infinity' ? 'identical' : t.db === null ? none : cell1(t.db) + thin + 'dB', Number.isFinite(t.type_db) ? 'its type on Gaussian: ' + cell1(t.type_db) : ''],
  ])
  list.style.marginTop = '16px'
  return list
}

/** Writes a number with one decimal. */
function cell1(x) {
  return Number.isFinite(x) ? x.toFixed(1).replace('-', '−') : number(x)
}

/** Shows the same role over the layers, coloured by the largest in σ. */
function sameRole(box, t) {
  if (t.same_role.length < 2) return
  const m = measure('max_sigma'), many = t.same_role.length > 24
  const links = t.same_role.map((n, i) => {
    const row = store.rows[n], s = store.stats[n], v = m.value(row, s), sign = broken(s) ? '✕' : allZero(s) ? '□' : ''
    if (!row) return null
    const a = el('a', { href: tensorLink(row.name), class: 'same' + (many ? ' many' : '') + (n === t.number ? ' now' : ''), 'aria-current': n === t.number ? 'page' : null, 'aria-label': 'layer ' + (row.layer ?? i) + (v ? ', ' + bound(s) + m.long(v) : '') + ({ '✕': ', damaged or NaN', '□': ', all zero' }[sign] ?? ''), title: 'layer ' + row.layer, text: sign ? sign : many ? '' : v === undefined ? '…' : v === null ? none : bound(s) + m.text(v) })
    if (sign) a.classList.add(sign === '✕' ? 'bad' : 'warn')
    else if (v !== undefined && v !== null) paint(a, m.ramp, position(m, { low: 4, high: 256 }, v))
    return a
  })
  const held = box.contains(document.activeElement)
  if (!held) box.replaceChildren(el('span', { class: 'sub', css: { 'margin-right': '6px' }, text: 'same role, max in σ' }), ...links.filter(Boolean), ...(t.same_role_more ? [el('span', { class: 'sub', text: 'and ' + grouped(t.same_role_more) + ' more' })] : []))
}

/** Returns a name that lines may break behind its dots. */
function breakable(name) {
  return name.length > 200 ? [name] : named(name).split('.').flatMap((part, i) => (i ? ['.', el('wbr'), part] : part))
}

/** Makes the histogram and the statistics. */
function values(t) {
  const s = t.stat
  const table = el('button', { class: 'link', 'aria-expanded': 'false', text: 'Show the counts as a table', click: () => {
    const open = table.getAttribute('aria-expanded') === 'false'
    table.setAttribute('aria-expanded', String(open))
    if (open) box.append(counts(s))
    else box.querySelector('.counts')?.remove()
  } })
  const box = el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Values by σ' }), el('span', { class: 'sub wide', text: 'bins equal in asinh(z ÷ 2): ¼ σ in the middle, 12 % of the value outside; counts on a log axis' })),
    s.sigma_histogram?.length && spreads(s) ? histogram(s, innerWidth > 600 ? 880 : Math.max(320, innerWidth - 32), 272, true) : el('p', { class: 'note', text: s.std === 0 ? 'All values are ' + number(s.mean) + '.' : 'There is no histogram.' }), s.sigma_histogram?.length ? table : null)
  return el('section', { class: 'cols near' }, box, el('aside', { class: 'side', 'aria-label': 'Statistics' }, el('h3', null, 'Statistics ', el('span', { text: (s.sampled ? 'of a sample' : 'exact') + ', ' + things(t.elements, 'value') })), pairs(figures(s, true), true)))
}

/** Makes the table of the histogram's counts, without empty bins. */
function counts(s) {
  const body = el('tbody')
  s.sigma_histogram.forEach((n, i) => {
    if (n) body.append(el('tr', null, el('td', { text: number(edge(i)) + ' to ' + number(edge(i + 1)) + ' σ' }), el('td', { text: grouped(n) }), el('td', { text: s.gaussian ? number(s.gaussian[i]) : '' })))
  })
  return el('div', { class: 'box counts', css: { 'max-width': '480px' } }, el('table', { class: 'tb' }, el('thead', null, el('tr', null, ['from mean', 'values', 'Gaussian'].map((h) => el('th', { scope: 'col', text: h })))), body))
}

/** Makes the matrix: tiles, norms of rows and columns, values around a place. */
function matrixPart(t, key, signal) {
  const R = t.matrix_rows, C = t.matrix_columns, s = t.stat
  const state = read()
  let as = state.params.get('as') === 'mean' ? 'mean' : 'max'
  const peak = s.max_sigma_at?.length ? [s.max_sigma_at[0], flat(s.max_sigma_at, t.shape)] : [0, 0]
  if (t.shape.length === 1) peak.splice(0, 2, 0, s.max_sigma_at?.[0] ?? 0)
  let at = (state.params.get('at') ?? '').split(',').map(Number)
  if (at.length !== 2 || !at.every((x, i) => Number.isInteger(x) && x >= 0 && x < [R, C][i])) at = [...peak]
  let zoom = Math.max(1, Number(state.params.get('zoom')) || 1)
  let win = [0, R, 0, C], p = null, norms = null, asked = 0

  const canvas = el('canvas', { tabindex: 0, role: 'application', 'aria-roledescription': 'matrix', 'aria-label': '' })
  const over = svg('svg', { 'aria-hidden': 'true' })
  const frame = el('div', { class: 'matrix' }, canvas, over)
  const sub = el('span', { class: 'sub wide' }), modes = el('span'), legendBox = el('div'), around = el('div'), normBox = el('div')
  const node = el('section', null, el('div', { class: 'row mid', css: { 'margin-bottom': '8px' } }, el('h2', { text: t.shape.length === 1 ? 'Vector' : 'Matrix' }), modes, sub),
    el('div', { class: 'matrixcols' }, el('div', { class: 'mleft' }, frame, legendBox), el('div', { class: 'mright' }, around, normBox)))

  /** Computes the window of a zoom around the present place. */
  function window_() {
    const cut = (n, centre) => {
      const size = Math.max(Math.min(n, 4), Math.ceil(n / zoom))
      const from = Math.max(0, Math.min(n - size, Math.round(centre - size / 2)))
      return [from, from + size]
    }
    const rows = cut(R, at[0]), columns = cut(C, at[1])
    if (zoom === 1) return [0, R, 0, C]
    return [...rows, ...columns]
  }

  /** Asks for the picture of the window and draws it. */
  async function load() {
    const mine = ++asked
    win = window_()
    const part = zoom === 1 ? '' : `&rows=${win[0]}:${win[1]}&columns=${win[2]}:${win[3]}`
    try {
      const got = await picture(`data/picture?name=${key}&as=${as}${part}`, signal)
      if (mine !== asked || signal.aborted) return
      p = got
      draw()
    } catch (e) {
      if (e.name !== 'AbortError') sub.textContent = e.problem?.text ?? String(e)
    }
  }

  /** Takes what a tile shows. */
  function take(k) {
    as = k
    put({ as: k === 'max' ? '' : k })
    load()
  }

  const left = 44, top = 20
  /** Draws tiles, labels, norms. */
  function draw() {
    if (!p || !node.isConnected) return
    choice(modes, 'Tiles', [['max', 'largest |x|'], ['mean', 'mean']], as, take)
    sub.replaceChildren((p.high * p.wide > 1 ? `a pixel is ${p.high}×${p.wide} values; ` : 'a pixel is a value; '), kbd('+'), ' ', kbd('−'), ' or wheel with Ctrl zoom, ', kbd('0'), ' shows all, arrows move')
    const total = frame.parentElement?.clientWidth || 904
    const right = total > 600 ? 92 : 0, w = Math.min(768, total - left - right - 4)
    const rows = win[1] - win[0], columns = win[3] - win[2]
    const h = Math.max(12, Math.min(384, Math.max(Math.min(192, w / 2), (w * rows) / columns)))
    const high = rows === 1 ? 24 : Math.min(h, Math.max(24, (w * rows) / columns * (columns / rows > 16 ? 4 : 1), Math.min(192, rows * 8)))
    paintTiles(canvas, p, as)
    Object.assign(canvas.style, { left: left + 'px', top: top + 'px', width: w + 'px', height: high + 'px' })
    const bottom = norms ? 76 : 8
    frame.style.height = top + high + bottom + 'px'
    over.setAttribute('width', String(total))
    over.setAttribute('height', String(top + high + bottom))
    over.replaceChildren()
    const x = (c) => left + (w * (c + 0.5 - win[2])) / columns, y = (r) => top + (high * (r + 0.5 - win[0])) / rows
    const text = (cls, tx, ty, s) => over.append(svg('text', { class: cls, x: tx, y: ty, text: s }))
    const cx = x(at[1]), cy = y(at[0]), inside = cx >= left && cx <= left + w && cy >= top && cy <= top + high
    if (Math.abs(cx - left) > 90) text('k', left, top - 8, 'column ' + grouped(win[2]))
    if (Math.abs(left + w - cx) > 60) text('k e', left + w, top - 8, grouped(win[3] - 1))
    if (rows > 1) {
      if (cy - top > 22) text('k e', left - 6, top + 10, 'row ' + grouped(win[0]))
      if (top + high - cy > 16) text('k e', left - 6, top + high, grouped(win[1] - 1))
    }
    if (inside) {
      text('b c', Math.max(left + 12, Math.min(left + w - 12, cx)), top - 8, grouped(at[1]))
      if (rows > 1) text('b e', left - 6, cy + 4, grouped(at[0]))
      const tw = Math.max(10, w / p.columns), th = Math.max(10, high / p.rows)
      over.append(svg('rect', { class: 'ring', x: cx - tw / 2, y: cy - th / 2, width: tw, height: th }))
    }
    over.append(svg('rect', { class: 'gl', fill: 'none', x: left, y: top, width: w, height: high }))
    if (norms) drawNorms(w, high, right, x, y)
    canvas.setAttribute('aria-label', `Matrix of ${grouped(R)} rows and ${grouped(C)} columns; looking at ${place(at)}. Arrows move, plus and minus zoom.`)
    legendBox.replaceChildren(legend(as === 'max' ? matrixMeasure : meanMeasure, as === 'max' ? { low: 2, high: 256 } : { low: 0, high: 4 }, [], Math.min(400, total - left)))
    legendBox.firstElementChild?.setAttribute('class', 'legend in')
  }

  /** Draws the norms of rows at the right and of columns below, aligned with the matrix. */
  function drawNorms(w, high, right, x, y) {
    const line = (n, from, to, size, point) => {
      const most = Math.max(...n.norms.filter(Number.isFinite), 1e-30)
      const out = []
      const a = Math.floor(from / n.step), b = Math.ceil(to / n.step)
      for (let i = a; i < b; i++) if (Number.isFinite(n.norms[i])) out.push(point(i * n.step + (n.step - 1) / 2, (size * n.norms[i]) / most))
      return out.join(' ')
    }
    const bold = (n, where, size) => n.largest.filter((v) => v.norm > 0 && isFinite(v.norm)).map((v) => [v, where(v.at), (size * v.norm) / Math.max(...n.norms.filter(Number.isFinite), 1e-30)])
    if (right && win[1] - win[0] > 1) {
      const left0 = left + w + 8
      over.append(svg('line', { class: 'ax', x1: left0, x2: left0, y1: top, y2: top + high }), svg('polyline', { class: 'nl', points: line(norms.rows, win[0], win[1], 48, (i, v) => (left0 + 2 + v).toFixed(1) + ',' + y(i).toFixed(1)) }),
        svg('text', { class: 'k', x: left0, y: top - 8, text: 'row norm' }))
      bold(norms.rows, y, 48).forEach(([v, py, size], i) => {
        if (py < top || py > top + high) return
        over.append(svg('text', { class: i ? 'k' : 'b', x: left0 + size + 6, y: py + 4, text: i ? grouped(v.at) : number(v.norm) }))
      })
    }
    const base = top + high + 64
    over.append(svg('line', { class: 'ax', x1: left, x2: left + w, y1: base, y2: base }), svg('polyline', { class: 'nl', points: line(norms.columns, win[2], win[3], 44, (i, v) => x(i).toFixed(1) + ',' + (base - 2 - v).toFixed(1)) }), svg('text', { class: 'k e', x: left - 6, y: base, text: 'norm' }))
    bold(norms.columns, x, 44).forEach(([v, px, size], i) => {
      if (px < left || px > left + w) return
      const flip = px > left + w - 60
      over.append(svg('text', { class: (i ? 'k' : 'b') + (flip ? ' e' : ''), x: px + (flip ? -6 : 6), y: base - size + (i ? -4 : 8), text: i ? grouped(v.at) : number(v.norm) }))
    })
  }

  /** Fills the table of single values around the present place. */
  async function values() {
    try {
      const v = await remember(`data/values?name=${key}&row=${at[0]}&column=${at[1]}&rows=7&columns=7`, signal)
      if (signal.aborted) return
      const head = el('tr', null, el('td'))
      v.values[0]?.forEach((_, i) => head.append(el('th', { scope: 'col', class: v.column + i === at[1] ? 'here' : null, text: grouped(v.column + i) })))
      const body = v.values.map((line, r) => el('tr', null, el('th', { scope: 'row', class: v.row + r === at[0] ? 'here' : null, text: grouped(v.row + r) }), line.map((x, c) => {
        const td = el('td', { text: small(Number(x), s.std), title: String(x) })
        const z = Number.isFinite(Number(x)) ? Math.abs(x - s.mean) / s.std : 256
        paint(td, 'odd', Math.max(0, byLog(z, 2, 256)))
        if (v.row + r === at[0] && v.column + c === at[1]) td.className = 'here'
        return td
      })))
      around.replaceChildren(el('h3', { text: 'Around ' + place(t.shape.length === 1 ? [at[1]] : at) }), el('table', { class: 'around' }, el('thead', null, head), el('tbody', null, body)))
    } catch (e) {
      if (e.name !== 'AbortError') around.replaceChildren(el('p', { class: 'sub', text: e.problem?.text ?? String(e) }))
    }
  }

  /** Asks for the norms and lists the largest. */
  async function loadNorms() {
    if (R < 2) return
    try {
      norms = await remember(`data/norms?name=${key}`, signal)
      if (signal.aborted) return
      const lines = [['row', norms.rows], ['column', norms.columns]].flatMap(([what, n]) => n.largest.map((v, i) => el('tr', null, el('td', { class: 'l' }, what + ' ', el(i ? 'span' : 'b', { text: grouped(v.at) })), el('td', { text: number(v.norm) }), el('td', { class: 'sub', text: n.median ? number(v.norm / n.median).replace(/^(\d+\.\d)\d$/, '$1') + ' ×' + (i ? '' : ' median') : '' }))))
      const zeros = [['row', norms.rows.zeros], ['column', norms.columns.zeros]].filter(([, n]) => n).map(([what, n]) => things(n, what) + ' all zero').join(', ')
      normBox.replaceChildren(el('h3', { class: 't16', text: 'Largest norms' }), el('table', { class: 'tb t4' }, el('tbody', null, lines)), zeros ? el('p', { class: 'sub', css: { 'margin-top': '8px', color: 'var(--warn)' }, text: zeros }) : '')
      draw()
    } catch (e) {
      if (e.name !== 'AbortError') normBox.replaceChildren(el('p', { class: 'sub', text: e.problem?.text ?? String(e) }))
    }
  }

  let timer = 0
  /** Looks at a place: values at once, the picture if it is zoomed. */
  function look(r, c) {
    at = [Math.max(0, Math.min(R - 1, r)), Math.max(0, Math.min(C - 1, c))]
    put({ at: at.join(',') === peak.join(',') ? '' : at.join(','), zoom: zoom === 1 ? '' : String(zoom) })
    if (zoom > 1 && (at[0] < win[0] || at[0] >= win[1] || at[1] < win[2] || at[1] >= win[3])) load()
    else draw()
    clearTimeout(timer)
    timer = setTimeout(values, 80)
  }

  /** Zooms around the present place. */
  function magnify(z) {
    const most = 2 ** Math.ceil(Math.log2(Math.max(R / 8, C / 32, 1)))
    zoom = Math.max(1, Math.min(most, z))
    put({ zoom: zoom === 1 ? '' : String(zoom) })
    load()
  }

  canvas.addEventListener('click', (e) => {
    const b = canvas.getBoundingClientRect()
    look(win[0] + Math.floor(((e.clientY - b.top) / b.height) * (win[1] - win[0])), win[2] + Math.floor(((e.clientX - b.left) / b.width) * (win[3] - win[2])))
  })
  canvas.addEventListener('wheel', (e) => {
    if (!e.ctrlKey) return
    e.preventDefault()
    magnify(e.deltaY < 0 ? zoom * 2 : zoom / 2)
  }, { passive: false })
  canvas.addEventListener('keydown', (e) => {
    const stepR = e.shiftKey ? 10 * p.high : p?.high ?? 1, stepC = e.shiftKey ? 10 * p.wide : p?.wide ?? 1
    const d = { ArrowUp: [-stepR, 0], ArrowDown: [stepR, 0], ArrowLeft: [0, -stepC], ArrowRight: [0, stepC] }[e.key]
    if (!d) return
    e.preventDefault()
    look(at[0] + d[0], at[1] + d[1])
  })
  load()
  values()
  loadNorms()
  return {
    node, update: draw, leave: () => clearTimeout(timer),
    keys(e) {
      if (e.key === '+' || e.key === '=') magnify(zoom * 2)
      else if (e.key === '-' || e.key === '−') magnify(zoom / 2)
      else if (e.key === '0') magnify(1)
      else if (e.key === 'm' || e.key === 'M') take(as === 'max' ? 'mean' : 'max')
      else return false
      return true
    },
  }
}

/** Writes a value in a small cell: decimals as σ asks for, without the zero before the point. */
function small(x, std) {
  if (x === 0 || !Number.isFinite(x)) return number(x)
  const a = Math.abs(x), d = Math.max(0, Math.min(1 - Math.floor(Math.log10(std)), a < 1 ? 99 : 2 - Math.floor(Math.log10(a))))
  const s = d > 5 || a >= 1e4 ? a.toExponential(0).replace('+', '').replace('-', '−') : a.toFixed(d)
  return (x < 0 ? '−' : '') + s.replace(/^0\./, '.')
}

/** Makes the table of what a weight is stored as. */
function parts(t) {
  const sum = t.parts.reduce((n, p) => n + p.stored_bytes, 0) || 1
  const bar = el('div', { class: 'bar', role: 'img', 'aria-label': 'Bytes by part' })
  t.parts.forEach((p, i) => bar.append(el('div', { css: { flex: `${Math.max(8, Math.sqrt(p.stored_bytes / sum) * 60)} 1 0`, background: colour('amount', 0.55 - i * 0.12), color: ink('amount', 0.55 - i * 0.12) }, text: p.role || p.name })))
  const heads = [['part', 'l'], ['stored as', 'l'], ['count', ''], ['bytes', ''], ['smallest', 'wide'], ['median', 'wide'], ['largest', 'wide'], ['largest |x| in', 'l wide']]
  return el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Parts' }), faint('as stored')), bar,
    blockWords(t, ' (not to scale)'),
    scroller('Parts', el('table', { class: 'tb t8' }, el('thead', null, el('tr', null, heads.map(([h, c]) => el('th', { scope: 'col', class: c, text: h })))),
      el('tbody', null, t.parts.map((p) => el('tr', null, el('td', { class: 'l m', title: p.name, text: p.role || p.name }), el('td', { class: 'l', text: p.stored }), el('td', { text: count_(p.count) }), el('td', { text: bytes(p.stored_bytes) }), el('td', { class: 'wide' }, el(-p.min > p.max ? 'b' : 'span', { text: number(p.min) })), el('td', { class: 'wide', text: number(p.median) }), el('td', { class: 'wide' }, el(-p.min > p.max ? 'span' : 'b', { text: number(p.max) })), el('td', { class: 'l wide', text: p.max_at })))))), firstValues(t))
}

/** Says how many values a block has, in how many bytes. */
function blockWords(t, more = '') {
  return t.block ? el('p', { class: 'sub', css: { margin: '4px 0' }, text: t.block + more }) : null
}

/** Writes a count; without one, a dash. */
function count_(n) {
  return n ? grouped(n) : none
}

/** Shows the first values. */
function firstValues(t) {
  if (!t.first_values?.length) return el('span')
  return el('div', null, el('h3', { css: { 'margin-top': t.parts.length ? '16px' : '0' }, text: 'First values, row by row' }), el('p', { class: 'm', css: { 'margin-top': '4px', 'overflow-wrap': 'anywhere' }, text: t.first_values.map(t.stat.finite && t.stat.std === null ? grouped : number).join(', ') + (t.elements > t.first_values.length ? ', …' : '') }))
}

/** Shows how the tensor is read, in Go and by the command, to copy. */
function readIt(t) {
  return el('div', null, el('div', { class: 'row mid', css: { 'margin-bottom': '8px' } }, el('h2', { text: 'Read it' }), el('span', { class: 'sp btnline' }, el('button', { class: 'btn low', click: () => copy(t.go) }, 'Copy Go ', kbd('c')), ' ', el('button', { class: 'btn low', text: 'Copy command', click: () => copy(t.command) }))),
    el('pre', { text: t.go, tabindex: 0 }), el('pre', { text: t.command, tabindex: 0 }))
}
