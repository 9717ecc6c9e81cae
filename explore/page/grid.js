// @ts-check
// The map of layers and roles: a column a layer, a row a role. One tab stop, arrows move. Above 2,000 cells the map is a
// canvas, and only the row that is focused is in the document.
import { el } from './dom.js'
import { allZero, bound, position, summary } from './measures.js'
import { shape, thin, things } from './format.js'
import { colour, css, paint } from './scale.js'

const canvasFrom = 2000

/** Merges neighbours of a list of lists, so that at most so many are left. */
export function merged(list, most) {
  const per = Math.ceil(list.length / Math.max(1, most))
  return per < 2 ? list : Array.from({ length: Math.ceil(list.length / per) }, (_, i) => list.slice(i * per, (i + 1) * per).flat())
}

/** Returns a grid with neighbouring layers in one column where columns would be narrower than a pixel. Its binned says how many. */
export function binned(grid, wide) {
  const most = Math.max(100, Math.floor(wide)), binned = Math.ceil(grid.layers.length / most)
  if (binned < 2) return grid
  const layers = merged(grid.layers.map((l) => [l]), most).map((l) => (l.length > 1 ? l[0] + '–' + l[l.length - 1] : l[0]))
  return { ...grid, binned, layers, groups: grid.groups.map((g) => ({ ...g, rows: g.rows.map((r) => ({ ...r, cells: merged(r.cells, most) })) })) }
}

/**
 * Makes a map. o has grid, label, look(numbers, row) → {text, name, t, ramp, bold, mark, void, two}, go(numbers, r, c) on
 * focus, open(numbers) on click or Enter, shapes (whether the last column is there), and bad (what ✕ means, if not damage or NaN).
 */
