// @ts-check
// The focused tensor, next to the map: figures from its own answer.
import { copy, el, kbd, say, svg } from './dom.js'
import { beyond, histogram } from './figure.js'
import { bytes, grouped, named, none, number, percent, place, shape } from './format.js'
import { bound, spreads } from './measures.js'
import { rgb } from './scale.js'
import { picture, remember, store } from './store.js'
import { tensorLink } from './route.js'

/** Paints the tiles of a picture onto a canvas: one pixel a tile. */
export function paintTiles(canvas, p, as) {
  canvas.width = Math.max(1, p.columns)
  canvas.height = Math.max(1, p.rows)
  const g = canvas.getContext('2d'), image = g.createImageData(canvas.width, canvas.height)
  for (let i = 0; i < p.data.length; i++) {
    const v = p.data[i]
    const [r, b, c] = v === 255 ? [179, 38, 30] : as === 'mean' ? rgb('odd', Math.abs(v - 127) / 127) : rgb('odd', v / 254)
    image.data.set([r, b, c, 255], 4 * i)
  }
  g.putImageData(image, 0, 0)
}

/** Makes rows of a name and a value. */
export function pairs(list, small) {
  return el('dl', { class: 'kv' + (small ? ' sm' : '') }, list.flatMap(([k, v]) => [el('dt', { text: k }), el('dd', { text: v })]))
}

/** Returns the figures of a tensor as pairs. */
export function figures(stat, all) {
  if (stat.error) return [['figures', stat.kind === 'no values' ? none : 'cannot be read']]
  const p = stat.percentiles ?? {}, at = stat.max_sigma_at, s = bound(stat), near = bound(stat, '≈')
  const high = stat.max - stat.mean >= stat.mean - stat.min
  const where = (here) => (here && at && at.length && stat.max_sigma ? ' at ' + place(at) : '')
  const out = [['largest', s + number(stat.max) + where(high)]]
  if (all) for (const k of ['99.9', '99', '50', '1', '0.1']) if (k in p) out.push([k === '50' ? 'median' : k + ' %', number(p[k])])
  out.push(['smallest', bound(stat, '≤') + number(stat.min) + where(!high)])
  if (all) out.push(['mean, σ', number(stat.mean) + ', ' + number(stat.std)])
  else out.push(['σ', near + number(stat.std)], ['mean', near + number(stat.mean)], ['0.1 – 99.9 %', near + number(p['0.1']) + ' … ' + number(p['99.9'])])
  if (all) out.push(['kurtosis', number(stat.kurtosis)])
  if (stat.sigma_histogram?.length) {
    const [z6, n6] = beyond(stat.sigma_histogram, 6), [z20, n20] = beyond(stat.sigma_histogram, 20)
    out.push([`beyond ${z6.toFixed(1)} σ, ${z20.toFixed(0)} σ`, grouped(n6) + ', ' + grouped(n20) + (all ? '' : ' values')])
  }
  if (!all) out.push(['kurtosis', (stat.kurtosis === null ? '' : near) + number(stat.kurtosis)])
  out.push(['zeros', s + grouped(stat.zeros) + (stat.zeros && stat.finite ? ' (' + bound(stat, '≈') + percent(stat.zeros / stat.finite) + ')' : '')])
  if (all || stat.nan || stat.pos_inf || stat.neg_inf) out.push(['NaN, infinite', s + grouped(stat.nan) + ', ' + s + grouped(stat.pos_inf + stat.neg_inf)])
  return out
}

/** Copies the lines of Go that read a tensor. */
export async function copyGo(name) {
  try {
    copy((await remember('data/tensor?name=' + encodeURIComponent(name))).go)
  } catch (e) {
    say(e.problem?.text ?? String(e))
  }
}

