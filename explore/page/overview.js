// @ts-check
// What this model is, and what is odd in it.
import { aside } from './aside.js'
import { arrows, atRest, copy, el, faint, kbd, say } from './dom.js'
import { findingsList } from './findings.js'
import { chip, drawThumb, legend, meter, sigmaChip } from './figure.js'
import { bytes, count, grouped, named, none, number, percent, quote, shape, things } from './format.js'
import { binned, layerGrid, lookAt } from './grid.js'
import { allZero, bound, broken, domain, measure, measures, range } from './measures.js'
import { colour, css, ink } from './scale.js'
import { compute, listen, rowsOf, store } from './store.js'
import { go, put, read, tensorLink } from './route.js'
import { listView } from './list.js'

/** Makes the strip of facts. */
export function strip(facts, low) {
  return el('dl', { class: 'strip' + (low ? ' low' : '') }, facts.filter(Boolean).map(([name, value, small, css]) => el('div', { class: css ?? null }, el('dt', { text: name }), el('dd', { class: low === name ? 'huge' : null }, value, small && el('small', { text: ' ' + small })))))
}

/** Shows the rules behind "odd". */
function rules() {
  const dialog = el('dialog', { 'aria-label': 'How “odd” is decided' }, el('h2', { text: 'How “odd” is decided' }),
    el('dl', null, ...[
      ['✕ damaged', 'A tensor cannot be read, or holds NaN or infinities.'],
      ['▲ outlier', 'The largest |x − mean| is at least 10 times what Gaussian values of that count reach: √(2 ln n) σ.'],
      ['△ outlier', 'At least 4 times.'],
      ['▲ never trained', 'σ is at most a quarter of its kind’s median, kurtosis is below 0.1, and its bias is all 0.'],
      ['▲ △ all zero', 'Strong for a matrix, mild for a vector.'],
      ['△ σ apart', 'A role’s median σ is 20 times above or below its kind’s, or a tensor’s is 4 times above or below its role’s.'],
      ['△ an index again', 'The largest value lies at the same index of the hidden size in at least 4 tensors and 10 % of them.'],
      ['△ zeros', 'At least 5 % of values are 0, and 10 times the share of its role’s median; or a row is all 0.'],
    ].flatMap(([a, b]) => [el('dt', { text: a }), el('dd', { text: b })])),
    el('p', { class: 'sub', text: 'Odd is not bad: these are comparisons with the rest of this model and with Gaussian values.' }),
    el('div', { class: 'btns' }, el('button', { class: 'btn p', text: 'Close', click: () => dialog.close() })))
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

/** Shows the overview. */
export function overview(main) {
  const { model } = store
  const state = read()
  let m = measure(state.params.get('m'))
  let chosen = null // the tensor that the reader chose
  let marked = [], timer = 0
  const side = aside()
  const rows = model.grid.groups.flatMap((g) => g.rows), experts = Math.max(0, ...rows.map((r) => r.experts)), why = model.grid.why

  const notes = el('div')
  const progress = meter()
  const findings = findingsList('Findings', choose, why ? (f) => openCell(f.numbers.slice(0, 1)) : choose)
  const oddSub = el('span', { class: 'sub' })
  const oddPart = el('section', { class: 'near' }, el('div', { class: 'row' }, el('h2', { text: 'Odd in this model' }), oddSub), ...findings.nodes)
  findings.nodes[2].append(el('button', { class: 'link', text: 'how “odd” is decided', click: rules }))

  const facts = el('div')
  let factsOf = ''
  /** Shows the facts in the window's width and theme. */
  function drawFacts() {
    const wide = innerWidth > 600, key = wide + css('--bg')
    if (key === factsOf) return
    factsOf = key
    const stored = storedBytes(model)
    const types = model.types.slice(0, 4).flatMap((t, i) => [i ? el('small', { text: ', ' }) : '', el('span', { title: things(t.tensors, 'tensor') + ', ' + bytes(t.stored_bytes) }, model.types.length > 1 && swatch(t), t.type, el('small', { text: ' ' + (model.types.length > 1 ? share(t.stored_bytes / stored) + (i ? '' : ' of bytes') : things(t.tensors, 'tensor')) }))])
    const layers = things(model.grid.layers.length, 'layer'), of = things(rows.length, 'role'), more = model.outside.length ? '+ ' + things(model.outside.length, 'tensor') : ''
    facts.replaceChildren(
      strip([
        ['Parameters', count(model.parameters)], ['Size', bytes(model.bytes)], [wide ? 'Bits per weight' : 'Bits', number(model.bits_per_weight)],
        ['Types', el('span', null, ...types), model.types.length > 4 ? '+ ' + (model.types.length - 4) : ''],
        rows.length > 0 && ['Grid', layers + ' × ' + (experts ? things(experts, 'expert') : of), [experts ? of : '', more].filter(Boolean).join(' ')],
        !wide && ['Tensors', grouped(model.tensors)],
        model.names && ['Names', model.names], model.quantization && ['Quantization', model.quantization],
        ['Stored in', things(model.files, 'file')], ['Signature', model.signature || 'none'], ['From', el('bdi', { text: model.from, title: model.from }), '', 'from'],
      ]), ...parts(model))
  }
  drawFacts()
  main.append(el('h1', null, el('bdi', { text: model.name })), facts, notes, progress.node, oddPart)

  let grid = null, shownGrid = null, select = null
  const thumbs = [], legendBox = el('div'), title = el('h3', { class: 'big' }), sub = el('span', { class: 'sub' }), gridBox = el('div')
  if (!why) {
    const group = el('div', { class: 'thumbs', role: 'radiogroup', 'aria-label': 'Measure' })
    for (const x of measures) {
      const canvas = el('canvas', { 'aria-hidden': 'true' }), small = el('small')
      const b = el('button', { class: 'thumb', role: 'radio', 'data-key': x.key, 'aria-label': x.title, click: () => setMeasure(x.key) }, el('span', { class: 't' }, x.name, small), canvas)
      thumbs.push([x, b, canvas, small])
      group.append(b)
    }
    group.append(el('a', { class: 'thumb off', href: '#/compare' }, el('span', { class: 't' }, 'Error', el('small', { text: 'compare' })), faint(model.compared ? 'against ' + model.compared.title : 'needs a second model')))
    arrows(group, '[role=radio]', (b) => b.click())
    select = el('select', { id: 'measure', change: (e) => setMeasure(e.target.value) }, ...measures.map((x) => el('option', { value: x.key, text: x.title })))
    const vectors = model.grid.groups.filter((g) => g.rows.every((r) => r.vector)).reduce((s, g) => s + g.rows.length, 0)
    const unfold = el('button', { class: 'btn phone', 'aria-expanded': 'false', css: { 'margin-top': '16px' }, text: 'Norms and biases, ' + things(vectors, 'role'), click: () => {
      const open = unfold.getAttribute('aria-expanded') === 'false'
      unfold.setAttribute('aria-expanded', String(open))
      grid.fold(!open)
    } })
    const left = el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Layers × roles' }), el('span', { class: 'sub wide' }, 'small maps are of matrices, ranges of all in the grid; one scale for every model; ', kbd('m'), ' next measure, arrows move')),
      group, el('label', { class: 'measure' }, faint('Measure'), select), el('div', { class: 'row', css: { 'margin-top': '24px' } }, title, sub), gridBox, legendBox, vectors ? unfold : null)
    main.append(el('section', { class: 'cols' }, left, side.node))
    makeGrid()
    grid.fold(true)
  } else {
    main.append(el('p', { class: 'note', text: why }))
    const box = el('section', { class: 'near' })
    main.append(box)
    var inner = listView(box, true)
  }

  // The tensors outside of the grid.
  const body = el('tbody'), sigmaHead = ['name', 'dtype', 'shape', 'size', 'σ', 'max in σ', 'zeros']
  let most = 12
  const moreOutside = el('button', { class: 'link', hidden: true, click: () => { if (most > 12) go('#/tensors'); most = 400; outside() } })
  if (!why && model.outside.length) {
    main.append(el('section', null, el('div', { class: 'row', css: { 'margin-bottom': '4px' } }, el('h2', { text: 'Not in the grid' }), faint(things(model.outside.length, 'tensor') + ' whose names have no layer number')),
      el('table', { class: 'tb' }, el('thead', null, el('tr', null, sigmaHead.map((h, i) => el('th', { class: (i < 2 ? 'l' : '') + (i > 0 && i < 5 || i > 5 ? ' wide' : ''), scope: 'col', text: h })))), body), moreOutside))
  }

  /** Fills the table of tensors outside of the grid. */
  function outside() {
    if (why) return
    const held = document.activeElement instanceof HTMLElement && body.contains(document.activeElement) ? document.activeElement.dataset.n : null
    body.replaceChildren(...model.outside.slice(0, most).map((n) => {
      const row = store.rows[n], s = store.stats[n]
      if (!row) return el('tr', null, el('td', { class: 'l', colspan: 7, text: '…' }))
      return el('tr', { class: chosen === n ? 'now' : null },
        el('td', { class: 'l m name' }, el('a', { href: tensorLink(row.name), 'data-n': String(n), text: named(row.name), title: row.name, focus: () => look(n) }), el('div', { class: 'sub phone', text: shape(row.shape) + ' · ' + bytes(row.stored_bytes) + (s?.zeros / s?.finite >= 0.01 ? ' · ' + bound(s, '≈') + measures[4].long(s.zeros / s.finite) : '') })),
        el('td', { class: 'l wide', text: row.type }), el('td', { class: 'wide', text: shape(row.shape) }), el('td', { class: 'wide', text: bytes(row.stored_bytes) }),
        el('td', { class: 'wide', text: s ? (s.error ? none : bound(s, '≈') + number(s.std)) : '' }), el('td', null, sigmaChip(s)), el('td', { class: 'wide' }, zeros(s)))
    }))
    if (held) body.querySelector(`[data-n="${held}"]`)?.focus({ preventScroll: true })
    moreOutside.hidden = model.outside.length <= most
    moreOutside.textContent = things(model.outside.length - most, 'more', 'more') + (most > 12 ? ' in the list of tensors' : '')
  }

  /** Shows how many zeros a tensor has: a chip if they are many. */
  function zeros(s) {
    if (!s) return ''
    if (s.error) return s.kind === 'no values' ? none : '✕'
    if (s.finite && s.zeros / s.finite >= 0.01) return chip(measures[4], { low: 1e-4, high: 1 }, s.zeros / s.finite, s)
    return bound(s) + grouped(s.zeros)
  }

  /** Returns how many pixels there are for columns. On a phone a map of many layers scrolls, columns as wide as a finger. */
  function room() {
    return innerWidth <= 600 ? 400 : gridBox.clientWidth - 340
  }

  /** Makes the map for the present measure. */
  function makeGrid() {
    grid?.leave()
    shownGrid = binned(model.grid, room())
    grid = layerGrid({ grid: shownGrid, label: m.title + ' by role and layer', shapes: true, look: (numbers) => lookNow(numbers), go: (numbers) => look(numbers), open: openCell })
    gridBox.replaceChildren(grid.node)
  }

  let lookNow = () => null
  const numbers = model.grid.groups.flatMap((g) => g.rows.flatMap((r) => r.cells.flat()))

  /** Changes the measure. */
  function setMeasure(key) {
    m = measure(key)
    put({ m: key === 'max_sigma' ? '' : key })
    for (const node of gridBox.querySelectorAll('[role=grid]')) node.setAttribute('aria-label', m.title + ' by role and layer')
    update()
  }

  /** Looks at the worst tensor of a cell, or at a tensor. */
  function look(what) {
    const n = Array.isArray(what) ? worst(what) : what
    if (n === undefined) return
    chosen = n
    if (store.rows[n]) side.show(n)
    else rowsOf([n]).then(() => chosen === n && side.show(n), () => {})
    grid?.select(marked, n)
    clearTimeout(timer)
    timer = setTimeout(() => read().view === 'overview' && put({ at: store.rows[n]?.name }), 250)
  }

  /** Returns the tensor of a cell that marks it, or else colours it. */
  function worst(list) {
    const marks = list.find((n) => broken(store.stats[n])) ?? list.find((n) => allZero(store.stats[n]))
    if (marks !== undefined) return marks
    let best = list[0]
    for (const n of list) if ((store.stats[n]?.max_sigma ?? -1) > (store.stats[best]?.max_sigma ?? -1)) best = n
    return best
  }

  /** Opens the tensor of a cell; of many, their list. */
  function openCell(list) {
    const n = worst(list)
    rowsOf([n]).then(() => {
      clearTimeout(timer)
      put({ at: store.rows[n].name })
      go(tensorLink(store.rows[n].name))
    }, () => {})
  }

  /** Marks the tensors of a finding and looks at the first. */
  function choose(f) {
    marked = f.numbers ?? []
    if (marked.length) look(marked.find((n) => grid?.has(n)) ?? marked[0])
  }

  /** Shows how far reading is. */
  function showProgress() {
    const p = store.progress
    const busy = p && !p.done && !store.problem
    if (busy) {
      const share = Math.min(1, p.all_values ? p.values / (p.all_values * Math.min(1, p.share || 1)) : p.tensors / p.all_tensors)
      progress.show(share, p.seconds, `Reading values: **${grouped(p.tensors)} of ${grouped(p.all_tensors)}** tensors, ${count(p.values)} of ${count(p.all_values)} values`)
    } else progress.show(null)
    const sampled = p && p.share < 1, bad = damaged().length
    oddSub.replaceChildren(...(busy ? ['so far'] : p ? [(sampled ? percent(p.share) + ' of all values read' : bad ? 'all values read but those of ' + things(bad, 'damaged tensor') : 'all values read'), ...(store.findings.some((f) => f.severity > 0) ? [el('span', { class: 'keys' }, ' · ', kbd('o'), ' next')] : [])] : ['reading']))
    return busy
  }

  /** Returns the figures of tensors that cannot be read. */
  function damaged() {
    return store.stats.filter((s) => s?.error && s.kind !== 'no values')
  }

  let noteKey = ''
  /** Shows notes: a sample, damaged tensors, errors. */
  function showNotes() {
    const p = store.progress, bad = damaged()
    const key = JSON.stringify([p?.done && p?.share, bad.length, store.problem])
    if (key === noteKey) return
    noteKey = key
    const out = []
    if (p?.done && p.share < 1) {
      out.push(el('p', { class: 'note warn' }, el('b', { text: '1 value in ' + grouped(Math.round(1 / p.share)) + ' was read' }), ' (blocks of 256 to 4,096 at random places): largest values are lower bounds, σ and percentiles are estimates. ',
        el('button', { class: 'link', text: 'Read all ' + bytes(model.bytes), click: () => { compute(true); say('Reading all values') } })))
    }
    for (const s of bad.slice(0, 3)) out.push(el('p', { class: 'note bad' }, el('b', { class: 'm', text: store.rows[s.number]?.name ?? 'tensor ' + s.number }), ' cannot be read. All else can. ', el('span', { class: 'm wide', text: s.error })))
    if (bad.length > 3) out.push(el('p', { class: 'sub', text: things(bad.length - 3, 'more damaged tensor') + ' in the list' }))
    if (bad.length) out.push(el('p', { class: 'sub t8' }, `${grouped(store.stats.filter(Boolean).length - bad.length)} of ${things(model.tensors, 'tensor')} counted, without ${bad.length} damaged. `, el('button', { class: 'link', text: 'Copy the tensormap verify line', click: () => copy('tensormap verify ' + quote(model.from)) })))
    for (const line of model.unreadable ?? []) out.push(el('p', { class: 'note bad' }, el('span', { class: 'm', text: line })))
    if (store.problem) out.push(el('p', { class: 'note bad' }, el('b', { text: store.problem.text }), store.problem.line ? el('br') : null, el('span', { class: 'm', text: store.problem.line }), ' ' + (store.problem.hint ?? '')))
    notes.replaceChildren(...out)
  }

  let touched = state.params.has('at')
  /** Shows all as it is now known. */
  function update() {
    const busy = showProgress()
    drawFacts()
    showNotes()
    findings.update(store.findings, !busy)
    oddPart.hidden = !store.findings.length && !busy && Boolean(store.problem)
    outside()
    side.update()
    inner?.update()
    if (!grid) return
    if (binned(model.grid, room()).binned !== shownGrid.binned) makeGrid()
    const d = domain(m, model.grid, store.rows, store.stats)
    lookNow = lookAt(m, d, store.rows, store.stats)
    grid.update()
    title.textContent = m.title
    sub.textContent = m.sub + (m.bold && grid.numbered() ? m.bold : '') + (d.same ? '; ' + range(m, d) : '')
    select.value = m.key
    const read = store.progress?.done || store.problem || numbers.every((n) => store.stats[n])
    for (const [x, b, canvas, small] of thumbs) {
      b.setAttribute('aria-checked', String(x === m))
      b.setAttribute('tabindex', x === m ? '0' : '-1')
      if (canvas.clientWidth) small.textContent = (x.needs === 'row' ? store.listed : read) ? drawThumb(canvas, x, model.grid, store.rows, store.stats) : '…'
    }
    const values = []
    for (const n of numbers) {
      const v = m.value(store.rows[n], store.stats[n])
      if (v !== undefined && v !== null) values.push(v)
    }
    legendBox.replaceChildren(d.same && m.ramp === 'amount' ? '' : legend(m, d, values, Math.min(536, (gridBox.clientWidth || 600) - (innerWidth > 600 ? 250 : 0))))
    if (chosen === null) first()
    grid.select(marked, chosen ?? -1)
  }

  /** Looks at the tensor of the address, or at the first finding's, as long as the reader has chosen none. */
  function first() {
    const name = read().params.get('at')
    if (touched && name) {
      const row = store.rows.find((r) => r && r.name === name)
      if (row) {
        chosen = row.number
        side.show(chosen)
        if (document.activeElement?.id === 'main' && grid.has(chosen)) {
          grid.select(marked, chosen)
          grid.focus()
        }
        const i = store.findings.filter((f) => f.severity > 0).findIndex((f) => f.numbers?.includes(chosen))
        if (i >= 0) findings.choose(i)
      }
      return
    }
    const f = store.findings.find((x) => x.severity > 0 && x.numbers?.length)
    if (f && store.progress?.done) {
      marked = f.numbers
      chosen = marked.find((n) => grid.has(n)) ?? marked[0]
      findings.choose(0)
      side.show(chosen)
    } else if (store.progress?.done && store.rows[numbers[0]]) {
      chosen = numbers[0]
      side.show(chosen)
    }
  }

  const end = listen(update)
  update()
  return {
    update,
    leave: () => { end(); clearTimeout(timer); grid?.leave(); side.leave(); inner?.leave() },
    keys(e) {
      if (e.key === 'o') findings.next()
      else if (e.key === 'm' || e.key === 'M') {
        const i = measures.indexOf(m) + (e.key === 'm' ? 1 : -1)
        setMeasure(measures[(i + measures.length) % measures.length].key)
        say(m.title)
      } else if (e.key === 'c') side.copyGo()
      else if (e.key === 'Enter' && chosen !== null && atRest()) openCell([chosen])
      else return inner?.keys?.(e) ?? false
      return true
    },
  }
}

