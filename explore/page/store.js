// @ts-check
// What the page knows: the model, its tensors, and their figures, which come while they are computed.
import { ask, host, problemOf } from './ask.js'
import { reals } from './format.js'

/** All that the views show. rows and stats are by tensor number; listed says that no more rows come by themselves; read is a promise of the first of both. */
export const store = {
  model: null, rows: [], listed: false, stats: [], findings: [], progress: null, problem: null, swapped: false, read: null,
}
const listeners = new Set()
let waiting = false
let took = 0 // milliseconds that the listeners needed last
let stop = new AbortController()

/** Calls f soon after something has changed, often enough to follow, and seldom enough to leave time for keys. Returns a function that ends that. */
export function listen(f) {
  listeners.add(f)
  return () => listeners.delete(f)
}

/** Tells the listeners that something has changed. */
export function changed() {
  if (waiting) return
  waiting = true
  setTimeout(() => {
    waiting = false
    const from = performance.now()
    for (const f of listeners) f()
    took = performance.now() - from
  }, Math.max(50, 4 * took))
}

/** Reads the model's description and its tensors, then its figures. Throws a Refusal if the model cannot be read. */
export async function load() {
  stop.abort()
  stop = new AbortController()
  Object.assign(store, { model: null, rows: [], listed: false, stats: [], findings: [], progress: null, problem: null, swapped: false })
  store.model = await (await ask('data/model')).json()
  store.read = Promise.all([rows(stop.signal).then(() => { store.listed = true; changed() }), compute(false)])
}

/** Reads what the index says of all tensors that the grid and its neighbour show. */
async function rows(signal) {
  const n = store.model.tensors
  try {
    for (let from = 0; from < n; from += 1000) {
      if (from >= 20000) return host === 'file' ? undefined : await rowsOf(store.model.outside.slice(0, 400)) // others are read as they are looked at
      const answer = await (await ask(`data/rows?numbers=${from}-${Math.min(n, from + 1000) - 1}`, { signal })).json()
      for (const r of answer.rows) store.rows[r.number] = r
      changed()
    }
  } catch (e) {
    fail(e)
  }
}

/** Reads what the index says of tensors, as far as it is not known: a few hundred at most. */
export async function rowsOf(numbers) {
  const missing = numbers.filter((n) => !store.rows[n])
  if (!missing.length) return
  const answer = await (await ask('data/rows?numbers=' + missing.join(','), { signal: stop.signal })).json()
  for (const r of answer.rows) store.rows[r.number] = r
  changed()
}

/** Reads figures as they are computed; exact reads all values where a sample was read first. */
export async function compute(exact) {
  const { signal } = stop
  store.progress = store.problem = null
  try {
    const reply = await ask('data/stats' + (exact ? '?exact=1' : ''), { signal })
    for await (const line of reply.lines()) {
      if (line.progress) store.progress = line.progress
      for (const s of line.stats ?? []) store.stats[s.number] = reals(s)
      if (line.findings) store.findings = line.findings
      if (line.error?.swapped && await isServed()) return compute(exact)
      if (line.error) store.problem = line.error
      changed()
    }
  } catch (e) {
    fail(e)
  }
  changed()
}

/** Asks for the model that is served, and returns whether the page shows it. If not, the page says so. Throws a Refusal. */
export async function isServed() {
  const { signal } = stop
  return (await (await ask('data/model', { signal })).json()).id === store.model.id
}

/** Keeps what went wrong, unless it is only that somebody left. */
function fail(e) {
  if (e.name === 'AbortError') return
  store.problem = problemOf(e)
  changed()
}

/** Ends all reading: the page is left. */
export function leave() {
  stop.abort()
}

const kept = new Map()

/** Asks for JSON of a tensor and keeps the last answers. */
export async function remember(path, signal) {
  if (kept.has(path)) return kept.get(path)
  const answer = await (await ask(path, { signal })).json()
  reals(answer.stat)
  if (!store.model?.compared || answer.db !== undefined || !answer.stat) keep(path, answer) // the comparison may add dB
  return answer
}

/** Asks for a picture: {rows, columns, high, wide, data} with the size of a tile. */
export async function picture(path, signal) {
  if (kept.has(path)) return kept.get(path)
  const reply = await ask(path, { signal })
  const [rows, columns, high, wide] = (reply.header('Tiles') ?? '0 0 1 1').split(' ').map(Number)
  const answer = { rows, columns, high, wide, data: await reply.bytes() }
  keep(path, answer)
  return answer
}

/** Keeps an answer in place of the oldest of many. */
function keep(path, answer) {
  if (kept.size > 60) kept.delete(kept.keys().next().value)
  kept.set(path, answer)
}

/** Forgets kept answers: another model is shown. */
export function forget() {
  kept.clear()
}
