// @ts-check
// The list in a page of one file, which has no Go to ask: it unfolds and sorts the lists that were saved, and searches the words that
// Go has saved of each tensor. What is found or filtered stands without groups.
import { ask } from './ask.js'
import { store } from './store.js'

/** Returns a test for rows of tensors: each field of a search has words that stand side by side, the last one's beginning if no row has it. */
function matching(q, rows) {
  const fields = (' ' + q.toLowerCase()).replace(/(?<!\d)0+(?=\d)/g, '')
    .replace(/\s(?:(h|[a-z]*(?:layers?|blocks?|blk))|[a-z]*experts?)[^a-z\d]*(\d+)(?!\S)/g, (_, layer, n) => ` ${layer ? 'layer' : 'expert'}.${n}`)
    .split(/\s+/).map((f) => f.match(/\d+|[a-z\u0080-\uffff]+/g)).filter(Boolean).map((words) => {
      const whole = ' ' + words.join(' ') + ' '
      return /\d $/.test(whole) || rows.some((r) => r.words.includes(whole)) ? whole : whole.trimEnd()
    })
  return (r) => fields.every((f) => r.words.includes(f))
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
  const most = (node, of) => node.numbers.reduce((v, n) => {
    const x = store.stats[n] ? of(store.stats[n]) : null
    return x === null || (v !== null && v >= x) ? v : x
  }, null)
  return (node) => {
    const first = store.rows[node.numbers[0]]
    switch (key) {
      case 'name': return first?.rank ?? null
      case 'type': return first?.type ?? null
      case 'elements': return node.row.tensor || node.row.shape ? first?.elements ?? null : null
      case 'size': return (node.row.tensor ?? node.row).stored_bytes
      case 'zeros': return most(node, (s) => (s.error || !s.finite ? null : s.zeros / s.finite))
      case 'note': return node.numbers.reduce((v, n) => Math.max(v, store.rows[n]?.state ?? 0), 0)
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
  if (/[*?[{\\]/.test(q)) return { ...none, problem: 'A page in one file searches words alone. The model opened with tensormap explore is searched by patterns too.' }
  const all = store.rows.filter(Boolean)
  const found = q ? all.filter(matching(q, all)) : all
  const counts = new Map()
  for (const r of found) counts.set(r.type, (counts.get(r.type) ?? 0) + 1)
  const types = [...counts].map(([type, tensors]) => ({ show: type, tensors })).sort((a, b) => b.tensors - a.tensors || (a.show < b.show ? -1 : 1))
  const isOdd = (r) => r.state > 0
  const shows = [{ show: '', tensors: found.length }, ...types.slice(0, 6), { show: 'odd', tensors: found.filter(isOdd).length }]
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
