// @ts-check
// Figures: histogram by σ, scale with a mark a tensor, small maps, chips.
import { el, rich, svg } from './dom.js'
import { cell, grouped, none, pace, thin, things } from './format.js'
import { merged } from './grid.js'
import { bound, domain, measure, position, range, summary, ticks } from './measures.js'
import { colour, css, paint, byLog } from './scale.js'

const bins = 89
const reach = Math.asinh(128)

/** Returns the edge of a bin of the histogram by σ, in σ. */
export function edge(i) {
  return 2 * Math.sinh(-reach + (2 * reach * i) / bins)
}

/** Returns the place of z, in σ, on the axis of the histogram, from 0 to 1. */
function along(z) {
  return Math.min(1, Math.max(0, (Math.asinh(z / 2) + reach) / (2 * reach)))
}

/** Counts the values of a histogram that lie outside of a bin's edge on either side. */
export function beyond(histogram, z) {
  let i = 45
  while (i < bins && Math.abs(edge(i + 1) - z) < Math.abs(edge(i) - z)) i++
  let sum = 0
  for (let k = i; k < bins; k++) sum += histogram[k] + histogram[bins - 1 - k]
  return [edge(i), sum]
}

/** Draws the histogram of a tensor by σ. Large has axes with names, and the Gaussian line. */
export function histogram(stat, wide, high, large) {
  const left = large ? 40 : 0, bottom = high - (large ? 28 : 24), top = large ? 12 : 20, right = large ? 8 : 0
  const x = (z) => left + (wide - left - right) * along(z)
  const most = Math.max(1, ...stat.sigma_histogram)
  const decades = Math.max(1, Math.ceil(Math.log10(most * 1.0001)))
  const y = (n) => (n > 0 ? bottom - (bottom - top) * ((Math.log10(n) + 0.18) / (decades + 0.18)) : bottom)
  const g = svg('svg', { viewBox: `0 0 ${wide} ${high}`, width: '100%', class: 'figure', role: 'img', 'aria-label': sentence(stat) })
  if (large) {
    for (let d = 0; d <= decades; d++) {
      const v = 10 ** d
      g.append(svg('line', { class: 'gl', x1: left, x2: wide - right, y1: y(v), y2: y(v) }), svg('text', { class: 'k e', x: left - 6, y: y(v) + 4, text: v >= 1e6 ? v / 1e6 + 'M' : v >= 1000 ? v / 1000 + 'k' : v }))
    }
  }
  g.append(svg('line', { class: 'ax', x1: left, x2: wide - right, y1: bottom, y2: bottom }))
  const m = measure('max_sigma')
  stat.sigma_histogram.forEach((n, i) => {
    if (!n) return
    const a = x(edge(i)), b = x(edge(i + 1)), far = stat.excess >= 4 && Math.max(-edge(i + 1), edge(i)) >= (3.9 * stat.max_sigma) / stat.excess
    const bar = svg('rect', { class: 'bars', x: (a + 0.5).toFixed(1), y: y(n).toFixed(1), width: Math.max(0.8, b - a - 1).toFixed(1), height: Math.max(2, bottom - y(n)).toFixed(1) })
    if (far) bar.style.fill = colour('odd', Math.max(0.35, byLog(Math.abs(edge(i < 44 ? i + 1 : i)), 4, 256)))
    g.append(bar)
  })
  if (large && stat.gaussian) {
    const points = stat.gaussian.map((n, i) => (n >= 0.7 ? x((edge(i) + edge(i + 1)) / 2).toFixed(1) + ',' + y(n).toFixed(1) : '')).filter(Boolean)
    g.append(svg('polyline', { class: 'ln', points: points.join(' ') }), svg('text', { class: 'a', x: x(2.2), y: top + 16, text: 'Gaussian' + (wide > 600 ? ' of the same σ' : '') }))
  }
  const marks = large && wide > 600 ? [-128, -64, -32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32, 64, 128] : [-64, -16, -4, 0, 4, 16, 64]
  for (const z of marks) g.append(svg('line', { class: 'ax', x1: x(z), x2: x(z), y1: bottom, y2: bottom + 4 }), svg('text', { class: 'k c', x: x(z), y: bottom + 18, text: String(z).replace('-', '−') }))
  if (stat.excess >= 4 && stat.max_sigma) {
    const n = outermost(stat), px = (x(edge(n.bin)) + x(edge(n.bin + 1))) / 2
    const ty = !large ? 16 : wide > 600 ? Math.max(top + 40, y(1) - 36) : top + 32
    const far = px > wide * 0.6
    g.append(svg('text', { class: far ? 'b e' : 'b', x: far ? Math.min(wide, px + 8) : Math.max(left, px - 8), y: ty, text: things(n.count, 'value') + (large ? ' at ' : ', ') + cell(stat.max_sigma) + thin + 'σ' }),
      svg('line', { class: 'ax', x1: px, x2: px, y1: ty + 5, y2: Math.max(ty + 6, y(n.count) - 4) }))
  }
  return g
}

/** Returns how many values lie in the outermost bin on the side of the largest. */
function outermost(stat) {
  const low = stat.sigma_histogram.findIndex((n) => n > 0), high = bins - 1 - [...stat.sigma_histogram].reverse().findIndex((n) => n > 0)
  const side = stat.max - stat.mean >= stat.mean - stat.min ? 1 : -1
  const bin = side > 0 ? high : low
  return { bin, count: stat.sigma_histogram[bin] }
}

/** Says in a sentence what the histogram shows. */
function sentence(stat) {
  const [z6, n6] = beyond(stat.sigma_histogram, 6)
  return `Histogram by σ, counts on a log axis: ${grouped(n6)} values beyond ${cell(z6)} σ, the furthest at ${stat.max_sigma === null ? none : cell(stat.max_sigma)} σ`
}

