// @ts-check
// The list in a page of one file, which has no Go to ask: it unfolds and sorts the lists that were saved, and searches names.
// What is found or filtered stands without groups.
import { ask } from './ask.js'
import { allZero } from './measures.js'
import { store } from './store.js'

/** Returns the words of a text, letters and digits apart, as the search of Go takes names apart. */
function wordsOf(text) {
  return [...text.toLowerCase().matchAll(/\d+|[a-z\u0080-\uffff]+/g)].map((m) => m[0].replace(/^0+(?=\d)/, ''))
}

/** Returns what the number behind a word is: that of a layer, of an expert, or ''. */
function numbers(word) {
  return /^h$|(layers?|blocks?|blk)$/.test(word) ? 'layer' : /experts?$/.test(word) ? 'expert' : ''
}

/** Takes a search apart: words that stand side by side, a word for layers or experts with its number, the beginning of a word that no name has. */
function termsOf(q, known) {
  const fields = q.split(/\s+/), terms = []
  for (let i = 0; i < fields.length; i++) {
    const words = wordsOf(fields[i])
    if (words.length === 1 && numbers(words[0]) && /^\d{1,6}$/.test(fields[i + 1] ?? '')) words.push(...wordsOf(fields[++i]))
    const key = words.length === 2 && /^\d{1,6}$/.test(words[1]) ? numbers(words[0]) : ''
    if (words.length) terms.push({ words, key, begins: words.length === 1 && !/^\d/.test(words[0]) && !known.has(words[0]) })
  }
  return terms
}

/** Says whether a tensor matches all terms. */
function matches(terms, row, texts) {
  return terms.every(({ words, key, begins }) => (key && row.layer >= 0 && String(row[key]) === words[1]) ||
    texts.some((text) => text.some((_, i) => words.every((w, k) => text[i + k] === w || (k === 0 && key && numbers(text[i]) === key) || (begins && text[i].startsWith(w))))))
}

/** Returns a regular expression for whole names of a glob, as the server has them. Throws an error if it cannot be read. */
function expressionOf(glob) {
  let depth = 0
  const plain = (c) => '\\u{' + c.codePointAt(0).toString(16) + '}'
  const text = glob.replace(/\\(.)|\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]|./gsu, (all, escaped, not, set) => {
    if (set) return '[' + (not && '^') + set.replace(/\\(.)|[^-]/gsu, (c, escaped) => plain(escaped ?? c)) + ']'
    switch (all) {
      case '*': return '.*'
      case '?': return '.'
      case '{': depth++; return '(?:'
      case '}': return depth && depth-- ? ')' : plain(all)
      case ',': return depth ? '|' : plain(all)
    }
    if (set === '' || all === '[' || all === '\\') throw new SyntaxError(all)
    return plain(escaped ?? all)
  })
  return new RegExp('^' + text + (depth ? '(' : '') + '$', 'su') // ( without ) is an error as well
}

/** Returns a number that says what is wrong with a tensor: the larger, the worse. 0 is nothing. */
function state(s) {
  return !s ? 0 : s.kind === 'damaged' ? 6 : s.nan > 0 ? 5 : s.pos_inf + s.neg_inf > 0 ? 4 : allZero(s) ? 3 : s.odd
}

/** Compares names, and numbers in them by their values. Names are lists of numbers and of other characters. */
function natural(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const x = a[i].replace(/^0+(?=\d)/, ''), y = b[i].replace(/^0+(?=\d)/, '')
    const byLength = /^\d/.test(x) && /^\d/.test(y) ? x.length - y.length : 0
    if (x !== y) return byLength || (x < y ? -1 : 1)
  }
  return a.length - b.length
}

/** Makes a node of the list of a tensor. */
function leaf(r, depth) {
  const row = { id: '', name: r.name, depth, open: false, matched: [], tensor: r, note: store.stats[r.number]?.kind ?? '' }
  return { row, numbers: [r.number], inside: [] }
}

