// @ts-check
// Findings in words, the worst first.
import { arrows, el, rich } from './dom.js'
import { things } from './format.js'

const glyphs = { 3: ['✕', 'damaged'], 2: ['▲', 'strong'], 1: ['△', 'mild'], 0: ['✓', 'fine'] }

/** Makes the list of findings. choose(finding) is called for the one that is chosen, open(finding) for a click or ↵ upon it. */
export function findingsList(label, choose, open = choose) {
  const list = el('ul', { class: 'odd', role: 'listbox', 'aria-label': label, hidden: true })
  const fine = el('ul', { class: 'odd', hidden: true, css: { 'margin-top': '-1px' } })
  const more = el('button', { class: 'link', hidden: true, click: () => { unfold(); list.children[few]?.focus() } })
  let all = [], whole = false, chosen = -1, key = '', done = true
  const few = innerWidth <= 600 ? 4 : 5

  /** Shows the findings. */
  function draw() {
    const odd = all.filter((f) => f.severity > 0), ok = all.filter((f) => f.severity === 0)
    const now = JSON.stringify([odd.map((f) => f.text), ok.map((f) => f.text), whole, done])
    if (now === key) return mark()
    key = now
    const held = list.contains(document.activeElement)
    list.hidden = !odd.length
    fine.hidden = !ok.length
    list.replaceChildren(...odd.slice(0, whole ? undefined : few).map((f, i) => item(f, i)))
    fine.replaceChildren(...ok.map((f) => item(f, -1)))
    more.hidden = whole || odd.length <= few
    more.textContent = things(odd.length - few, 'more', 'more')
    mark()
    if (held) focus()
  }

  /** Shows all findings. */
  function unfold() {
    whole = true
    draw()
  }

  /** Makes the line of a finding. */
  function item(f, i) {
    const [glyph, word] = glyphs[f.severity] ?? glyphs[1]
    return el('li', { class: 's' + f.severity, role: i < 0 ? null : 'option', tabindex: i < 0 ? null : -1, 'data-key': String(i), 'aria-selected': i < 0 ? null : 'false', click: i < 0 ? null : () => pick(i, open) },
      el('span', { class: 'g', role: 'img', 'aria-label': word, text: glyph }), el('p', null, ...rich(f.text)), el('span', { class: 'sub ev', text: done || f.severity === 0 ? f.evidence : f.evidence || 'so far' }))
  }

  /** Chooses a finding, or opens it. */
  function pick(i, then = choose) {
    chosen = i
    mark()
    then(all.filter((f) => f.severity > 0)[i])
  }

  /** Marks the chosen finding, which unfolds the list if need be. */
  function mark() {
    if (chosen >= few && !whole) return unfold()
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
      pick(Number(document.activeElement?.getAttribute('data-key') ?? 0), open)
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
      pick((chosen + 1) % n)
      focus()
    },
  }
}
