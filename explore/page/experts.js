// @ts-check
// The tensors of a role in all layers and experts, as a map of small cells: one tab stop, arrows move.
import { el, svg } from './dom.js'
import { cell, thin } from './format.js'
import { outline } from './grid.js'
import { allZero, bound, broken, measure, position } from './measures.js'
import { colour, css } from './scale.js'
import { store } from './store.js'

const side = 6

/** Returns the height that the map of a group takes, on a phone below its words. */
function height(r) {
  return (innerWidth <= 600 ? 108 : 0) + Math.max(120, r.experts * size(r) + 40)
}

/** Returns the height of an expert's cell. */
function size(r) {
  return r.experts > 64 ? 3 : side
}

/** Makes the map of an unfolded group: columns layers, rows experts. open(numbers) is called for a cell, all() for the link. */
export function layerExperts(r, top, open, all) {
  const n = r.by_layer.length, h = size(r), w = 192 / n
  const canvas = el('canvas', { width: 192 * 2, height: r.experts * h * 2, tabindex: 0, role: 'application', 'aria-roledescription': 'map' })
  Object.assign(canvas.style, { width: '192px', height: r.experts * h + 'px' })
  const g = canvas.getContext('2d')
  g.scale(2, 2)
  let at = [0, 0]
  const words = el('p', { class: 'sub' })
  const number = (l, e) => r.by_layer[l]?.[e]

  /** Draws the cells. */
  function draw() {
    g.clearRect(0, 0, 192, r.experts * h)
    const m = measure('max_sigma')
    for (let l = 0; l < n; l++) {
      for (let e = 0; e < r.by_layer[l].length; e++) {
        const s = store.stats[number(l, e)]
        const x = l * w, y = e * h, cw = Math.max(0.7, w - (w > 3 ? 1 : 0)), ch = h - (h > 3 ? 1 : 0)
        g.fillStyle = !s || s.error || s.max_sigma === null ? css('--void') : colour('odd', position(m, { low: 4, high: 256 }, s.max_sigma))
        g.fillRect(x, y, cw, ch)
        if (broken(s) || allZero(s)) outline(g, x, y, cw, ch, broken(s))
        if (l === at[0] && e === at[1]) {
          g.strokeStyle = css('--ink')
          g.strokeRect(x - 0.5, y - 0.5, cw + 1, ch + 1)
        }
      }
    }
    const s = store.stats[number(at[0], at[1])]
    const value = !s ? 'not computed yet' : broken(s) ? 'damaged or NaN' : allZero(s) ? 'all zero' : s.max_sigma === null || s.error ? 'not defined' : bound(s) + cell(s.max_sigma) + thin + 'σ'
    words.textContent = `layer ${store.model.grid.layers[at[0]] ?? at[0]}, expert ${at[1]}: ${value}`
    canvas.setAttribute('aria-label', words.textContent)
  }

  const place = (e) => {
    const b = canvas.getBoundingClientRect()
    at = [Math.min(n - 1, Math.max(0, Math.floor((e.clientX - b.left) / w))), Math.min(r.experts - 1, Math.max(0, Math.floor((e.clientY - b.top) / h)))]
    draw()
  }
  canvas.addEventListener('mousemove', place)
  canvas.addEventListener('click', (e) => {
    place(e)
    const k = number(at[0], at[1])
    if (k !== undefined) open([k])
  })
  canvas.addEventListener('keydown', (e) => {
    const d = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key]
    if (d) {
      at = [Math.max(0, Math.min(n - 1, at[0] + d[0])), Math.max(0, Math.min(r.experts - 1, at[1] + d[1]))]
      draw()
    } else if (e.key === 'Enter') {
      const k = number(at[0], at[1])
      if (k !== undefined) open([k])
    } else return
    e.preventDefault()
    e.stopPropagation()
  })
  draw()
  const layers = store.model.grid.layers
  const axis = svg('svg', { class: 'exaxis', width: 240, height: r.experts * h + 20, 'aria-hidden': 'true' })
  for (const e of [0, r.experts - 1]) axis.append(svg('text', { class: 'k e', x: 20, y: e * h + (e ? 6 : 9), text: e }))
  for (const l of [0, n >> 1, n - 1]) axis.append(svg('text', { class: l === 0 ? 'k' : l === n - 1 ? 'k e' : 'k c', x: 24 + (l === n - 1 ? 192 : l * w), y: r.experts * h + 14, text: layers[l] ?? l }))
  return el('div', { class: 'experts', role: 'row', css: { top: top + 'px', height: height(r) + 'px' } },
    el('div', { class: 'exwords', role: 'gridcell' }, el('p', { class: 'sub', text: `${n} layers × ${r.experts} experts, one cell a tensor; largest in σ.` }), words, el('p', { class: 'sub' }, '□ all zero; with a stroke: damaged or NaN. ', el('button', { class: 'link', text: `List the ${r.tensors} tensors`, click: all }))),
    el('div', { class: 'exmap', role: 'gridcell' }, axis, canvas))
}
layerExperts.height = height