/** Makes the square of a part's or a type's colour, as on the map. */
function swatch(x) {
  return el('i', { class: 'swatch', css: { background: colour('amount', x.tone) } })
}

/** Writes a share of the model. */
function share(x) {
  return x && x < 0.0005 ? '<' + percent(0.001) : percent(x)
}

/** Returns the bytes of all tensors, without heads and metadata, as inspect's table of dtypes adds them up. */
function storedBytes(model) {
  return model.types.reduce((sum, t) => sum + t.stored_bytes, 0) || 1
}

/** Draws the bar of parameters by part, and what its colours mean. */
function parts(model) {
  const all = model.parameters || 1, stored = storedBytes(model), list = [...model.parts].sort((a, b) => b.elements - a.elements)
  return [
    el('div', { class: 'bar', 'aria-hidden': 'true' }, list.map((p) => {
      const of = p.elements / all
      return el('div', { class: of < 0.02 ? 'thin' : null, css: { flex: `${100 * of} 1 0`, background: colour('amount', p.tone), color: ink('amount', p.tone) }, text: of * Math.min(1376, innerWidth) < 24 + 7 * p.part.length ? '' : p.part })
    })),
    el('ul', { class: 'key sub', 'aria-label': 'Parts' }, list.map((p, i) => el('li', null, swatch(p), el('b', { text: p.part }), ' ' + share(p.elements / all) + (i ? ', ' : ' of parameters, ') + share(p.stored_bytes / stored) + (i ? '' : ' of bytes')))),
  ]
}