/** Makes the aside. Its show(number) fills it after a moment. */
export function aside() {
  const node = el('aside', { class: 'side', 'aria-label': 'Focused tensor' }, el('p', { class: 'sub', text: 'Point at a cell, or move to it: its figures stand here.' }))
  let stop = new AbortController(), timer = 0, shown = -1, path = '', waiting = null

  /** Shows a tensor: the index's part at once, figures as they come. */
  function show(number) {
    if (number === shown || number === undefined || number < 0) return
    const row = store.rows[number]
    if (!row) return
    shown = number
    stop.abort()
    stop = new AbortController()
    const { signal } = stop
    const body = el('div')
    waiting = body
    path = 'data/tensor?name=' + encodeURIComponent(row.name)
    const short = row.layer >= 0 && row.role ? row.name.slice(row.name.indexOf('.' + row.role.split('{')[0]) + 1) : row.name
    node.replaceChildren(
      el('h3', { text: row.role && row.layer >= 0 ? 'Layer ' + row.layer + (row.expert >= 0 ? ', expert ' + row.expert : '') : row.part || 'Tensor' }),
      el('p', { class: 'm', text: named(short), title: row.name }),
      el('p', { class: 'sub', text: [row.type, shape(row.shape), grouped(row.elements) + ' values', bytes(row.stored_bytes)].join(' · ') }),
      body,
      el('div', { class: 'btns' }, el('a', { class: 'btn p', href: tensorLink(row.name) }, 'Open ', kbd('↵')), el('button', { class: 'btn', click: () => copyGo(row.name) }, 'Copy Go ', kbd('c'))))
    clearTimeout(timer)
    timer = setTimeout(update, 120)
  }

  /** Fills in the figures as soon as it is known whether they are of a sample, which are shown as they are: all values are read once the tensor is opened. */
  function update() {
    const p = store.progress, s = store.stats[shown]
    if (!waiting) return
    if ((s && !s.sampled) || p?.share >= 1) {
      fetchFigures(store.rows[shown], waiting, stop.signal)
      waiting = null
    } else if (s && !waiting.firstChild) waiting.append(pairs(figures(s, false)), el('p', { class: 'sub', text: 'Of a sample. Opened, the tensor has all its values read.' }))
  }

  /** Asks for a tensor's figures and matrix. */
  async function fetchFigures(row, body, signal) {
    const name = encodeURIComponent(row.name)
    try {
      const t = await remember(path, signal)
      if (signal.aborted) return
      body.replaceChildren()
      const s = t.stat
      if (s.error) {
        body.append(el('p', { class: 'note' + (s.kind === 'no values' ? '' : ' bad'), text: s.error }))
        return
      }
      if (s.sigma_histogram?.length && spreads(s)) body.append(histogram(s, innerWidth > 1000 ? 280 : Math.min(480, innerWidth - 32), 96, false), el('p', { class: 'sub', text: 'σ on an asinh axis, count on a log axis' }))
      body.append(pairs(figures(s, false)))
      if (t.matrix_rows > 1 && t.matrix_columns > 1 && spreads(s)) {
        const p = await picture(`data/picture?name=${name}&as=max`, signal)
        if (!signal.aborted) body.append(...matrix(t, p))
      }
    } catch (e) {
      if (e.name !== 'AbortError') body.append(el('p', { class: 'note', text: e.problem?.text ?? String(e) }))
    }
  }

  /** Draws the small picture of the matrix, with a circle around the furthest value. */
  function matrix(t, p) {
    const canvas = el('canvas', { role: 'img', 'aria-label': 'Matrix, largest value in row ' + (t.stat.max_sigma_at?.[0] ?? none) })
    paintTiles(canvas, p, 'max')
    const high = Math.min(200, Math.max(40, (280 * t.matrix_rows) / t.matrix_columns))
    canvas.style.height = high + 'px'
    const at = t.stat.max_sigma_at, column = at && flat(at, t.shape)
    const ring = svg('svg', { 'aria-hidden': 'true' })
    if (at) ring.append(svg('circle', { class: 'ring', cx: (100 * (column + 0.5)) / t.matrix_columns + '%', cy: (100 * (at[0] + 0.5)) / t.matrix_rows + '%', r: 6 }))
    const tile = p.high * p.wide > 1 ? ` of ${p.high}×${p.wide} values` : ''
    return [el('h3', { class: 'next' }, 'Matrix ', el('span', { text: 'largest |x|' + tile + ', in σ' })), el('div', { class: 'picture' }, canvas, ring),
      el('p', { class: 'sub t4', text: grouped(t.matrix_rows) + ' rows × ' + grouped(t.matrix_columns) + ' columns' + (at ? '; circle: ' + place(at) : '') })]
  }

  return { node, show, update, copyGo: () => { if (shown >= 0) copyGo(store.rows[shown].name) }, leave: () => { stop.abort(); clearTimeout(timer) }, shown: () => shown }
}

/** Returns the column of a place in the matrix of a tensor: all dimensions but the first. */
export function flat(at, dims) {
  let c = 0
  for (let i = 1; i < at.length; i++) c = c * dims[i] + at[i]
  return c
}