export function layerGrid(o) {
  const rows = o.grid.groups.flatMap((g) => g.rows.map((row) => ({ ...row, group: g.name })))
  const n = o.grid.layers.length
  const big = rows.length * n > canvasFrom
  const node = el('div', { class: 'grid', role: 'grid', 'aria-label': o.label, 'aria-rowcount': rows.length + 1, 'aria-colcount': n + 1, css: { '--n': String(n), '--shape': String(Math.max(0, ...rows.map((r) => shape(r.shape).length)) + 1) } })
  if (!o.shapes) node.style.setProperty('--last', '0px')
  const box = el('div', { class: 'gridbox' }, node), hint = el('p', { class: 'sub', hidden: true })
  const written = el('p', { class: 'written', hidden: true })
  const experts = Math.max(0, ...rows.map((r) => r.experts))
  const cells = [] // of each row: its cells
  const looks = rows.map(() => [])
  const lines = []
  let over = null, quiet = false, key = ''
  let at = [0, 0], marked = new Set(), now = -1, wide = 99

  const head = el('div', { class: 'gr h', role: 'row' }, el('span', { class: 'r', role: 'columnheader', text: 'layer' }))
  const heads = o.grid.layers.map((l) => el('span', { role: 'columnheader', 'aria-label': 'layer ' + l }))
  head.append(...heads)
  if (o.shapes) head.append(el('span', { class: 'sh', role: 'columnheader', text: 'shape' }))
  node.append(head)

  let r = 0
  for (const group of o.grid.groups) {
    const vectors = group.rows.length > 0 && group.rows.every((x) => x.vector)
    const sizes = vectors ? [...new Set(group.rows.map((x) => x.shape?.[0]).filter(Boolean))] : []
    const note = sizes.length && sizes.length < 4 ? ' of ' + sizes.map((s) => s.toLocaleString('en')).join(' or ') + ' values' : ''
    node.append(el('div', { class: 'gr g' + (vectors ? ' gv' : ''), role: 'row' }, el('span', { role: 'rowheader' }, group.name, note && el('small', { text: note }))))
    for (const row of group.rows) {
      const line = el('div', { class: 'gr' + (row.vector ? ' v gv' : ''), role: 'row', 'aria-rowindex': r + 2 },
        el('span', { class: 'r m', role: 'rowheader', title: row.common || row.role }, el('bdi', null, el('bdi', { dir: 'ltr', text: row.role })), el('span', { class: 'ph', text: ' ' + shape(row.shape) })))
      if (!big) cells.push(row.cells.map((numbers, c) => cellNode(line, numbers, r, c)))
      else line.append(el('div', { class: 'canvasrow' }, el('canvas', { class: 'mapcanvas', 'aria-hidden': 'true' })))
      if (o.shapes) line.append(el('span', { class: 'sh', role: 'gridcell', text: shape(row.shape) || 'differ' }))
      lines.push(line)
      node.append(line)
      r++
    }
  }

  /** Makes a cell of the document. */
  function cellNode(line, numbers, r, c) {
    const cell = el('div', { class: 'c' + (numbers.length ? '' : ' none'), role: 'gridcell', tabindex: -1, 'aria-colindex': c + 2, 'data-r': r, 'data-c': c })
    line.append(cell)
    return cell
  }

  /** Shows the values as they are now. */
  function update() {
    measureWidth()
    const marks = new Set()
    rows.forEach((row, r) => {
      row.cells.forEach((numbers, c) => {
        looks[r][c] = numbers.length ? o.look(numbers, row, o.grid.layers[c]) : null
        marks.add(looks[r][c]?.mark)
        if (!big) dress(cells[r][c], looks[r][c], r, c)
      })
      if (big) draw(r)
    })
    key = [marks.has('bad') && '✕ or a stroke: ' + (o.bad ?? 'damaged or NaN'), marks.has('zero') && '□ a tensor is all zero', experts && `the worst of ${experts} experts colours a cell`,
      o.grid.binned && `a cell is ${o.grid.binned} layers, the worst colours it`].filter(Boolean).join('; ')
    focusable()
    write()
  }

  /** Finds out how wide a cell is, and labels as many columns as there is place for. */
  function measureWidth() {
    const phone = innerWidth <= 600
    const room = (box.clientWidth || 900) - (phone ? 0 : labelWidth() + (o.shapes ? head.lastElementChild.clientWidth + 8 : 0)) - 8
    const least = phone && n > 12 ? 28 : big ? 1 : 4
    node.style.setProperty('--least', least + 'px')
    node.style.setProperty('--gap', room / n < 4 ? '0px' : room / n < 12 ? '1px' : '2px')
    wide = Math.max(least, room / n - 2)
    const step = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100].find((s) => s * wide >= 26) ?? 100
    heads.forEach((h, i) => { h.textContent = i % step === 0 ? String(o.grid.layers[i]).split('–')[0] : '' })
    scrolled()
  }

  /** Says which columns are in view, if the map scrolls. */
  function scrolled() {
    const all = box.scrollWidth, seen = box.clientWidth, column = (i) => o.grid.layers[Math.max(0, Math.min(n - 1, i))]
    hint.hidden = all < seen + 8
    box.classList.toggle('more', !hint.hidden && box.scrollLeft + seen < all - 8)
    if (!hint.hidden) hint.textContent = `Layers ${column(Math.ceil((box.scrollLeft / all) * n))} to ${column(Math.floor(((box.scrollLeft + seen) / all) * n) - 1)} are in view. Scroll sideways for the others, up to ${o.grid.layers[n - 1]}.`
  }

  /** Returns how wide the names of roles are. */
  function labelWidth() {
    const w = parseFloat(getComputedStyle(node).getPropertyValue('--label'))
    return Number.isFinite(w) ? w : 248
  }

  /** Gives a cell its colour, number and name. */
  function dress(cell, look, r, c) {
    if (!look) {
      cell.setAttribute('aria-label', 'layer ' + o.grid.layers[c] + ', no ' + rows[r].role)
      return
    }
    const text = fits(look.text) ? look.text : look.short && fits(look.short) ? look.short : ''
    const two = look.two && fits(look.two)
    cell.className = 'c' + (look.bold ? ' x' : '') + (look.mark ? ' ' + look.mark : '') + (two ? ' two' : '')
    if (look.mark === 'bad') {
      cell.style.background = cell.style.color = ''
      cell.textContent = wide < 7 ? '' : '✕'
    } else {
      if (look.t === undefined) cell.style.background = cell.style.color = ''
      else paint(cell, look.ramp, look.t)
      cell.textContent = text
      if (two) cell.dataset.two = look.two // drawn by the style, as the cell's name says it too
    }
    cell.setAttribute('aria-label', 'layer ' + o.grid.layers[c] + ', ' + rows[r].role + ', ' + look.name)
    mark(cell, r, c)
  }

  /** Says whether text has room in a cell. */
  function fits(text) {
    return text.length * 6.7 + 4 <= wide
  }

  /** Outlines a cell that a finding names, or that is looked at. */
  function mark(cell, r, c) {
    const numbers = rows[r].cells[c]
    const isNow = numbers.includes(now)
    cell.classList.toggle('sel', !isNow && numbers.some((x) => marked.has(x)))
    cell.classList.toggle('now', isNow)
    cell.setAttribute('aria-selected', String(isNow || numbers.some((x) => marked.has(x))))
  }

  /** Draws a row of a large map. */
  function draw(r) {
    const canvas = lines[r].querySelector('canvas')
    if (!canvas) return
    const w = canvas.parentElement?.clientWidth || n * 4, h = rows[r].vector ? 22 : 28, k = devicePixelRatio || 1
    canvas.width = w * k
    canvas.height = h * k
    canvas.style.width = w + 'px'
    canvas.style.height = h + 'px'
    const g = canvas.getContext('2d')
    g.scale(k, k)
    looks[r].forEach((look, c) => {
      if (!look) return
      const x = (c * w) / n, cw = Math.max(1, w / n - (w / n < 4 ? 0 : 1))
      g.fillStyle = look.t === undefined ? css('--void') : colour(look.ramp, look.t)
      g.fillRect(x, 0, cw, h)
      if (look.mark) {
        outline(g, x, 0, cw, h, look.mark === 'bad')
      }
      if (rows[r].cells[c].some((q) => marked.has(q) || q === now)) {
        g.strokeStyle = css('--ink')
        g.lineWidth = 2
        g.strokeRect(x, 1, cw, h - 2)
        g.lineWidth = 1
      }
    })
  }

  /** Puts the focused cell into the document, over its row's canvas. */
  function cellInDocument() {
    const [r, c] = at
    over ??= cellNode(el('i'), [], r, c)
    Object.assign(over.dataset, { r, c })
    over.setAttribute('aria-colindex', String(c + 2))
    Object.assign(over.style, { position: 'absolute', left: (100 * c) / n + '%', width: 100 / n + '%', top: '0' })
    const parent = lines[r].querySelector('.canvasrow')
    if (over.parentNode !== parent) parent?.append(over)
    dress(over, looks[r][c], r, c)
    return over
  }

  /** Makes the present cell the one that Tab comes to, and returns it. */
  function focusable() {
    if (!rows.length) return null
    if (big) {
      const had = document.activeElement === over
      const cell = cellInDocument()
      cell.tabIndex = 0
      if (had && document.activeElement !== cell) {
        quiet = true
        cell.focus({ preventScroll: true })
        quiet = false
      }
      return cell
    }
    node.querySelector('.c[tabindex="0"]')?.setAttribute('tabindex', '-1')
    const cell = cells[at[0]]?.[at[1]]
    cell?.setAttribute('tabindex', '0')
    return cell
  }

  /** Writes out the present cell where cells are too small for numbers, and what marks and colours mean. */
  function write() {
    const look = wide < 28 && looks[at[0]]?.[at[1]]
    written.hidden = !look && !key
    written.replaceChildren(...(look ? [el('b', { text: 'layer ' + o.grid.layers[at[1]] + ' · ' + rows[at[0]].role }), ' · ' + look.name] : []), look && key ? el('br') : '', key)
  }

  /** Moves to a cell. */
  function move(r, c, focus) {
    if (!rows[r]) return
    at = [r, Math.max(0, Math.min(n - 1, c))]
    const cell = focusable()
    if (focus) cell?.focus()
    write()
  }

  /** Finds the cell of a tensor. */
  function find(number) {
    for (let r = 0; r < rows.length; r++) {
      const c = rows[r].cells.findIndex((x) => x.includes(number))
      if (c >= 0) return [r, c]
    }
    return null
  }

  /** Returns the cell under an event. */
  function under(e) {
    const cell = e.target.closest?.('[data-c]')
    if (cell) return [Number(cell.dataset.r), Number(cell.dataset.c)]
    const canvas = e.target.closest?.('canvas')
    if (!canvas) return null
    const line = lines.findIndex((l) => l.contains(canvas)), b = canvas.getBoundingClientRect()
    return [line, Math.min(n - 1, Math.max(0, Math.floor(((e.clientX - b.left) / b.width) * n)))]
  }

  node.addEventListener('keydown', (e) => {
    const [r, c] = at
    const to = { ArrowRight: [r, c + 1], ArrowLeft: [r, c - 1], ArrowDown: [r + 1, c], ArrowUp: [r - 1, c], Home: [e.ctrlKey ? 0 : r, 0], End: [e.ctrlKey ? rows.length - 1 : r, n - 1], PageDown: [Math.min(rows.length - 1, r + 8), c], PageUp: [Math.max(0, r - 8), c] }[e.key]
    if (to && !e.altKey && !e.metaKey) {
      e.preventDefault()
      move(to[0], to[1], true)
      o.go(rows[at[0]].cells[at[1]], at)
    } else if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault()
      const numbers = rows[at[0]].cells[at[1]]
      if (numbers.length) o.open(numbers)
    }
  })
  const hover = (e) => {
    const cell = under(e)
    if (!cell || (cell[0] === at[0] && cell[1] === at[1] && e.type === 'mousemove')) return
    const numbers = rows[cell[0]].cells[cell[1]]
    if (!numbers.length) return
    at = cell
    focusable()
    write()
    o.go(numbers, at)
  }
  node.addEventListener('mouseover', hover)
  if (big) node.addEventListener('mousemove', hover)
  node.addEventListener('focusin', (e) => {
    const cell = under(e)
    if (cell && !quiet) {
      at = cell
      write()
      o.go(rows[at[0]].cells[at[1]], at)
    }
  })
  node.addEventListener('click', (e) => {
    const cell = under(e)
    const numbers = cell && rows[cell[0]].cells[cell[1]]
    if (numbers?.length) o.open(numbers)
  })
  box.addEventListener('scroll', scrolled, { passive: true })
  const watch = new ResizeObserver(() => update())
  watch.observe(box)

  return {
    node: el('div', null, hint, box, written), rows, update,
    /** Outlines tensors, and the one that is looked at. */
    select(numbers, one) {
      marked = new Set(numbers)
      now = one
      const cell = find(one)
      if (cell) at = cell
      if (big) rows.forEach((_, r) => draw(r))
      else cells.forEach((line, r) => line.forEach((x, c) => looks[r][c] && mark(x, r, c)))
      focusable()
      write()
    },
    numbered: () => !big && fits('0.0'),
    focus: () => focusable()?.focus(),
    has: (number) => find(number) !== null,
    fold: (folded) => node.classList.toggle('folded', folded),
    leave: () => watch.disconnect(),
  }
}

