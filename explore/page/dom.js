// @ts-check
// Elements, made without markup from text: names of tensors are never read as HTML.

/** Makes an element. A property that is a function is a listener; "text" and "class" are short forms; null is left out. Buttons submit nothing unless they say so. */
export function el(tag, props, ...children) {
  return fill(document.createElement(tag), tag === 'button' ? { type: 'button', ...props } : props, children)
}

/** Makes an SVG element as el does. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children)
}

/** Writes out characters that turn the direction of text, by which a name would look like another one. */
export function seen(text) {
  return typeof text === 'string' ? text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')) : text
}

/** Gives an element its properties and children. */
function fill(node, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue
    if (typeof value === 'function') node.addEventListener(key, value)
    else if (key === 'text') node.textContent = seen(value)
    else if (key === 'css') Object.entries(value).forEach(([k, v]) => node.style.setProperty(k, v))
    else node.setAttribute(key, value === true ? '' : value)
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false).map(seen))
  return node
}

/** Makes faint text. */
export function faint(text) {
  return el('span', { class: 'sub', text })
}

/** Shows text in which names stand between backquotes and bold text between pairs of asterisks. */
export function rich(text) {
  return text.split(/(\x60[^\x60]*\x60|\*\*.*?\*\*)/).filter(Boolean).map((s) => {
    if (s.length > 1 && s.startsWith('\x60')) return el('b', { class: 'm', text: s.slice(1, -1) })
    if (s.length > 4 && s.startsWith('**')) return el('b', null, ...rich(s.slice(2, -2)))
    return document.createTextNode(s)
  })
}

/** Makes a box that scrolls sideways where its content is too wide, by keys too. */
export function scroller(label, ...children) {
  return el('div', { class: 'box', role: 'region', tabindex: 0, 'aria-label': label }, ...children)
}

/** Shows a key of the keyboard. */
export function kbd(key) {
  return el('kbd', { text: key })
}

/** Puts text onto the clipboard and says so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = el('textarea', { class: 'hidden' })
    area.value = text
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
  say('Copied: ' + text.split('\n')[0])
}

/** Says something to screen readers, and shows it for a while. */
export function say(text) {
  const said = document.getElementById('said')
  if (!said) return
  said.textContent = text
  said.classList.remove('hidden')
  clearTimeout(Number(said.dataset.timer))
  said.dataset.timer = String(setTimeout(() => said.classList.add('hidden'), 2000))
}

/** Fills a box with choices of which one is taken: one tab stop, arrows choose. */
export function choice(box, label, options, taken, choose) {
  const group = el('span', { class: 'seg', role: 'radiogroup', 'aria-label': label })
  options.forEach(([key, text], i) => {
    group.append(el('button', {
      role: 'radio', 'aria-checked': String(key === taken), 'data-key': key,
      tabindex: key === taken || (i === 0 && !options.some(([k]) => k === taken)) ? 0 : -1, text, click: () => choose(key),
    }))
  })
  arrows(group, '[role=radio]', (b) => b.click())
  const held = box.contains(document.activeElement)
  box.replaceChildren(group)
  if (held) group.querySelector('[tabindex="0"]')?.focus()
}

/** Lets the arrow keys go round the items of a group, and does something with the one they come to. */
export function arrows(group, items, come) {
  group.addEventListener('keydown', (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key]
    if (!step) return
    const all = [...group.querySelectorAll(items)], i = all.indexOf(document.activeElement)
    if (i < 0) return
    e.preventDefault()
    e.stopPropagation()
    const key = all[(i + step + all.length) % all.length].dataset.key
    come(all[(i + step + all.length) % all.length])
    const again = document.querySelector(`[role=radiogroup][aria-label="${group.getAttribute('aria-label')}"] [data-key="${key}"]`)
    if (again instanceof HTMLElement) again.focus()
  })
}

/** Says whether nothing in particular has the focus. */
export function atRest() {
  return document.activeElement === document.body || document.activeElement?.id === 'main'
}