/** Draws the scale of a measure with a mark for each tensor of the map. */
export function legend(m, d, values, wide) {
  const w = Math.max(160, wide - 16), g = svg('svg', { width: w + 16, height: 52, role: 'img', 'aria-label': 'Scale: ' + m.foot })
  const inner = svg('g', { transform: 'translate(8,0)' })
  const columns = Math.floor(w / 4), stack = new Array(columns).fill(0)
  for (const v of values) stack[Math.min(columns - 1, Math.floor((m.reversed ? 1 - position(m, d, v) : position(m, d, v)) * columns))]++
  const most = Math.max(...stack, 1), each = Math.max(1, Math.ceil(most / 20)), high = Math.min(2.25, 20 / Math.ceil(most / each))
  stack.forEach((n, i) => {
    const k = Math.ceil(n / each)
    if (k) inner.append(svg('path', { class: 'nl', 'stroke-width': 3, 'stroke-dasharray': `${high * 0.67} ${high * 0.33}`, d: `M${i * 4 + 2} 20v${-(k * high)}` }))
  })
  const steps = 52
  for (let i = 0; i < steps; i++) inner.append(svg('rect', { x: (i * w) / steps, y: 22, width: w / steps + 0.3, height: 10, fill: colour(m.ramp, m.reversed ? 1 - (i + 0.5) / steps : (i + 0.5) / steps) }))
  const all = ticks(m, d)
  all.forEach((v, i) => {
    const x = position(m, d, v) * w
    const t = m.reversed ? w - x : x
    inner.append(svg('line', { class: 'ax', x1: t, x2: t, y1: 32, y2: 36 }), svg('text', { class: 'k' + (t < 8 ? '' : t > w - 8 ? ' e' : ' c'), x: t, y: 48, text: m.tick ? m.tick(v) : m.short(v) }))
  })
  g.append(inner)
  return el('div', { class: 'legend' }, g, el('p', { class: 'sub', css: { 'padding-left': '8px' }, text: m.foot.replace('for each tensor', each > 1 ? 'for up to ' + each + ' tensors' : 'for each tensor') }))
}

/** Draws the small map of a measure: its matrices by layer. */
export function drawThumb(canvas, m, grid, rows, stats) {
  const lines = grid.groups.flatMap((g) => g.rows).filter((r) => !r.vector)
  const show = lines.length ? lines : grid.groups.flatMap((g) => g.rows)
  const d = domain(m, grid, rows, stats)
  const k = devicePixelRatio || 1, w = canvas.clientWidth || 120, h = 48
  canvas.width = w * k
  canvas.height = h * k
  const g = canvas.getContext('2d')
  g.scale(k, k)
  const columns = Math.ceil(grid.layers.length / Math.ceil(grid.layers.length / w))
  const cw = w / columns, ch = h / show.length, gap = cw > 6 ? 1 : 0
  show.forEach((row, r) => merged(row.cells, w).forEach((cellNumbers, c) => {
    if (!cellNumbers.length) return
    const s = summary(m, cellNumbers, rows, stats)
    g.fillStyle = s.bad >= 0 && m.needs !== 'row' ? css('--bad') : s.value === undefined ? css('--void') : colour(m.ramp, position(m, d, m.add ? rows[s.worst].stored_bytes : s.value))
    const high = Math.max(1, ch - (ch > 4 ? 1 : 0))
    g.fillRect(c * cw, r * ch, cw - gap, high)
    if (s.bad >= 0 && m.needs !== 'row' && cw > 8) {
      g.strokeStyle = css('--bg')
      g.beginPath()
      g.moveTo(c * cw, r * ch)
      g.lineTo((c + 1) * cw - gap, r * ch + high)
      g.stroke()
    }
  }))
  return range(m, d)
}

/** Makes a bar with words that follow it. show(share, seconds, text) hides it if share is null. A region of its own says the words, at most once in 2 s. */
export function meter() {
  const words = el('span'), left = el('span', { class: 'sp sub' }), said = el('p', { class: 'hidden', role: 'status' }), bar = el('i'), ahead = pace()
  const node = el('div', { hidden: true }, el('div', { 'aria-hidden': 'true' }, el('div', { class: 'row t16' }, words, left), el('div', { class: 'prog' }, bar)), said)
  let last = 0
  return {
    node,
    show(share, at, text) {
      node.hidden = share === null
      if (share === null) return
      bar.style.width = (100 * share).toFixed(1) + '%'
      words.replaceChildren(...rich(text))
      left.textContent = ahead(share, at)
      if (Date.now() - last < 2000) return
      last = Date.now()
      said.textContent = words.textContent + ', ' + left.textContent
    },
  }
}

/** Makes a chip: a number on its colour. */
export function chip(m, d, value, stat) {
  if (value === undefined) return el('span', { class: 'chip' })
  if (value === null) return el('span', { class: 'chip', text: none })
  const node = el('span', { class: 'chip', text: bound(stat, m.bound) + m.text(value) + (m.unit ? thin + m.unit : '') })
  paint(node, m.ramp, position(m, d, value))
  return node
}

/** Makes the chip of a tensor's largest value in σ. */
export function sigmaChip(stat) {
  const m = measure('max_sigma')
  if (stat && stat.error && stat.kind !== 'no values') return el('span', { class: 'chip', css: { color: 'var(--bad)' }, text: '✕', 'aria-label': 'damaged' })
  return chip(m, { low: 4, high: 256 }, m.value(null, stat), stat)
}
