// @ts-check
// Opens a model in a browser alone: files, a folder, or an address. Nothing leaves the machine but requests to that address.
import { tell } from './ask.js'
import { el } from './dom.js'

/** Shows where to drop or choose a model. side is "b" for one to compare with. done is called once it is open. */
export function chooser(main, done, side) {
  const problem = el('div', { role: 'status' })
  const file = el('input', { type: 'file', multiple: true, class: 'hidden', tabindex: -1, 'aria-hidden': 'true', change: () => files(fromInput(file)) })
  const folder = el('input', { type: 'file', webkitdirectory: true, class: 'hidden', tabindex: -1, 'aria-hidden': 'true', change: () => files(fromInput(folder)) })
  const address = el('input', { type: 'text', class: 'address', 'aria-label': 'Address of a model', placeholder: 'https://… or hf://ORG/NAME', autocomplete: 'off', spellcheck: 'false' })
  const panel = el('div', { class: 'panel' }, el(side ? 'h2' : 'h1', { text: side ? 'Drop the model to compare with' : 'Drop a model file or a folder' }),
    el('p', { class: 'sub t8', text: 'SafeTensors, GGUF, APR2, APR1, .april, BW2L, TSM; shards with their index' }),
    el('div', { class: 'btns' }, el('button', { class: 'btn p', text: 'Choose a file', click: () => file.click() }), el('button', { class: 'btn', text: 'Choose a folder', click: () => folder.click() }), file, folder),
    el('form', { submit: (e) => { e.preventDefault(); if (address.value.trim()) open({ address: address.value.trim() }) } }, address, el('button', { type: 'submit', class: 'btn', text: 'Open' })))
  main.append(el('section', { class: 'near' }, panel, el('p', { class: 'sub t16', text: 'Read by ranges in this browser, never whole. Nothing leaves the machine.' }), problem))

  panel.addEventListener('dragover', (e) => {
    e.preventDefault()
    panel.classList.add('over')
  })
  panel.addEventListener('dragleave', () => panel.classList.remove('over'))
  panel.addEventListener('drop', async (e) => {
    e.preventDefault()
    panel.classList.remove('over')
    const entries = [...(e.dataTransfer?.items ?? [])].map((i) => i.webkitGetAsEntry?.()).filter(Boolean)
    const out = []
    if (!entries.length) out.push(...[...(e.dataTransfer?.files ?? [])].map((f) => ({ path: f.name, file: f })))
    try {
      for (const x of entries) await walk(x, '', out)
    } catch (x) {
      return fail({ text: 'The browser cannot read what was dropped.', line: String(x), hint: 'Is it still there? Drop it again, or choose it.' })
    }
    open({ files: out })
  })

  /** Opens files. */
  function files(list) {
    if (list.length) open({ files: list })
  }

  /** Hands the worker what to open, and shows why it cannot. */
  async function open(what) {
    problem.replaceChildren(el('p', { class: 'sub t16', text: 'Opening …' }))
    const answer = await tell(side ? { ...what, side } : what)
    if (answer.opened) return done()
    fail(answer.problem ?? { text: 'The model cannot be opened.', line: '', hint: '' })
  }

  /** Shows why a model cannot be opened. */
  function fail(p) {
    problem.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: p.text })), p.line ? el('pre', { class: 't12', text: p.line }) : '', p.hint ? el('p', { class: 'sub t12', text: p.hint }) : '')
  }
}

/** Returns the files of an input, with their paths. */
function fromInput(input) {
  return [...(input.files ?? [])].map((f) => ({ path: f.webkitRelativePath || f.name, file: f }))
}

/** Collects the files of a dropped folder. */
async function walk(entry, path, out) {
  if (entry.isFile) {
    const file = await new Promise((ok, no) => entry.file(ok, no))
    out.push({ path: path + entry.name, file })
    return
  }
  const reader = entry.createReader()
  for (;;) {
    const list = await new Promise((ok, no) => reader.readEntries(ok, no))
    if (!list.length) return
    for (const x of list) await walk(x, path + entry.name + '/', out)
  }
}