/** Outlines a cell of a canvas that is damaged or all zero; a stroke from corner to corner says damaged. */
export function outline(g, x, y, w, h, bad) {
  g.strokeStyle = css(bad ? '--bad' : '--warn')
  g.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), Math.max(0, h - 1))
  if (!bad) return
  g.beginPath()
  g.moveTo(x, y)
  g.lineTo(x + w, y + h)
  g.stroke()
}

/** Says how a cell looks under a measure: its number, colour and name. */
export function lookAt(m, d, rows, stats) {
  return (numbers) => {
    const s = summary(m, numbers, rows, stats)
    const many = numbers.length > 1 ? ', worst of ' + things(numbers.length, 'tensor') : ''
    if (s.bad >= 0 && m.needs !== 'row') {
      const stat = stats[s.bad]
      return { mark: 'bad', text: '✕', name: (stat.error ? 'damaged' : bound(stat) + things(stat.nan + stat.pos_inf + stat.neg_inf, 'value that is', 'values that are') + ' NaN or infinite') + many.replace('worst', 'one') }
    }
    if (s.blank) return { text: '', name: 'not computed yet' }
    const isZero = s.zeros > 0 && m.needs !== 'row', mark = isZero ? 'zero' : '', zero = !isZero ? '' : many ? `; ${s.zeros} of them all zero` : ', all zero'
    if (s.value === undefined) return { text: '–', name: m.name + ' is not defined' + zero, mark }
    const odd = s.stat && m.key === 'max_sigma' ? (s.stat.excess >= 10 ? 2 : s.stat.excess >= 4 ? 1 : 0) : 0
    const sign = bound(s.stat, m.bound), text = isZero && !allZero(s.stat) ? '' : sign + m.text(s.value)
    const unit = text && odd && m.unit ? thin + m.unit : ''
    return {
      text: text + unit, short: text, t: position(m, d, m.add ? rows[s.worst]?.stored_bytes ?? s.value : s.value), ramp: m.ramp, bold: odd === 2, mark,
      name: sign + m.long(s.value) + many + (odd === 2 ? ', strong outlier' : odd ? ', mild outlier' : s.stat?.odd ? ', odd' : '') + zero,
    }
  }
}