/** Returns the nodes of a list that was saved: a row, the numbers of its tensors, and the nodes inside of it; and whether it is whole. */
async function saved(group) {
  const a = await (await ask('data/list?group=' + group)).json()
  const above = [{ row: null, numbers: [], inside: [] }] // by depth
  for (const r of a.window) {
    const depth = r.depth ?? r[0]
    const node = r.depth === undefined ? leaf(store.rows[r[1]], depth) : { row: { ...r, experts: 0 }, numbers: [], inside: [] }
    if (r.experts) {
      node.numbers = r.by_layer.flat()
      node.inside = node.numbers.filter((n) => store.rows[n]).map((n) => leaf(store.rows[n], depth + 1))
    }
    above.length = depth + 1
    above[depth].inside.push(node)
    above.push(node)
    for (let i = 0; i <= depth; i++) above[i].numbers.push(...node.numbers)
  }
  return { nodes: above[0].inside, whole: a.rows === a.window.length }
}

/** Returns a function that says what nodes are sorted by: null if that is not known. */
function value(key) {
  const ranks = []
  if (key === 'name') {
    const names = store.rows.filter(Boolean).map((r) => ({ number: r.number, parts: r.name.match(/\d+|\D/gu) ?? [] }))
    names.sort((a, b) => natural(a.parts, b.parts)).forEach((n, i) => { ranks[n.number] = i })
  }
  const most = (node, of) => node.numbers.reduce((v, n) => {
    const x = store.stats[n] ? of(store.stats[n]) : null
    return x === null || (v !== null && v >= x) ? v : x
  }, null)
  return (node) => {
    const first = store.rows[node.numbers[0]]
    switch (key) {
      case 'name': return ranks[node.numbers[0]] ?? null
      case 'type': return first?.type ?? null
      case 'elements': return node.row.tensor || node.row.shape ? first?.elements ?? null : null
      case 'size': return (node.row.tensor ?? node.row).stored_bytes
      case 'zeros': return most(node, (s) => (s.error || !s.finite ? null : s.zeros / s.finite))
      case 'note': return most(node, state) ?? 0
    }
    return most(node, (s) => s[key])
  }
}

/** Returns nodes in an order, what is not known behind. */
function sorted(nodes, of, sign) {
  return nodes.map((node) => ({ node, v: of(node) })).sort((a, b) => {
    if (a.v === null || b.v === null) return (a.v === null ? 1 : 0) - (b.v === null ? 1 : 0)
    return (a.v < b.v ? -1 : a.v > b.v ? 1 : 0) * sign
  }).map((k) => k.node)
}

/** Returns what data/list would answer for a window from 0: all rows. */
export async function savedList({ q, group, sort, show, open }) {
  await store.read
  const none = { matches: 0, rows: 0, shows: [], window: [] }
  const all = store.rows.filter(Boolean), common = []
  for (const r of store.model.grid.groups.flatMap((g) => g.rows)) for (const n of r.cells.flat()) common[n] = r.common
  const texts = (r) => [r.name, common[r.number] ?? '', r.part].map(wordsOf)
  let found = all
  if (/[*?[{\\]/.test(q)) {
    try {
      const whole = expressionOf(q)
      found = all.filter((r) => whole.test(r.name))
    } catch (e) {
      return { ...none, problem: 'The pattern cannot be read: ' + e.message }
    }
  } else if (q) {
    const terms = termsOf(q, new Set(all.flatMap(texts).flat()))
    found = all.filter((r) => matches(terms, r, texts(r)))
  }
  const counts = new Map()
  for (const r of found) counts.set(r.type, (counts.get(r.type) ?? 0) + 1)
  const types = [...counts].map(([type, tensors]) => ({ show: type, tensors })).sort((a, b) => b.tensors - a.tensors || (a.show < b.show ? -1 : 1))
  const isOdd = (r) => state(store.stats[r.number]) > 0
  const shows = [{ show: '', tensors: found.length }, ...types.slice(0, 12), { show: 'odd', tensors: found.filter(isOdd).length }]
  const left = found.filter((r) => !show || r.type === show || (show === 'odd' && isOdd(r)))
  let nodes, whole = all.length === store.model.tensors
  if (q || show || group === 'none') nodes = left.map((r) => leaf(r, 0))
  else ({ nodes, whole } = await saved(group))
  const key = sort.replace(/^-/, ''), of = value(key), window = []
  const add = (inside) => {
    for (const node of key ? sorted(inside, of, sort.startsWith('-') ? -1 : 1) : inside) {
      const isOpen = open.has(node.row.id) && node.inside.length > 0
      window.push({ ...node.row, open: isOpen })
      if (isOpen) add(node.inside)
    }
  }
  add(nodes)
  const problem = whole ? '' : 'This file was saved with a part of this list. The model opened with tensormap explore shows all of it.'
  return { matches: left.length, rows: window.length, problem, shows, window }
}
