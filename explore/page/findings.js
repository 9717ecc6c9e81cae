// @ts-check
// Findings in words, the worst first.
import { arrows, el, rich } from './dom.js'
import { things } from './format.js'

const glyphs = { 3: ['✕', 'damaged'], 2: ['▲', 'strong'], 1: ['△', 'mild'], 0: ['✓', 'fine'] }

/** Makes the list of findings. choose(finding) is called for one that names tensors. */
export function findingsList(label, choose) {
  const list = el('ul', { class: 'odd', role: 'listbox', 'aria-label': label, hidden: true })
  const fine = el('ul', { class: 'odd', hidden: true, css: { 'margin-top': '-1px' } })
  const more = el('button', { class: 'link', hidden: true, click: () => { open = true; key = ''; draw() } })
  let all = [], open = false, chosen = -1, key = '', done = true
  const few = innerWidth <= 600 ? 4 : 5

  /** Shows the findings. */
  function draw() {
    const odd = all.filter((f) => f.severity > 0), ok = all.filter((f) => f.severity === 0)
    const now = JSON.stringify([odd.map((f) => f.text), ok.map((f) => f.text), open, done])
    if (now === key) return mark()
    key = now
    const held = list.contains(document.activeElement)
    list.hidden = !odd.length
    fine.hidden = !ok.length
    list.replaceChildren(...odd.slice(0, open ? undefined : few).map((f, i) => item(f, i)))
    fine.replaceChildren(...ok.map((f) => item(f, -1)))
    more.hidden = open || odd.length <= few
    more.textContent = things(odd.length - few, 'more', 'more')
    mark()
    if (held) focus()
  }

  /** Makes the line of a finding. */
  function item(f, i) {
    const [glyph, word] = glyphs[f.severity] ?? glyphs[1]
    return el('li', { class: 's' + f.severity, role: i < 0 ? null : 'option', tabindex: i < 0 ? null : -1, 'data-key': String(i), 'aria-selected': i < 0 ? null : 'false', click: i < 0 ? null : () => pick(i) },
      el('span', { class: 'g', role: 'img', 'aria-label': word, text: glyph }), el('p', null, ...rich(f.text)), el('span', { class: 'sub ev', text: done || f.severity === 0 ? f.evidence : f.evidence || 'so far' }))
  }

  /** Chooses a finding. */
  function pick(i) {
    chosen = i
    mark()
    choose(all.filter((f) => f.severity > 0)[i])
  }

  /** Marks the chosen finding. */
  function mark() {
    list.querySelectorAll('[role=option]').forEach((x, i) => {
      x.setAttribute('aria-selected', String(i === chosen))
      x.setAttribute('tabindex', i === Math.max(0, chosen) ? '0' : '-1')
    })
  }

  /** Focuses the chosen finding. */
  function focus() {
    list.querySelector('[tabindex="0"]')?.focus()
  }

  list.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault()
      pick(Number(document.activeElement?.getAttribute('data-key') ?? 0))
    }
  })
  arrows(list, '[role=option]', (x) => { pick(Number(x.dataset.key)); x.focus() })
  return {
    nodes: [list, fine, el('div', { class: 'oddfoot' }, more)],
    update(findings, isDone) { all = findings; done = isDone; draw() },
    chosen: () => chosen,
    choose(i) { chosen = i; mark() },
    next() {
      const n = all.filter((f) => f.severity > 0).length
      if (!n) return
      if (chosen + 1 >= few) { open = true; key = ''; draw() }
      pick((chosen + 1) % n)
      focus()
    },
  }
}
