const module_ask = (() => {
const inside = document.getElementById('answers')
const worker = document.querySelector('meta[name=host][content=worker]') ? new Worker('worker.js') : null
let answers = inside ? JSON.parse(inside.textContent || '{}') : null
const host = inside ? 'file' : worker ? 'worker' : 'server'
class Refusal extends Error {
constructor(problem, status) {
super(problem.text)
this.problem = problem
this.status = status
}
}
function problemOf(e) {
return e.problem ?? { text: 'The page met something unexpected.', line: String(e.stack ?? e), hint: '' }
}
let known = ''
let swapped = () => {}
function onSwap(f) {
swapped = f
}
function accept() {
known = ''
}
async function ask(path, { signal } = {}) {
const reply = await (host === 'file' ? fromFile(path) : host === 'worker' ? fromWorker(path, signal) : fromServer(path, signal))
const id = reply.header('Model')
if (id && known && id !== known) swapped()
if (id && !known) known = id
return reply
}
function explained(p) {
if (!/the browser cannot read it|the file is empty/.test(p.line)) return p
return { ...p, text: 'A file is empty or cannot be read: was it moved, removed or changed since it was given?', hint: 'Drop or choose it again.' }
}
function refuse(text, status) {
try {
return new Refusal(explained(JSON.parse(text)), status)
} catch {
return new Refusal({ text: status === 403 ? 'This page is no longer allowed to read the model. Open the address that the command printed.' : 'The answer cannot be understood.', line: text.slice(0, 500).trim(), hint: '' }, status)
}
}
async function* split(body) {
const reader = body.getReader(), decoder = new TextDecoder()
let rest = ''
try {
for (;;) {
const { done, value } = await reader.read()
rest += decoder.decode(value, { stream: !done })
const lines = rest.split('\n')
rest = lines.pop() ?? ''
for (const line of lines) if (line) yield JSON.parse(line)
if (done) break
}
if (rest) yield JSON.parse(rest)
} finally {
reader.cancel().catch(() => {})
}
}
async function fromServer(path, signal) {
let r
try {
r = await fetch(path, { signal, credentials: 'same-origin' })
} catch (e) {
if (e.name === 'AbortError') throw e
throw new Refusal({ text: 'The server does not answer.', line: String(e.message), hint: 'Is tensormap explore still running?' }, 0)
}
if (!r.ok) throw refuse(await r.text(), r.status)
return {
json: () => r.json(),
lines: () => split(r.body),
bytes: async () => new Uint8Array(await r.arrayBuffer()),
header: (name) => r.headers.get(name),
}
}
async function fromFile(path) {
const a = answers[decodeURIComponent(path)]
if (a === undefined) throw new Refusal({ text: 'This file was saved without that.', line: decodeURIComponent(path), hint: 'tensormap explore MODEL shows all.' }, 404)
return {
json: async () => a,
lines: async function* () {
for (const line of a) yield line
},
bytes: async () => Uint8Array.from(atob(a.bytes), (c) => c.charCodeAt(0)),
header: (name) => (name === 'Tiles' ? a.tiles : null),
}
}
const waiting = new Map()
let next = 1
worker?.addEventListener('message', ({ data }) => waiting.get(data.id)?.(data))
function tell(message) {
return new Promise((resolve) => {
const id = next++
waiting.set(id, (data) => {
waiting.delete(id)
resolve(data.problem ? { problem: explained(data.problem) } : data)
})
worker?.postMessage({ id, ...message })
})
}
async function fromWorker(path, signal) {
const id = next++
let control
const body = new ReadableStream({ start: (c) => { control = c }, cancel: stop })
function stop() {
waiting.delete(id)
worker?.postMessage({ id, stop: true })
}
const head = await new Promise((resolve, reject) => {
signal?.addEventListener('abort', () => {
if (!waiting.has(id)) return
stop()
const e = new DOMException('stopped', 'AbortError')
control.error(e)
reject(e)
})
waiting.set(id, (data) => {
if (data.status) resolve(data)
else if (data.chunk) control.enqueue(data.chunk)
else {
waiting.delete(id)
control.close()
}
})
worker?.postMessage({ id, path })
})
const whole = async () => new Uint8Array(await new Response(body).arrayBuffer())
if (head.status >= 400) throw refuse(new TextDecoder().decode(await whole()), head.status)
return {
json: async () => JSON.parse(new TextDecoder().decode(await whole())),
lines: () => split(body),
bytes: whole,
header: (name) => head.headers[name] ?? null,
}
}
return { host, Refusal, problemOf, onSwap, accept, ask, tell }
})()
const module_dom = (() => {
function el(tag, props, ...children) {
return fill(document.createElement(tag), tag === 'button' ? { type: 'button', ...props } : props, children)
}
function svg(tag, props, ...children) {
return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children)
}
function seen(text) {
return typeof text === 'string' ? text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')) : text
}
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
function faint(text) {
return el('span', { class: 'sub', text })
}
function rich(text) {
return text.split(/(\x60[^\x60]*\x60|\*\*.*?\*\*)/).filter(Boolean).map((s) => {
if (s.length > 1 && s.startsWith('\x60')) return el('b', { class: 'm', text: s.slice(1, -1) })
if (s.length > 4 && s.startsWith('**')) return el('b', null, ...rich(s.slice(2, -2)))
return document.createTextNode(s)
})
}
function scroller(label, ...children) {
return el('div', { class: 'box', role: 'region', tabindex: 0, 'aria-label': label }, ...children)
}
function kbd(key) {
return el('kbd', { text: key })
}
async function copy(text) {
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
function say(text) {
const said = document.getElementById('said')
if (!said) return
said.textContent = text
said.classList.remove('hidden')
clearTimeout(Number(said.dataset.timer))
said.dataset.timer = String(setTimeout(() => said.classList.add('hidden'), 2000))
}
function choice(box, label, options, taken, choose) {
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
function arrows(group, items, come) {
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
function atRest() {
return document.activeElement === document.body || document.activeElement?.id === 'main'
}
return { el, svg, seen, faint, rich, scroller, kbd, copy, say, choice, arrows, atRest }
})()
const module_format = (() => {
const thin = '\u202f'
const none = '–'
function grouped(x) {
const [whole, rest] = String(x).split('.')
return whole.replace(/\B(?=(\d{3})+$)/g, ',').replace('-', '−') + (rest === undefined ? '' : '.' + rest)
}
function number(x) {
if (x === null || x === undefined) return none
x = Number(x)
if (!Number.isFinite(x)) return Number.isNaN(x) ? 'NaN' : x < 0 ? '−∞' : '∞'
if (x === 0) return '0'
const a = Math.abs(x), sign = x < 0 ? '−' : ''
if (a < 1e-4 || a >= 1e9) {
const [m, e] = a.toExponential(2).split('e')
return sign + m + 'e' + e.replace('+', '').replace('-', '−')
}
const s = a.toPrecision(3)
return sign + grouped(s.includes('e') || a >= 999.5 ? Number(s) : s)
}
function reals(answer) {
for (const key in answer) if (key !== 'name' && (answer[key] === 'Infinity' || answer[key] === '-Infinity')) answer[key] = Number(answer[key])
return answer
}
function cell(x) {
if (!Number.isFinite(x)) return number(x)
const a = Math.abs(x)
return grouped(a < 9.95 ? (a < 0.05 ? '0.0' : x.toFixed(1)) : x.toFixed(0))
}
function count(n) {
if (n < 1e6) return grouped(n)
const [unit, by] = n < 999.5e6 ? ['M', 1e6] : n < 999.5e9 ? ['B', 1e9] : ['T', 1e12]
return number(n / by) + thin + unit
}
function bytes(n) {
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
let i = 0
while (n >= 1024 && i < 4) {
n /= 1024
i++
}
return (i === 0 ? grouped(n) : number(n)) + thin + units[i]
}
function percent(x) {
if (!Number.isFinite(x)) return number(x)
const p = 100 * x
if (p === 0 || p === 100) return p + thin + '%'
return (Math.abs(p) < 0.05 ? number(p) : grouped(p.toFixed(1))) + thin + '%'
}
function shape(dims) {
return dims ? (dims.length ? dims.join('×') : 'scalar') : ''
}
function named(name) {
return name.trim() ? name : '"' + name + '"'
}
function place(at) {
return '[' + at.join(', ') + ']'
}
function seconds(s) {
if (s < 0.1) return number(1000 * s) + thin + 'ms'
if (s < 120) return (s < 10 ? s.toFixed(2) : s.toFixed(0)) + thin + 's'
return Math.round(s / 60) + thin + 'min'
}
function pace() {
let marks = [[0, 0]]
return (share, at) => {
if (share < marks[marks.length - 1][0]) marks = [[0, 0]]
if (at > marks[marks.length - 1][1]) marks.push([share, at])
while (marks.length > 2 && at - marks[1][1] >= 1) marks.shift()
const took = at - marks[0][1], rate = (share - marks[0][0]) / took
return Math.floor(100 * share) + ' %' + (share > 0.02 && took > 0.3 && rate > 0 ? ' · about ' + seconds(Math.max(1, Math.round((1 - share) / rate))).replace('.00', '') + ' left' : '')
}
}
function things(n, one, many = one + 's') {
return count(n) + ' ' + (n === 1 ? one : many)
}
function quote(s) {
return /^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'"
}
return { thin, none, grouped, number, reals, cell, count, bytes, percent, shape, named, place, seconds, pace, things, quote }
})()
const module_scale = (() => {
const ramps = {
amount: {
light: '#ebf5fa #c5deeb #a0c7de #7cafd2 #5b96c6 #477db1 #34649c #254b87 #183372',
dark: '#1f2532 #2a3a50 #34506f #3b6890 #3e82b1 #569bc5 #6fb5d9 #8ad0ed #aee9fe',
},
odd: {
light: '#faf6e6 #ebd8b4 #e1b784 #d89359 #c9703f #af5241 #923842 #722040 #52093b',
dark: '#301f29 #502d39 #743c43 #984d45 #bb623e #cf8148 #e2a159 #f1c170 #ffe38d',
},
}
const dark = matchMedia('screen and (prefers-color-scheme: dark)')
const table = {}
function onTheme(f) {
dark.addEventListener('change', f)
}
function steps(ramp) {
const key = ramp + dark.matches
if (table[key]) return table[key]
const stops = ramps[ramp][dark.matches ? 'dark' : 'light'].split(' ').map((h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16)))
table[key] = Array.from({ length: 201 }, (_, i) => {
const x = (i / 200) * 8, k = Math.min(7, Math.floor(x))
return stops[k].map((a, j) => Math.round(a + (stops[k + 1][j] - a) * (x - k)))
})
return table[key]
}
function rgb(ramp, t) {
return steps(ramp)[Math.round(200 * Math.min(1, Math.max(0, t)))]
}
function colour(ramp, t) {
return 'rgb(' + rgb(ramp, t).join(' ') + ')'
}
function ink(ramp, t) {
const [r, g, b] = rgb(ramp, t).map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4))
const l = 0.2126 * r + 0.7152 * g + 0.0722 * b
return (l + 0.05) / 0.05 >= 1.05 / (l + 0.05) ? '#000' : '#fff'
}
function paint(node, ramp, t) {
node.style.background = colour(ramp, t)
node.style.color = ink(ramp, t)
}
function byLog(x, a, b) {
return b > a ? Math.log(Math.max(x, 1e-300) / a) / Math.log(b / a) : 0
}
function logTicks(a, b) {
const out = []
for (let e = Math.floor(Math.log10(a)); e <= Math.ceil(Math.log10(b)); e++) {
for (const m of [1, 2, 5]) {
const v = m * 10 ** e
if (v >= a * 0.999 && v <= b * 1.001) out.push(v)
}
}
return out.length > 8 ? out.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6) : out
}
function css(name) {
return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
return { onTheme, rgb, colour, ink, paint, byLog, logTicks, css }
})()
const module_store = (() => {
const { ask, host, problemOf } = module_ask
const { reals } = module_format
const store = {
model: null, rows: [], listed: false, stats: [], findings: [], progress: null, problem: null, swapped: false, read: null,
}
const listeners = new Set()
let waiting = false
let took = 0 // milliseconds that the listeners needed last
let stop = new AbortController()
function listen(f) {
listeners.add(f)
return () => listeners.delete(f)
}
function changed() {
if (waiting) return
waiting = true
setTimeout(() => {
waiting = false
const from = performance.now()
for (const f of listeners) f()
took = performance.now() - from
}, Math.max(50, 4 * took))
}
async function load() {
stop.abort()
stop = new AbortController()
Object.assign(store, { model: null, rows: [], listed: false, stats: [], findings: [], progress: null, problem: null, swapped: false })
store.model = await (await ask('data/model')).json()
store.read = Promise.all([rows(stop.signal).then(() => { store.listed = true; changed() }), compute(false)])
}
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
async function rowsOf(numbers) {
const missing = numbers.filter((n) => !store.rows[n])
if (!missing.length) return
const answer = await (await ask('data/rows?numbers=' + missing.join(','), { signal: stop.signal })).json()
for (const r of answer.rows) store.rows[r.number] = r
changed()
}
async function compute(exact) {
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
async function isServed() {
const { signal } = stop
return (await (await ask('data/model', { signal })).json()).id === store.model.id
}
function fail(e) {
if (e.name === 'AbortError') return
store.problem = problemOf(e)
changed()
}
function leave() {
stop.abort()
}
const kept = new Map()
async function remember(path, signal) {
if (kept.has(path)) return kept.get(path)
const answer = await (await ask(path, { signal })).json()
reals(answer.stat)
if (!store.model?.compared || answer.db !== undefined || !answer.stat) keep(path, answer) // the comparison may add dB
return answer
}
async function picture(path, signal) {
if (kept.has(path)) return kept.get(path)
const reply = await ask(path, { signal })
const [rows, columns, high, wide] = (reply.header('Tiles') ?? '0 0 1 1').split(' ').map(Number)
const answer = { rows, columns, high, wide, data: await reply.bytes() }
keep(path, answer)
return answer
}
function keep(path, answer) {
if (kept.size > 60) kept.delete(kept.keys().next().value)
kept.set(path, answer)
}
function forget() {
kept.clear()
}
return { store, listen, changed, load, rowsOf, compute, isServed, leave, remember, picture, forget }
})()
const module_route = (() => {
function read() {
const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
const [view, ...rest] = path.split('/')
const params = new URLSearchParams(query ?? '')
let name = rest.join('/')
try {
name = decodeURIComponent(name)
} catch { /* a name that is no encoding is itself */ }
return { view: view || 'overview', name, params }
}
function link(view, params, name) {
const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== '' && v !== null && v !== undefined)).toString()
return '#/' + (view === 'overview' ? '' : view) + (name === undefined ? '' : '/' + encodeURIComponent(name)) + (query ? '?' + query : '')
}
function tensorLink(name, params) {
return link('t', params, name)
}
function go(address) {
if (location.hash === address) return
location.hash = address
}
let steps = -1 // that lie behind within this page
step()
function step() {
steps = history.state?.steps ?? steps + 1
history.replaceState({ ...history.state, steps }, '')
}
function back() {
if (steps > 0) {
steps--
history.back()
} else if (read().view !== 'overview') go('#/')
}
function put(params) {
const s = read()
for (const [k, v] of Object.entries(params)) {
if (v === '' || v === null || v === undefined) s.params.delete(k)
else s.params.set(k, v)
}
history.replaceState(history.state, '', link(s.view, Object.fromEntries(s.params), s.view === 't' ? s.name : undefined))
}
return { read, link, tensorLink, go, step, back, put }
})()
const module_measures = (() => {
const { byLog, logTicks } = module_scale
const { bytes, cell, number, percent, thin } = module_format
function at(sorted, share) {
return sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))]
}
function broken(stat) {
return Boolean(stat && ((stat.error && stat.kind !== 'no values') || stat.nan > 0 || stat.pos_inf > 0 || stat.neg_inf > 0))
}
function allZero(stat) {
return Boolean(stat && !stat.sampled && stat.finite > 0 && stat.zeros === stat.finite)
}
function spreads(stat) {
return stat.std > 0 && Number.isFinite(stat.std)
}
function bound(stat, sign = '≥') {
return stat?.sampled && sign ? sign + ' ' : ''
}
const zeroShare = (s) => (s.finite ? s.zeros / s.finite : null)
const measures = [
{
key: 'size', name: 'Size', title: 'Size', sub: 'bytes in the file, all parts of a weight', ramp: 'amount', foot: 'bytes, log scale; a mark for each tensor',
value: (row) => row && row.stored_bytes, text: (v) => bytes(v).replace('iB', ''), long: bytes, short: bytes, bound: '', add: true,
domain: (v) => [v.find((x) => x > 0) ?? 1, v[v.length - 1]], log: true, needs: 'row',
},
{
key: 'bits', name: 'Bits', title: 'Bits per weight', sub: '8 × stored bytes ÷ values', ramp: 'amount', foot: 'bits per weight, log scale from 1 to 32; a mark for each tensor',
value: (row) => row && (row.elements ? (8 * row.stored_bytes) / row.elements : null), text: number, long: (v) => number(v) + ' bits per weight', short: number, bound: '',
domain: () => [1, 32], log: true, ticks: [1, 2, 4, 8, 16, 32], tick: String, needs: 'row',
},
{
key: 'std', name: 'σ', title: 'Standard deviation σ', sub: 'of a tensor’s values around their mean', ramp: 'amount', foot: 'σ, log scale, clamped to the 2nd … 98th percentile of this model’s matrices; a mark for each tensor',
value: (row, stat) => stat && (stat.error ? null : stat.std), text: number, long: (v) => 'σ ' + number(v), short: number, bound: '≈',
domain: (v) => { const w = v.filter((x) => x > 0); return w.length ? [at(w, 0.02), at(w, 0.98)] : [0.01, 1] }, log: true,
},
{
key: 'max_sigma', name: 'Max in σ', title: 'Largest value in σ', sub: '|x − mean| ÷ σ of its tensor', bold: '; bold: ≥ 10 × what Gaussian values of that count reach', ramp: 'odd', foot: 'σ, log scale, clamped to 4…256; a mark for each tensor',
value: (row, stat) => stat && (stat.error ? null : stat.max_sigma), text: cell, long: (v) => cell(v) + thin + 'σ', short: cell, unit: 'σ', bound: '≥',
domain: () => [4, 256], log: true, ticks: [4, 8, 16, 32, 64, 128, 256], tick: String,
},
{
key: 'zeros', name: 'Zeros', title: 'Share of zeros', sub: 'values that are exactly 0', ramp: 'odd', foot: 'share of zeros, log scale from 0.01 % to 100 %; a mark for each tensor',
value: (row, stat) => stat && (stat.error ? null : zeroShare(stat)), text: zeroText, long: (v) => percent(v) + ' zeros', short: (v) => zeroText(v) + thin + '%', unit: '%', bound: '≈',
domain: () => [1e-4, 1], log: true, ticks: [1e-4, 1e-3, 1e-2, 0.1, 1], tick: percent,
},
]
function zeroText(v) {
const p = 100 * v
return p === 0 ? '0' : p < 0.01 ? '<0.01' : p < 1 ? String(Number(p.toPrecision(2))) : cell(p)
}
function measure(key) {
return measures.find((m) => m.key === key) ?? measures[3]
}
function domain(m, grid, rows, stats) {
const lines = grid.groups.flatMap((g) => g.rows), matrices = lines.filter((r) => !r.vector)
const numbersOf = (list) => list.flatMap((r) => r.cells.flat())
const values = (numbers) => Array.from(numbers, (n) => m.value(rows[n], stats[n])).filter(Number.isFinite)
const numbers = numbersOf(lines), all = values(numbers)
const scale = m.domain.length ? values(m.add ? rows.keys() : matrices.length ? numbersOf(matrices) : numbers).sort((a, b) => a - b) : []
const [low, high] = m.domain(scale.length ? scale : [1, 2])
const least = all.reduce((a, b) => Math.min(a, b), Infinity), most = all.reduce((a, b) => Math.max(a, b), -Infinity)
return { low, high, least, most, same: all.length > 1 && most - least <= 1e-3 * Math.abs(most), empty: all.length === 0, sampled: numbers.some((n) => stats[n]?.sampled) }
}
function position(m, d, v) {
if (d.same && m.ramp === 'amount') return 0.12
if (v === 0) return 0
const t = m.log ? byLog(v, d.low, d.high) : (v - d.low) / (d.high - d.low)
return Math.min(1, Math.max(0, t))
}
function ticks(m, d) {
return m.ticks ?? (m.log ? logTicks(d.low, d.high) : [])
}
function range(m, d) {
if (d.empty) return ''
const sign = bound(d, m.bound)
if (m.key === 'zeros' && d.most === 0 && !sign) return 'none'
if (d.same) return 'all ' + sign + m.short(d.most)
let low = m.short(d.least)
const high = m.short(d.most), unit = high.split(thin)[1]
if (unit && low.endsWith(thin + unit)) low = low.split(thin)[0]
else if (m.key === 'size' && d.least * 1000 < d.most) return 'up to ' + high
else if (m.key === 'size') low = number((d.least / d.most) * parseFloat(high.replace(',', '')))
return sign + low + '–' + high
}
function summary(m, numbers, rows, stats) {
let worst, value, known = 0, bad = -1, zeros = 0, sum = 0
for (const n of numbers) {
const row = rows[n], stat = stats[n]
if (broken(stat)) bad = n
if (allZero(stat)) zeros++
const v = m.value(row, stat)
if (v === undefined) continue
known++
if (v === null) continue
sum += v
if (value === undefined || v > value) {
value = v
worst = n
}
}
if (m.add && value !== undefined) value = sum
const stat = worst === undefined ? null : stats[worst]
return { worst, value, known, bad, zeros, stat, blank: known === 0 && bad < 0, partly: known < numbers.length }
}
return { broken, allZero, spreads, bound, measures, measure, domain, position, ticks, range, summary }
})()
const module_grid = (() => {
const { el } = module_dom
const { allZero, bound, position, summary } = module_measures
const { shape, thin, things } = module_format
const { colour, css, paint } = module_scale
const canvasFrom = 2000
function merged(list, most) {
const per = Math.ceil(list.length / Math.max(1, most))
return per < 2 ? list : Array.from({ length: Math.ceil(list.length / per) }, (_, i) => list.slice(i * per, (i + 1) * per).flat())
}
function binned(grid, wide) {
const most = Math.max(100, Math.floor(wide)), binned = Math.ceil(grid.layers.length / most)
if (binned < 2) return grid
const layers = merged(grid.layers.map((l) => [l]), most).map((l) => (l.length > 1 ? l[0] + '–' + l[l.length - 1] : l[0]))
return { ...grid, binned, layers, groups: grid.groups.map((g) => ({ ...g, rows: g.rows.map((r) => ({ ...r, cells: merged(r.cells, most) })) })) }
}
function layerGrid(o) {
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
function cellNode(line, numbers, r, c) {
const cell = el('div', { class: 'c' + (numbers.length ? '' : ' none'), role: 'gridcell', tabindex: -1, 'aria-colindex': c + 2, 'data-r': r, 'data-c': c })
line.append(cell)
return cell
}
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
function scrolled() {
const all = box.scrollWidth, seen = box.clientWidth, column = (i) => o.grid.layers[Math.max(0, Math.min(n - 1, i))]
hint.hidden = all < seen + 8
box.classList.toggle('more', !hint.hidden && box.scrollLeft + seen < all - 8)
if (!hint.hidden) hint.textContent = `Layers ${column(Math.ceil((box.scrollLeft / all) * n))} to ${column(Math.floor(((box.scrollLeft + seen) / all) * n) - 1)} are in view. Scroll sideways for the others, up to ${o.grid.layers[n - 1]}.`
}
function labelWidth() {
const w = parseFloat(getComputedStyle(node).getPropertyValue('--label'))
return Number.isFinite(w) ? w : 248
}
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
function fits(text) {
return text.length * 6.7 + 4 <= wide
}
function mark(cell, r, c) {
const numbers = rows[r].cells[c]
const isNow = numbers.includes(now)
cell.classList.toggle('sel', !isNow && numbers.some((x) => marked.has(x)))
cell.classList.toggle('now', isNow)
cell.setAttribute('aria-selected', String(isNow || numbers.some((x) => marked.has(x))))
}
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
function write() {
const look = wide < 28 && looks[at[0]]?.[at[1]]
written.hidden = !look && !key
written.replaceChildren(...(look ? [el('b', { text: 'layer ' + o.grid.layers[at[1]] + ' · ' + rows[at[0]].role }), ' · ' + look.name] : []), look && key ? el('br') : '', key)
}
function move(r, c, focus) {
if (!rows[r]) return
at = [r, Math.max(0, Math.min(n - 1, c))]
const cell = focusable()
if (focus) cell?.focus()
write()
}
function find(number) {
for (let r = 0; r < rows.length; r++) {
const c = rows[r].cells.findIndex((x) => x.includes(number))
if (c >= 0) return [r, c]
}
return null
}
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
function outline(g, x, y, w, h, bad) {
g.strokeStyle = css(bad ? '--bad' : '--warn')
g.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), Math.max(0, h - 1))
if (!bad) return
g.beginPath()
g.moveTo(x, y)
g.lineTo(x + w, y + h)
g.stroke()
}
function lookAt(m, d, rows, stats) {
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
return { merged, binned, layerGrid, outline, lookAt }
})()
const module_figure = (() => {
const { el, rich, svg } = module_dom
const { cell, grouped, none, pace, thin, things } = module_format
const { merged } = module_grid
const { bound, domain, measure, position, range, summary, ticks } = module_measures
const { colour, css, paint, byLog } = module_scale
const bins = 89
const reach = Math.asinh(128)
function edge(i) {
return 2 * Math.sinh(-reach + (2 * reach * i) / bins)
}
function along(z) {
return Math.min(1, Math.max(0, (Math.asinh(z / 2) + reach) / (2 * reach)))
}
function beyond(histogram, z) {
let i = 45
while (i < bins && Math.abs(edge(i + 1) - z) < Math.abs(edge(i) - z)) i++
let sum = 0
for (let k = i; k < bins; k++) sum += histogram[k] + histogram[bins - 1 - k]
return [edge(i), sum]
}
function histogram(stat, wide, high, large) {
const left = large ? 40 : 0, bottom = high - (large ? 28 : 24), top = large ? 12 : 20, right = large ? 8 : 0
const x = (z) => left + (wide - left - right) * along(z)
const most = Math.max(1, ...stat.sigma_histogram)
const decades = Math.max(1, Math.ceil(Math.log10(most * 1.0001)))
const y = (n) => (n > 0 ? bottom - (bottom - top) * ((Math.log10(n) + 0.18) / (decades + 0.18)) : bottom)
const g = svg('svg', { viewBox: `0 0 ${wide} ${high}`, width: '100%', class: 'figure', role: 'img', 'aria-label': sentence(stat) })
if (large) {
for (let d = 0; d <= decades; d++) {
const v = 10 ** d
g.append(svg('line', { class: 'gl', x1: left, x2: wide - right, y1: y(v), y2: y(v) }), svg('text', { class: 'k e', x: left - 6, y: y(v) + 4, text: v >= 1e6 ? v / 1e6 + 'M' : v >= 1000 ? v / 1000 + 'k' : v }))
}
}
g.append(svg('line', { class: 'ax', x1: left, x2: wide - right, y1: bottom, y2: bottom }))
const m = measure('max_sigma')
stat.sigma_histogram.forEach((n, i) => {
if (!n) return
const a = x(edge(i)), b = x(edge(i + 1)), far = stat.excess >= 4 && Math.max(-edge(i + 1), edge(i)) >= (3.9 * stat.max_sigma) / stat.excess
const bar = svg('rect', { class: 'bars', x: (a + 0.5).toFixed(1), y: y(n).toFixed(1), width: Math.max(0.8, b - a - 1).toFixed(1), height: Math.max(2, bottom - y(n)).toFixed(1) })
if (far) bar.style.fill = colour('odd', Math.max(0.35, byLog(Math.abs(edge(i < 44 ? i + 1 : i)), 4, 256)))
g.append(bar)
})
if (large && stat.gaussian) {
const points = stat.gaussian.map((n, i) => (n >= 0.7 ? x((edge(i) + edge(i + 1)) / 2).toFixed(1) + ',' + y(n).toFixed(1) : '')).filter(Boolean)
g.append(svg('polyline', { class: 'ln', points: points.join(' ') }), svg('text', { class: 'a', x: x(2.2), y: top + 16, text: 'Gaussian' + (wide > 600 ? ' of the same σ' : '') }))
}
const marks = large && wide > 600 ? [-128, -64, -32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32, 64, 128] : [-64, -16, -4, 0, 4, 16, 64]
for (const z of marks) g.append(svg('line', { class: 'ax', x1: x(z), x2: x(z), y1: bottom, y2: bottom + 4 }), svg('text', { class: 'k c', x: x(z), y: bottom + 18, text: String(z).replace('-', '−') }))
if (stat.excess >= 4 && stat.max_sigma) {
const n = outermost(stat), px = (x(edge(n.bin)) + x(edge(n.bin + 1))) / 2
const ty = !large ? 16 : wide > 600 ? Math.max(top + 40, y(1) - 36) : top + 32
const far = px > wide * 0.6
g.append(svg('text', { class: far ? 'b e' : 'b', x: far ? Math.min(wide, px + 8) : Math.max(left, px - 8), y: ty, text: things(n.count, 'value') + (large ? ' at ' : ', ') + cell(stat.max_sigma) + thin + 'σ' }),
svg('line', { class: 'ax', x1: px, x2: px, y1: ty + 5, y2: Math.max(ty + 6, y(n.count) - 4) }))
}
return g
}
function outermost(stat) {
const low = stat.sigma_histogram.findIndex((n) => n > 0), high = bins - 1 - [...stat.sigma_histogram].reverse().findIndex((n) => n > 0)
const side = stat.max - stat.mean >= stat.mean - stat.min ? 1 : -1
const bin = side > 0 ? high : low
return { bin, count: stat.sigma_histogram[bin] }
}
function sentence(stat) {
const [z6, n6] = beyond(stat.sigma_histogram, 6)
return `Histogram by σ, counts on a log axis: ${grouped(n6)} values beyond ${cell(z6)} σ, the furthest at ${stat.max_sigma === null ? none : cell(stat.max_sigma)} σ`
}
function legend(m, d, values, wide) {
const w = Math.max(160, wide - 16), g = svg('svg', { width: w + 16, height: 52, role: 'img', 'aria-label': 'Scale: ' + m.foot })
const inner = svg('g', { transform: 'translate(8,0)' })
const columns = Math.floor(w / 4), stack = new Array(columns).fill(0)
for (const v of values) stack[Math.min(columns - 1, Math.floor((m.reversed ? 1 - position(m, d, v) : position(m, d, v)) * columns))]++
const most = Math.max(...stack, 1), each = Math.max(1, Math.ceil(most / 20)), high = Math.min(2.25, 20 / Math.ceil(most / each))
stack.forEach((n, i) => {
const k = Math.ceil(n / each)
if (k) inner.append(svg('path', { class: 'nl', 'stroke-width': 3, 'stroke-dasharray': `${high * 0.67} ${high * 0.33}`, d: `M${i * 4 + 2} 20v${-(k * high)}` }))
})
const steps = 52
for (let i = 0; i < steps; i++) inner.append(svg('rect', { x: (i * w) / steps, y: 22, width: w / steps + 0.3, height: 10, fill: colour(m.ramp, m.reversed ? 1 - (i + 0.5) / steps : (i + 0.5) / steps) }))
const all = ticks(m, d)
all.forEach((v, i) => {
const x = position(m, d, v) * w
const t = m.reversed ? w - x : x
inner.append(svg('line', { class: 'ax', x1: t, x2: t, y1: 32, y2: 36 }), svg('text', { class: 'k' + (t < 8 ? '' : t > w - 8 ? ' e' : ' c'), x: t, y: 48, text: m.tick ? m.tick(v) : m.short(v) }))
})
g.append(inner)
return el('div', { class: 'legend' }, g, el('p', { class: 'sub', css: { 'padding-left': '8px' }, text: m.foot.replace('for each tensor', each > 1 ? 'for up to ' + each + ' tensors' : 'for each tensor') }))
}
function drawThumb(canvas, m, grid, rows, stats) {
const lines = grid.groups.flatMap((g) => g.rows).filter((r) => !r.vector)
const show = lines.length ? lines : grid.groups.flatMap((g) => g.rows)
const d = domain(m, grid, rows, stats)
const k = devicePixelRatio || 1, w = canvas.clientWidth || 120, h = 48
canvas.width = w * k
canvas.height = h * k
const g = canvas.getContext('2d')
g.scale(k, k)
const columns = Math.ceil(grid.layers.length / Math.ceil(grid.layers.length / w))
const cw = w / columns, ch = h / show.length, gap = cw > 6 ? 1 : 0
show.forEach((row, r) => merged(row.cells, w).forEach((cellNumbers, c) => {
if (!cellNumbers.length) return
const s = summary(m, cellNumbers, rows, stats)
g.fillStyle = s.bad >= 0 && m.needs !== 'row' ? css('--bad') : s.value === undefined ? css('--void') : colour(m.ramp, position(m, d, m.add ? rows[s.worst].stored_bytes : s.value))
const high = Math.max(1, ch - (ch > 4 ? 1 : 0))
g.fillRect(c * cw, r * ch, cw - gap, high)
if (s.bad >= 0 && m.needs !== 'row' && cw > 8) {
g.strokeStyle = css('--bg')
g.beginPath()
g.moveTo(c * cw, r * ch)
g.lineTo((c + 1) * cw - gap, r * ch + high)
g.stroke()
}
}))
return range(m, d)
}
function meter() {
const words = el('span'), left = el('span', { class: 'sp sub' }), said = el('p', { class: 'hidden', role: 'status' }), bar = el('i'), ahead = pace()
const node = el('div', { hidden: true }, el('div', { 'aria-hidden': 'true' }, el('div', { class: 'row t16' }, words, left), el('div', { class: 'prog' }, bar)), said)
let last = 0
return {
node,
show(share, at, text) {
node.hidden = share === null
if (share === null) return
bar.style.width = (100 * share).toFixed(1) + '%'
words.replaceChildren(...rich(text))
left.textContent = ahead(share, at)
if (Date.now() - last < 2000) return
last = Date.now()
said.textContent = words.textContent + ', ' + left.textContent
},
}
}
function chip(m, d, value, stat) {
if (value === undefined) return el('span', { class: 'chip' })
if (value === null) return el('span', { class: 'chip', text: none })
const node = el('span', { class: 'chip', text: bound(stat, m.bound) + m.text(value) + (m.unit ? thin + m.unit : '') })
paint(node, m.ramp, position(m, d, value))
return node
}
function sigmaChip(stat) {
const m = measure('max_sigma')
if (stat && stat.error && stat.kind !== 'no values') return el('span', { class: 'chip', css: { color: 'var(--bad)' }, text: '✕', 'aria-label': 'damaged' })
return chip(m, { low: 4, high: 256 }, m.value(null, stat), stat)
}
return { edge, beyond, histogram, legend, drawThumb, meter, chip, sigmaChip }
})()
const module_aside = (() => {
const { copy, el, kbd, say, svg } = module_dom
const { beyond, histogram } = module_figure
const { bytes, grouped, named, none, number, percent, place, shape } = module_format
const { bound, spreads } = module_measures
const { rgb } = module_scale
const { picture, remember, store } = module_store
const { tensorLink } = module_route
function paintTiles(canvas, p, as) {
canvas.width = Math.max(1, p.columns)
canvas.height = Math.max(1, p.rows)
const g = canvas.getContext('2d'), image = g.createImageData(canvas.width, canvas.height)
for (let i = 0; i < p.data.length; i++) {
const v = p.data[i]
const [r, b, c] = v === 255 ? [179, 38, 30] : as === 'mean' ? rgb('odd', Math.abs(v - 127) / 127) : rgb('odd', v / 254)
image.data.set([r, b, c, 255], 4 * i)
}
g.putImageData(image, 0, 0)
}
function pairs(list, small) {
return el('dl', { class: 'kv' + (small ? ' sm' : '') }, list.flatMap(([k, v]) => [el('dt', { text: k }), el('dd', { text: v })]))
}
function figures(stat, all) {
if (stat.error) return [['figures', stat.kind === 'no values' ? none : 'cannot be read']]
const p = stat.percentiles ?? {}, at = stat.max_sigma_at, s = bound(stat), near = bound(stat, '≈')
const high = stat.max - stat.mean >= stat.mean - stat.min
const where = (here) => (here && at && at.length && stat.max_sigma ? ' at ' + place(at) : '')
const out = [['largest', s + number(stat.max) + where(high)]]
if (all) for (const k of ['99.9', '99', '50', '1', '0.1']) if (k in p) out.push([k === '50' ? 'median' : k + ' %', number(p[k])])
out.push(['smallest', bound(stat, '≤') + number(stat.min) + where(!high)])
if (all) out.push(['mean, σ', number(stat.mean) + ', ' + number(stat.std)])
else out.push(['σ', near + number(stat.std)], ['mean', near + number(stat.mean)], ['0.1 – 99.9 %', near + number(p['0.1']) + ' … ' + number(p['99.9'])])
if (all) out.push(['kurtosis', number(stat.kurtosis)])
if (stat.sigma_histogram?.length) {
const [z6, n6] = beyond(stat.sigma_histogram, 6), [z20, n20] = beyond(stat.sigma_histogram, 20)
out.push([`beyond ${z6.toFixed(1)} σ, ${z20.toFixed(0)} σ`, grouped(n6) + ', ' + grouped(n20) + (all ? '' : ' values')])
}
if (!all) out.push(['kurtosis', (stat.kurtosis === null ? '' : near) + number(stat.kurtosis)])
out.push(['zeros', s + grouped(stat.zeros) + (stat.zeros && stat.finite ? ' (' + bound(stat, '≈') + percent(stat.zeros / stat.finite) + ')' : '')])
if (all || stat.nan || stat.pos_inf || stat.neg_inf) out.push(['NaN, infinite', s + grouped(stat.nan) + ', ' + s + grouped(stat.pos_inf + stat.neg_inf)])
return out
}
async function copyGo(name) {
try {
copy((await remember('data/tensor?name=' + encodeURIComponent(name))).go)
} catch (e) {
say(e.problem?.text ?? String(e))
}
}
function aside() {
const node = el('aside', { class: 'side', 'aria-label': 'Focused tensor' }, el('p', { class: 'sub', text: 'Point at a cell, or move to it: its figures stand here.' }))
let stop = new AbortController(), timer = 0, shown = -1, path = '', waiting = null
function show(number) {
if (number === shown || number === undefined || number < 0) return
const row = store.rows[number]
if (!row) return
shown = number
stop.abort()
stop = new AbortController()
const { signal } = stop
const body = el('div')
waiting = body
path = 'data/tensor?name=' + encodeURIComponent(row.name)
const short = row.layer >= 0 && row.role ? row.name.slice(row.name.indexOf('.' + row.role.split('{')[0]) + 1) : row.name
node.replaceChildren(
el('h3', { text: row.role && row.layer >= 0 ? 'Layer ' + row.layer + (row.expert >= 0 ? ', expert ' + row.expert : '') : row.part || 'Tensor' }),
el('p', { class: 'm', text: named(short), title: row.name }),
el('p', { class: 'sub', text: [row.type, shape(row.shape), grouped(row.elements) + ' values', bytes(row.stored_bytes)].join(' · ') }),
body,
el('div', { class: 'btns' }, el('a', { class: 'btn p', href: tensorLink(row.name) }, 'Open ', kbd('↵')), el('button', { class: 'btn', click: () => copyGo(row.name) }, 'Copy Go ', kbd('c'))))
clearTimeout(timer)
timer = setTimeout(update, 120)
}
function update() {
const p = store.progress, s = store.stats[shown]
if (!waiting) return
if ((s && !s.sampled) || p?.share >= 1) {
fetchFigures(store.rows[shown], waiting, stop.signal)
waiting = null
} else if (s && !waiting.firstChild) waiting.append(pairs(figures(s, false)), el('p', { class: 'sub', text: 'Of a sample. Opened, the tensor has all its values read.' }))
}
async function fetchFigures(row, body, signal) {
const name = encodeURIComponent(row.name)
try {
const t = await remember(path, signal)
if (signal.aborted) return
body.replaceChildren()
const s = t.stat
if (s.error) {
body.append(el('p', { class: 'note' + (s.kind === 'no values' ? '' : ' bad'), text: s.error }))
return
}
if (s.sigma_histogram?.length && spreads(s)) body.append(histogram(s, innerWidth > 1000 ? 280 : Math.min(480, innerWidth - 32), 96, false), el('p', { class: 'sub', text: 'σ on an asinh axis, count on a log axis' }))
body.append(pairs(figures(s, false)))
if (t.matrix_rows > 1 && t.matrix_columns > 1 && spreads(s)) {
const p = await picture(`data/picture?name=${name}&as=max`, signal)
if (!signal.aborted) body.append(...matrix(t, p))
}
} catch (e) {
if (e.name !== 'AbortError') body.append(el('p', { class: 'note', text: e.problem?.text ?? String(e) }))
}
}
function matrix(t, p) {
const canvas = el('canvas', { role: 'img', 'aria-label': 'Matrix, largest value in row ' + (t.stat.max_sigma_at?.[0] ?? none) })
paintTiles(canvas, p, 'max')
const high = Math.min(200, Math.max(40, (280 * t.matrix_rows) / t.matrix_columns))
canvas.style.height = high + 'px'
const at = t.stat.max_sigma_at, column = at && flat(at, t.shape)
const ring = svg('svg', { 'aria-hidden': 'true' })
if (at) ring.append(svg('circle', { class: 'ring', cx: (100 * (column + 0.5)) / t.matrix_columns + '%', cy: (100 * (at[0] + 0.5)) / t.matrix_rows + '%', r: 6 }))
const tile = p.high * p.wide > 1 ? ` of ${p.high}×${p.wide} values` : ''
return [el('h3', { class: 'next' }, 'Matrix ', el('span', { text: 'largest |x|' + tile + ', in σ' })), el('div', { class: 'picture' }, canvas, ring),
el('p', { class: 'sub t4', text: grouped(t.matrix_rows) + ' rows × ' + grouped(t.matrix_columns) + ' columns' + (at ? '; circle: ' + place(at) : '') })]
}
return { node, show, update, copyGo: () => { if (shown >= 0) copyGo(store.rows[shown].name) }, leave: () => { stop.abort(); clearTimeout(timer) }, shown: () => shown }
}
function flat(at, dims) {
let c = 0
for (let i = 1; i < at.length; i++) c = c * dims[i] + at[i]
return c
}
return { paintTiles, pairs, figures, copyGo, aside, flat }
})()
const module_findings = (() => {
const { arrows, el, rich } = module_dom
const { things } = module_format
const glyphs = { 3: ['✕', 'damaged'], 2: ['▲', 'strong'], 1: ['△', 'mild'], 0: ['✓', 'fine'] }
function findingsList(label, choose, open = choose) {
const list = el('ul', { class: 'odd', role: 'listbox', 'aria-label': label, hidden: true })
const fine = el('ul', { class: 'odd', hidden: true, css: { 'margin-top': '-1px' } })
const more = el('button', { class: 'link', hidden: true, click: () => { unfold(); list.children[few]?.focus() } })
let all = [], whole = false, chosen = -1, key = '', done = true
const few = innerWidth <= 600 ? 4 : 5
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
function unfold() {
whole = true
draw()
}
function item(f, i) {
const [glyph, word] = glyphs[f.severity] ?? glyphs[1]
return el('li', { class: 's' + f.severity, role: i < 0 ? null : 'option', tabindex: i < 0 ? null : -1, 'data-key': String(i), 'aria-selected': i < 0 ? null : 'false', click: i < 0 ? null : () => pick(i, open) },
el('span', { class: 'g', role: 'img', 'aria-label': word, text: glyph }), el('p', null, ...rich(f.text)), el('span', { class: 'sub ev', text: done || f.severity === 0 ? f.evidence : f.evidence || 'so far' }))
}
function pick(i, then = choose) {
chosen = i
mark()
then(all.filter((f) => f.severity > 0)[i])
}
function mark() {
if (chosen >= few && !whole) return unfold()
list.querySelectorAll('[role=option]').forEach((x, i) => {
x.setAttribute('aria-selected', String(i === chosen))
x.setAttribute('tabindex', i === Math.max(0, chosen) ? '0' : '-1')
})
}
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
return { findingsList }
})()
const module_experts = (() => {
const { el, svg } = module_dom
const { cell, thin } = module_format
const { outline } = module_grid
const { allZero, bound, broken, measure, position } = module_measures
const { colour, css } = module_scale
const { store } = module_store
const side = 6
function height(r) {
return (innerWidth <= 600 ? 108 : 0) + Math.max(120, r.experts * size(r) + 40)
}
function size(r) {
return r.experts > 64 ? 3 : side
}
function layerExperts(r, top, open, all) {
const n = r.by_layer.length, h = size(r), w = 192 / n
const canvas = el('canvas', { width: 192 * 2, height: r.experts * h * 2, tabindex: 0, role: 'application', 'aria-roledescription': 'map' })
Object.assign(canvas.style, { width: '192px', height: r.experts * h + 'px' })
const g = canvas.getContext('2d')
g.scale(2, 2)
let at = [0, 0]
const words = el('p', { class: 'sub' })
const number = (l, e) => r.by_layer[l]?.[e]
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
return { layerExperts }
})()
const module_saved = (() => {
const { ask } = module_ask
const { store } = module_store
function matching(q, rows) {
const fields = (' ' + q.toLowerCase()).replace(/(?<!\d)0+(?=\d)/g, '')
.replace(/\s(?:(h|[a-z]*(?:layers?|blocks?|blk))|[a-z]*experts?)[^a-z\d]*(\d+)(?!\S)/g, (_, layer, n) => ` ${layer ? 'layer' : 'expert'}.${n}`)
.split(/\s+/).map((f) => f.match(/\d+|[a-z\u0080-\uffff]+/g)).filter(Boolean).map((words) => {
const whole = ' ' + words.join(' ') + ' '
return /\d $/.test(whole) || rows.some((r) => r.words.includes(whole)) ? whole : whole.trimEnd()
})
return (r) => fields.every((f) => r.words.includes(f))
}
function leaf(r, depth) {
const row = { id: '', name: r.name, depth, open: false, matched: [], tensor: r, note: store.stats[r.number]?.kind ?? '' }
return { row, numbers: [r.number], inside: [] }
}
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
function sorted(nodes, of, sign) {
return nodes.map((node) => ({ node, v: of(node) })).sort((a, b) => {
if (a.v === null || b.v === null) return (a.v === null ? 1 : 0) - (b.v === null ? 1 : 0)
return (a.v < b.v ? -1 : a.v > b.v ? 1 : 0) * sign
}).map((k) => k.node)
}
async function savedList({ q, group, sort, show, open }) {
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
return { savedList }
})()
const module_list = (() => {
const { copyGo } = module_aside
const { ask, host } = module_ask
const { atRest, choice, el, faint, kbd, svg } = module_dom
const { sigmaChip, chip } = module_figure
const { bytes, grouped, named, none, number, shape, things } = module_format
const { layerExperts } = module_experts
const { findingsList } = module_findings
const { merged } = module_grid
const { allZero, bound, broken, measure, position } = module_measures
const { colour } = module_scale
const { savedList } = module_saved
const { listen, rowsOf, store } = module_store
const { go, put, read, tensorLink } = module_route
const windowSize = 60
const sorts = [['name', 'name', 'l'], ['', 'largest, by layer', 'l strip0'], ['type', 'dtype', 'l'], ['elements', 'shape', ''], ['size', 'size', ''], ['std', 'σ', ''], ['max_sigma', 'max in σ', ''], ['', 'note', 'l']]
function cell(css, ...children) {
return el('span', { class: 'lc ' + css, role: 'gridcell' }, ...children)
}
function listView(main, inside) {
let q = '', group = '', sort = '', show = '', open = new Set()
let high = 28 // of a row: in a narrow window it has a second line
let rows = 0, matches = 0, active = history.state?.row ?? 0, wantFocus = false, fresh = true, returns = active > 0
let windows = new Map(), generation = 0, stop = new AbortController()
const extras = new Map() // heights of opened maps of experts, by row
const field = el('input', { type: 'search', maxlength: 400, 'aria-label': 'Find tensors', placeholder: store.model.example, autocomplete: 'off', spellcheck: 'false', class: 'bigfield' })
take(read())
const groups = el('span'), shows = el('span'), summary = el('span', { class: 'sub', role: 'status' }), problem = el('p', { class: 'note warn', hidden: true })
const head = el('div', { class: 'lr lh', role: 'row' }), body = el('div', { class: 'lbody', role: 'rowgroup' })
const table = el('div', { class: 'list', role: 'treegrid', 'aria-label': 'Tensors' }, el('div', { role: 'rowgroup' }, head), body)
const layers = store.model.grid.layers
const findings = findingsList('Findings', () => {}, (f) => rowsOf(f.numbers.slice(0, 1)).then(() => go(tensorLink(store.rows[f.numbers[0]].name)), () => {})), odd = el('div', { hidden: true, class: 'listodd' }, findings.nodes[0], findings.nodes[2])
main.append(inside ? '' : el('h1', { class: 'hidden', text: store.model.title + ': tensors' }),
el('div', { class: 'listbar' }, field, el('span', null, faint('Group'), groups), el('span', null, faint('Show'), shows)),
el('p', { class: 'sub listhelp' }, 'Words match whole parts: ', el('b', { text: 'layer 3' }), ' is layer 3, not 13 or 30. ' + (host === 'file' ? '' : 'Whole names take globs. '), el('span', { class: 'wide' }, kbd('↑'), ' ', kbd('↓'), ' move, ', kbd('→'), ' unfold, ', kbd('←'), ' fold, ', kbd('↵'), ' open, ', kbd('s'), ' sort'), ' ', summary),
problem, inside ? '' : odd, table)
function take(s) {
[q, group, sort, show] = ['q', 'group', 'sort', 'only'].map((k) => s.params.get(k) ?? '')
open = new Set(s.params.getAll('open'))
field.value = q
fresh = true
}
function ask_() {
generation++
stop.abort()
stop = new AbortController()
windows = new Map()
table.setAttribute('aria-busy', 'true')
put({ q, group, sort, only: show, m: '', at: '' })
const s = read()
s.params.delete('open')
history.replaceState(history.state, '', location.hash.split('?')[0] + query(s.params))
bar()
fetchWindow(0)
}
function query(params) {
if (open.size < 12) for (const id of open) params.append('open', id)
const text = params.toString()
return text ? '?' + text : ''
}
function grouping() {
return group || (q || sort || show || (inside && store.model.tensors < 100) ? 'none' : 'role')
}
function path(from) {
const p = new URLSearchParams({ q, group: grouping(), sort, show })
for (const id of open) p.append('open', id)
p.append('from', String(from))
p.append('count', String(windowSize))
return 'data/list?' + p.toString().replaceAll('+', '%20')
}
async function fetchWindow(from) {
if (windows.has(from)) return
windows.set(from, null)
const mine = generation
try {
const a = host === 'file' ? await savedList({ q, group: grouping(), sort, show, open }) : await (await ask(path(from), { signal: stop.signal })).json()
if (mine !== generation) return
rows = a.rows
matches = a.matches
problem.hidden = !a.problem
problem.textContent = a.problem
if (host === 'file') for (let i = 0; i < a.window.length; i += windowSize) windows.set(i, a.window.slice(i, i + windowSize))
else windows.set(from, a.window)
for (const r of a.window) if (r.tensor) store.rows[r.tensor.number] ??= r.tensor
if (from === 0) {
active = Math.min(active, Math.max(0, rows - 1))
filters(a.shows)
if (unfold()) return
}
table.removeAttribute('aria-busy')
summary.textContent = q || show ? `${grouped(matches)} of ${grouped(store.model.tensors)}` + (sort ? ' · sort ' + sortName() : '') : sort ? 'sort ' + sortName() : ''
if (from === 0 && returns) move(active)
else draw(true)
returns = false
} catch (e) {
if (e.name === 'AbortError' || mine !== generation) return
table.removeAttribute('aria-busy')
problem.hidden = false
problem.textContent = (e.problem?.text ?? String(e)) + ' ' + (e.problem?.hint ?? '')
}
}
function unfold() {
if (!fresh || !store.progress?.done || q || sort || show || open.size) return false
fresh = false
const wrong = (windows.get(0) ?? []).filter((r) => !r.tensor && note(r).length)
if (!wrong.length || wrong.length > 6) return false
open = new Set(wrong.map((r) => r.id))
ask_()
return true
}
function sortName() {
const key = sort.replace(/^-/, '')
return (sorts.find(([k]) => k === key)?.[1] ?? key) + (sort.startsWith('-') ? ' ↓' : ' ↑')
}
function bar() {
table.classList.toggle('flat', grouping() === 'none')
choice(groups, 'Group', [['role', 'role'], ['layer', 'layer'], ['none', 'none']], grouping(), (k) => { group = k; open = new Set(); ask_() })
const heldHead = head.contains(document.activeElement) ? document.activeElement?.textContent?.replace(/ [↑↓]$/, '') : null
head.replaceChildren(...sorts.map(([key, name, cls]) => {
const on = key && sort.replace(/^-/, '') === key
const label = name === 'largest, by layer' ? (layers.length > 1 ? `largest, by layer ${layers[0]} – ${layers[layers.length - 1]}` : '') : name
return el('span', { class: 'lc ' + cls, role: 'columnheader', 'aria-sort': on ? (sort.startsWith('-') ? 'descending' : 'ascending') : null }, key ? el('button', { class: 'headbtn', text: label + (on ? (sort.startsWith('-') ? ' ↓' : ' ↑') : ''), click: () => sortBy(key) }) : label)
}))
if (heldHead) [...head.querySelectorAll('button')].find((b) => b.textContent?.startsWith(heldHead))?.focus()
}
function sortBy(key) {
const first = key === 'name' || key === 'type' ? key : '-' + key, second = first.startsWith('-') ? key : '-' + key
sort = sort === first ? second : sort === second ? '' : first
active = 0
ask_()
}
function filters(list) {
choice(shows, 'Show', list.map((s) => [s.show, (s.show || 'all') + ' ' + grouped(s.tensors)]), show, (k) => { show = k; active = 0; ask_() })
}
function y(i) {
let sum = i * high
for (const [row, h] of extras) if (row < i) sum += h
return sum
}
function rowAt(h) {
let i = Math.floor(h / high)
while (i > 0 && y(i) > h) i--
return Math.max(0, i)
}
function row(i) {
const from = Math.floor(i / windowSize) * windowSize
return windows.get(from)?.[i - from]
}
function drawOdd() {
const list = store.findings.filter((f) => f.severity > 0 && f.numbers?.length)
odd.hidden = !list.length || Boolean(q || sort || show) || grouping() === 'none'
if (!odd.hidden) findings.update(list, Boolean(store.progress?.done))
}
let drawn = ''
function draw(force) {
if (!inside) drawOdd()
high = innerWidth <= 900 ? 44 : 28
const top = -body.getBoundingClientRect().top
let a = Math.max(0, rowAt(Math.max(0, top)) - 10), b = Math.min(rows, rowAt(Math.max(0, top + innerHeight)) + 11)
if (inside) b = Math.min(rows, b)
const key = `${generation}/${a}/${b}`
if (key === drawn && !force) return
drawn = key
extras.clear()
for (const [from, list] of windows) list?.forEach((r, i) => { if (r.open && r.experts > 0) extras.set(from + i, layerExperts.height(r)) })
body.style.height = y(rows) + 'px'
table.setAttribute('aria-rowcount', String(rows + 1))
for (let from = Math.floor(a / windowSize) * windowSize; from < b; from += windowSize) fetchWindow(from)
const held = body.contains(document.activeElement) || wantFocus
const out = []
for (let i = a; i < b; i++) out.push(line(i))
if (active < a || active >= b) if (active < rows) out.push(line(active))
body.replaceChildren(...out.flat())
if (held) body.querySelector('[data-i][tabindex="0"]')?.focus({ preventScroll: true })
wantFocus = false
}
function line(i) {
const r = row(i)
const node = el('div', { class: 'lr', role: 'row', 'data-i': i, tabindex: i === active ? 0 : -1, 'aria-rowindex': i + 2, 'aria-level': (r?.depth ?? 0) + 1, css: { top: y(i) + 'px', '--in': 20 * (r?.depth ?? 0) + 16 + 'px' } })
if (!r) {
node.append(cell('l', '…'))
return [node]
}
const t = r.tensor, s = t && store.stats[t.number]
if (!t) node.setAttribute('aria-expanded', String(r.open))
const name = el('span', { class: 'lc l m nm' + (r.by_layer ? '' : ' long'), role: 'gridcell', title: r.name, css: { 'padding-left': 20 * r.depth + (t ? 16 : 0) + 'px' } },
t ? null : el('span', { class: 'fold', 'aria-hidden': 'true', text: r.open ? '▾' : '▸' }), el('span', { class: 'nn' }, el('bdi', { dir: 'ltr' }, ...marked(r))), t ? null : faint(' ' + grouped(r.tensors)))
const size = bytes(t ? t.stored_bytes : r.stored_bytes)
const std = t ? (s ? (s.error ? none : bound(s, '≈') + number(s.std)) : '') : range(r)
const sigma = t ? sigmaChip(s) : worst(r)
node.append(name, cell('strip0', r.by_layer ? stripOf(r) : ''), cell('l ty', t ? t.type : r.types),
cell('shp', shape(t ? t.shape : r.shape)), cell('sz', size), cell('sd', std), cell('', sigma),
cell('l nt', ...note(r, s)))
if (!t && r.open && r.experts > 0) {
const map = layerExperts(r, y(i) + high, (numbers) => rowsOf(numbers).then(() => go(tensorLink(store.rows[numbers[0]].name)), () => {}), () => { q = ''; group = 'none'; field.value = q = r.search || r.name; ask_() })
return [node, map]
}
return [node]
}
function marked(r) {
if (!r.matched?.length) return [named(r.name)]
const raw = new TextEncoder().encode(r.name), dec = new TextDecoder(), out = []
let from = 0
for (let i = 0; i + 1 < r.matched.length; i += 2) {
if (r.matched[i] < from) continue
out.push(dec.decode(raw.slice(from, r.matched[i])), el('mark', { text: dec.decode(raw.slice(r.matched[i], r.matched[i + 1])) }))
from = r.matched[i + 1]
}
out.push(dec.decode(raw.slice(from)))
return out
}
function ofSample(r) {
return { sampled: r.by_layer ? r.by_layer.flat().some((n) => store.stats[n]?.sampled) : store.progress?.share < 1 }
}
function range(r) {
const [low, high] = r.std ?? [null]
return low === null ? '' : bound(ofSample(r), '≈') + (low === high ? number(low) : number(low) + ' – ' + number(high))
}
function worst(r) {
let most = r.max_sigma
for (const n of r.by_layer?.flat() ?? []) {
const v = store.stats[n]?.max_sigma
if (v !== undefined && v !== null && (most === null || v > most)) most = v
}
return most === null || most === undefined ? el('span', { class: 'chip' }) : chip(measure('max_sigma'), { low: 4, high: 256 }, most, ofSample(r))
}
function stripOf(r) {
const m = measure('max_sigma'), cells = merged(r.by_layer, 96), w = 192 / cells.length
const g = svg('svg', { width: 192, height: 14, role: 'img', 'aria-label': 'largest in σ by layer' })
cells.forEach((list, i) => {
if (!list.length) return
let v, bad = false, zero = false
for (const k of list) {
const s = store.stats[k]
if (broken(s)) bad = true
if (allZero(s)) zero = true
if (s?.max_sigma !== undefined && s.max_sigma !== null && (v === undefined || s.max_sigma > v)) v = s.max_sigma
}
const cw = Math.max(0.6, w - (w > 3 ? 1 : 0))
g.append(svg('rect', { x: (i * w).toFixed(2), width: cw.toFixed(2), height: 14, fill: v === undefined ? 'var(--void)' : colour('odd', position(m, { low: 4, high: 256 }, v)) }))
if (bad || zero) g.append(svg('path', { d: `M${(i * w + 0.5).toFixed(2)} .5h${Math.max(1, cw - 1).toFixed(2)}v13h${-Math.max(1, cw - 1).toFixed(2)}z` + (bad ? `l${cw.toFixed(2)} 13` : ''), fill: 'none', stroke: bad ? 'var(--bad)' : 'var(--warn)' }))
})
return g
}
function note(r, s) {
if (r.tensor) {
if (s?.error && s.kind !== 'no values') return [el('span', { class: 'bad', text: 'damaged', title: s.error })]
if (s && s.nan + s.pos_inf + s.neg_inf > 0) return [el('span', { class: 'bad', text: bound(s) + things(s.nan, 'NaN', 'NaN') + (s.pos_inf + s.neg_inf ? ', ' + bound(s) + grouped(s.pos_inf + s.neg_inf) + ' infinite' : '') })]
if (allZero(s)) return [el('span', { class: 'warn', text: 'all zero' })]
return [r.note || (s?.excess >= 10 ? '▲ outlier' : s?.excess >= 4 ? '△ outlier' : s?.odd ? '△ odd' : '')]
}
if (r.note) return r.note.split(/(, )/).map((x) => (/damaged|NaN/.test(x) ? el('span', { class: 'bad', text: x }) : /all zero/.test(x) ? el('span', { class: 'warn', text: x }) : x))
const all = (r.by_layer ?? []).flat().map((n) => store.stats[n]).filter(Boolean)
const bad = all.filter((x) => x.error && x.kind !== 'no values').length, nan = all.filter((x) => !x.error && broken(x)).length, zero = all.filter(allZero).length
return [bad && el('span', { class: 'bad', text: bad + ' damaged' }), bad && nan ? ', ' : '', nan && el('span', { class: 'bad', text: nan + ' with NaN' }), zero && (bad || nan) ? ', ' : '', zero && el('span', { class: 'warn', text: zero + ' all zero' })].filter(Boolean)
}
function move(i) {
active = Math.max(0, Math.min(rows - 1, i))
const at = body.getBoundingClientRect().top + scrollY + y(active)
if (at < scrollY + 60) scrollTo(0, at - 60)
else if (at + high > scrollY + innerHeight - 48) scrollTo(0, at + high + 48 - innerHeight)
wantFocus = true
draw(true)
}
function enter(i) {
const r = row(i)
if (!r) return
if (r.tensor) {
history.replaceState({ ...history.state, row: i }, '') // where Esc comes back to
return go(tensorLink(r.tensor.name))
}
fresh = false
if (r.open) open.delete(r.id)
else open.add(r.id)
active = i
wantFocus = body.contains(document.activeElement)
ask_()
}
body.addEventListener('click', (e) => {
const target = /** @type {Element} */ (e.target).closest('[data-i]')
if (target instanceof HTMLElement) enter(Number(target.dataset.i))
})
body.addEventListener('keydown', (e) => {
if (!/** @type {Element} */ (e.target).matches('[data-i]')) return
const r = row(active), page = Math.max(1, Math.floor(innerHeight / high) - 6)
const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows - 1 }[e.key]
if (to !== undefined) move(to)
else if (e.key === 'Enter') enter(active)
else if (e.key === 'ArrowRight' && r && !r.tensor) r.open ? move(active + 1) : enter(active)
else if (e.key === 'ArrowLeft' && r) {
if (!r.tensor && r.open) enter(active)
else {
let i = active - 1
while (i > 0 && (row(i)?.depth ?? 0) >= r.depth) i--
if (r.depth) move(i)
}
} else return
e.preventDefault()
e.stopPropagation()
})
body.addEventListener('focusin', (e) => {
const i = /** @type {Element} */ (e.target).closest('[data-i]')?.getAttribute('data-i')
if (i !== null && i !== undefined) active = Number(i)
})
let typing = 0
field.addEventListener('input', () => {
clearTimeout(typing)
typing = setTimeout(() => { q = field.value.trim(); active = 0; open = new Set(); ask_() }, 30)
})
field.addEventListener('keydown', (e) => {
if (e.key === 'ArrowDown' || e.key === 'Enter') {
e.preventDefault()
move(0)
}
})
const scrolled = () => draw(false)
addEventListener('scroll', scrolled, { passive: true })
let last = 0
const end = listen(() => {
if (Date.now() - last < 200 && !store.progress?.done) return
last = Date.now()
if (store.progress?.done && (sort === '-max_sigma' || sort.includes('std') || show === 'odd' || (fresh && !open.size)) && !finished) {
finished = true
ask_()
} else draw(true)
})
let finished = Boolean(store.progress?.done)
ask_()
return {
update: () => draw(true),
leave: () => { end(); stop.abort(); clearTimeout(typing); removeEventListener('scroll', scrolled) },
reset(s) {
const was = JSON.stringify([q, group, sort, show, ...open])
take(s)
if (JSON.stringify([q, group, sort, show, ...open]) !== was) {
active = 0
ask_()
}
return true
},
keys(e) {
const t = row(active)?.tensor
if (e.key === 'c' && t) copyGo(t.name)
else if (e.key === 's') {
const keys = ['-max_sigma', '-size', '-std', 'name', '']
sort = keys[(keys.indexOf(sort) + 1) % keys.length]
active = 0
ask_()
} else if (e.key === 'o' && !odd.hidden) findings.next()
else if (e.key === 'ArrowDown' && atRest()) move(active)
else return false
return true
},
}
}
return { listView }
})()
const module_overview = (() => {
const { aside } = module_aside
const { arrows, atRest, copy, el, faint, kbd, say } = module_dom
const { findingsList } = module_findings
const { chip, drawThumb, legend, meter, sigmaChip } = module_figure
const { bytes, count, grouped, named, none, number, percent, quote, shape, things } = module_format
const { binned, layerGrid, lookAt } = module_grid
const { allZero, bound, broken, domain, measure, measures, range } = module_measures
const { colour, css, ink } = module_scale
const { compute, listen, rowsOf, store } = module_store
const { go, put, read, tensorLink } = module_route
const { listView } = module_list
function strip(facts, low) {
return el('dl', { class: 'strip' + (low ? ' low' : '') }, facts.filter(Boolean).map(([name, value, small, css]) => el('div', { class: css ?? null }, el('dt', { text: name }), el('dd', { class: low === name ? 'huge' : null }, value, small && el('small', { text: ' ' + small })))))
}
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
function overview(main) {
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
const body = el('tbody'), sigmaHead = ['name', 'dtype', 'shape', 'size', 'σ', 'max in σ', 'zeros']
let most = 12
const moreOutside = el('button', { class: 'link', hidden: true, click: () => { if (most > 12) go('#/tensors'); most = 400; outside() } })
if (!why && model.outside.length) {
main.append(el('section', null, el('div', { class: 'row', css: { 'margin-bottom': '4px' } }, el('h2', { text: 'Not in the grid' }), faint(things(model.outside.length, 'tensor') + ' whose names have no layer number')),
el('table', { class: 'tb' }, el('thead', null, el('tr', null, sigmaHead.map((h, i) => el('th', { class: (i < 2 ? 'l' : '') + (i > 0 && i < 5 || i > 5 ? ' wide' : ''), scope: 'col', text: h })))), body), moreOutside))
}
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
function zeros(s) {
if (!s) return ''
if (s.error) return s.kind === 'no values' ? none : '✕'
if (s.finite && s.zeros / s.finite >= 0.01) return chip(measures[4], { low: 1e-4, high: 1 }, s.zeros / s.finite, s)
return bound(s) + grouped(s.zeros)
}
function room() {
return innerWidth <= 600 ? 400 : gridBox.clientWidth - 340
}
function makeGrid() {
grid?.leave()
shownGrid = binned(model.grid, room())
grid = layerGrid({ grid: shownGrid, label: m.title + ' by role and layer', shapes: true, look: (numbers) => lookNow(numbers), go: (numbers) => look(numbers), open: openCell })
gridBox.replaceChildren(grid.node)
}
let lookNow = () => null
const numbers = model.grid.groups.flatMap((g) => g.rows.flatMap((r) => r.cells.flat()))
function setMeasure(key) {
m = measure(key)
put({ m: key === 'max_sigma' ? '' : key })
for (const node of gridBox.querySelectorAll('[role=grid]')) node.setAttribute('aria-label', m.title + ' by role and layer')
update()
}
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
function worst(list) {
const marks = list.find((n) => broken(store.stats[n])) ?? list.find((n) => allZero(store.stats[n]))
if (marks !== undefined) return marks
let best = list[0]
for (const n of list) if ((store.stats[n]?.max_sigma ?? -1) > (store.stats[best]?.max_sigma ?? -1)) best = n
return best
}
function openCell(list) {
const n = worst(list)
rowsOf([n]).then(() => {
clearTimeout(timer)
put({ at: store.rows[n].name })
go(tensorLink(store.rows[n].name))
}, () => {})
}
function choose(f) {
marked = f.numbers ?? []
if (marked.length) look(marked.find((n) => grid?.has(n)) ?? marked[0])
}
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
function damaged() {
return store.stats.filter((s) => s?.error && s.kind !== 'no values')
}
let noteKey = ''
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
function swatch(x) {
return el('i', { class: 'swatch', css: { background: colour('amount', x.tone) } })
}
function share(x) {
return x && x < 0.0005 ? '<' + percent(0.001) : percent(x)
}
function storedBytes(model) {
return model.types.reduce((sum, t) => sum + t.stored_bytes, 0) || 1
}
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
return { strip, overview }
})()
const module_tensor = (() => {
const { host, problemOf } = module_ask
const { figures, flat, paintTiles, pairs } = module_aside
const { choice, copy, el, faint, kbd, rich, scroller, svg } = module_dom
const { edge, histogram, legend } = module_figure
const { bytes, cell, grouped, named, none, number, place, thin, things } = module_format
const { allZero, bound, broken, measure, position, spreads } = module_measures
const { byLog, colour, ink, paint } = module_scale
const { changed, listen, picture, remember, rowsOf, store } = module_store
const { go, link, put, read, tensorLink } = module_route
const { strip } = module_overview
const matrixMeasure = { key: 'matrix', ramp: 'odd', log: true, ticks: [2, 4, 8, 16, 32, 64, 128, 256], tick: String, short: cell, foot: '|x − mean| in σ, log scale, clamped to 2…256' }
const meanMeasure = { key: 'mean', ramp: 'odd', ticks: [0, 1, 2, 3, 4], tick: String, short: cell, foot: '|mean of a tile − mean| in σ, linear, clamped to 4' }
function tensorView(main, name) {
const stop = new AbortController(), { signal } = stop
const key = encodeURIComponent(name)
let t = null, matrix = null
let end = () => {}
const reading = el('p', { class: 'sub', role: 'status', text: 'Reading the tensor …' })
main.append(crumbs(name), el('h1', { class: 'm t4' }, ...breakable(name)), reading)
start().catch((e) => {
if (e.name === 'AbortError') return
reading.remove()
const p = problemOf(e)
main.append(el('p', { class: 'note bad' }, el('b', { text: p.text }), p.line ? el('br') : null, el('span', { class: 'm', text: p.line }), ' ' + (p.hint ?? '')))
})
async function start() {
t = await remember('data/tensor?name=' + key, signal)
if (signal.aborted) return
changed() // what the last line says
const s = t.stat
const same = el('span', { class: 'sp' })
main.replaceChildren(crumbs(name), el('div', { class: 'row mid t4' }, el('h1', { class: 'm' }, ...breakable(t.name)), same), facts(t))
for (const f of t.findings.slice(0, 4)) main.append(el('p', { class: 'note' + (f.severity >= 3 ? ' bad' : f.severity ? ' warn' : '') }, ...rich(f.text), f.evidence ? faint(' · ' + f.evidence) : null))
if (s.error) main.append(el('p', { class: 'note' + (s.kind === 'no values' ? '' : ' bad') }, el('b', { text: s.kind === 'no values' ? 'No figures: ' : 'The values cannot be read: ' }), el('span', { class: 'm', text: s.error })))
const drawSame = () => sameRole(same, t)
end = listen(drawSame)
drawSame()
rowsOf(t.same_role).catch(() => {})
if (!s.error) {
main.append(values(t))
if (t.matrix_rows >= 1 && t.matrix_columns > 1 && spreads(s)) {
matrix = matrixPart(t, key, signal)
main.append(matrix.node)
}
}
main.append(el('section', { class: 'halves' }, t.parts.length ? parts(t) : el('div', null, blockWords(t), firstValues(t)), readIt(t)))
}
return {
update: () => matrix?.update(),
leave: () => { stop.abort(); end(); matrix?.leave() },
state: () => (t && !t.stat.error ? 'Exact: ' + grouped(t.stat.finite + t.stat.nan + t.stat.pos_inf + t.stat.neg_inf) + ' values' : 'one tensor'),
reset: () => false,
keys(e) {
if (!t) return false
if (e.key === '[' && t.before) go(tensorLink(t.before))
else if (e.key === ']' && t.after) go(tensorLink(t.after))
else if (e.key === 'c') copy(t.go)
else return matrix?.keys(e) ?? false
return true
},
}
}
function crumbs(name) {
if (name.length > 200) return el('nav')
const parts = name.split('.'), [escaped, any] = host === 'file' ? [' ', ''] : ['\\$&', '*']
if (parts.length > 2 && ['weight', 'bias'].includes(parts[parts.length - 1])) parts.pop()
return el('nav', { class: 'sub', 'aria-label': 'Path' }, parts.flatMap((p, i) => [i ? ' / ' : '', el('a', { href: link('tensors', { q: parts.slice(0, i + 1).join('.').replace(/[\\*?[{]/g, escaped) + any }), text: named(p) })]))
}
function facts(t) {
const bits = t.elements ? (8 * t.stored_bytes) / t.elements : null
const list = strip([
['Type', t.type, t.stored], ['Shape', t.shape.length ? t.shape.map(grouped).join(' × ') : 'scalar', things(t.elements, 'value')], ['Stored', bytes(t.stored_bytes), bits === null ? '' : number(bits) + ' bits per weight'],
['Offset', grouped(t.offset), '0x' + t.offset.toString(16).toUpperCase() + (store.model.files > 1 ? ', file ' + (t.file + 1) + ' of ' + store.model.files : '')], ['Read as', t.read_as, t.float_bytes ? bytes(t.float_bytes) : ''],
store.model.compared && ['Against ' + store.model.compared.title, t.db === undefined ? el('a', { href: '#/compare', text: 'compare' }) : t.db === 'Infinity' ? 'identical' : t.db === null ? none : cell1(t.db) + thin + 'dB', Number.isFinite(t.type_db) ? 'its type on Gaussian: ' + cell1(t.type_db) : ''],
])
list.style.marginTop = '16px'
return list
}
function cell1(x) {
return Number.isFinite(x) ? x.toFixed(1).replace('-', '−') : number(x)
}
function sameRole(box, t) {
if (t.same_role.length < 2) return
const m = measure('max_sigma'), many = t.same_role.length > 24
const links = t.same_role.map((n, i) => {
const row = store.rows[n], s = store.stats[n], v = m.value(row, s), sign = broken(s) ? '✕' : allZero(s) ? '□' : ''
if (!row) return null
const a = el('a', { href: tensorLink(row.name), class: 'same' + (many ? ' many' : '') + (n === t.number ? ' now' : ''), 'aria-current': n === t.number ? 'page' : null, 'aria-label': 'layer ' + (row.layer ?? i) + (v ? ', ' + bound(s) + m.long(v) : '') + ({ '✕': ', damaged or NaN', '□': ', all zero' }[sign] ?? ''), title: 'layer ' + row.layer, text: sign ? sign : many ? '' : v === undefined ? '…' : v === null ? none : bound(s) + m.text(v) })
if (sign) a.classList.add(sign === '✕' ? 'bad' : 'warn')
else if (v !== undefined && v !== null) paint(a, m.ramp, position(m, { low: 4, high: 256 }, v))
return a
})
const held = box.contains(document.activeElement)
if (!held) box.replaceChildren(el('span', { class: 'sub', css: { 'margin-right': '6px' }, text: 'same role, max in σ' }), ...links.filter(Boolean), ...(t.same_role_more ? [el('span', { class: 'sub', text: 'and ' + grouped(t.same_role_more) + ' more' })] : []))
}
function breakable(name) {
return name.length > 200 ? [name] : named(name).split('.').flatMap((part, i) => (i ? ['.', el('wbr'), part] : part))
}
function values(t) {
const s = t.stat
const table = el('button', { class: 'link', 'aria-expanded': 'false', text: 'Show the counts as a table', click: () => {
const open = table.getAttribute('aria-expanded') === 'false'
table.setAttribute('aria-expanded', String(open))
if (open) box.append(counts(s))
else box.querySelector('.counts')?.remove()
} })
const box = el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Values by σ' }), el('span', { class: 'sub wide', text: 'bins equal in asinh(z ÷ 2): ¼ σ in the middle, 12 % of the value outside; counts on a log axis' })),
s.sigma_histogram?.length && spreads(s) ? histogram(s, innerWidth > 600 ? 880 : Math.max(320, innerWidth - 32), 272, true) : el('p', { class: 'note', text: s.std === 0 ? 'All values are ' + number(s.mean) + '.' : 'There is no histogram.' }), s.sigma_histogram?.length ? table : null)
return el('section', { class: 'cols near' }, box, el('aside', { class: 'side', 'aria-label': 'Statistics' }, el('h3', null, 'Statistics ', el('span', { text: (s.sampled ? 'of a sample' : 'exact') + ', ' + things(t.elements, 'value') })), pairs(figures(s, true), true)))
}
function counts(s) {
const body = el('tbody')
s.sigma_histogram.forEach((n, i) => {
if (n) body.append(el('tr', null, el('td', { text: number(edge(i)) + ' to ' + number(edge(i + 1)) + ' σ' }), el('td', { text: grouped(n) }), el('td', { text: s.gaussian ? number(s.gaussian[i]) : '' })))
})
return el('div', { class: 'box counts', css: { 'max-width': '480px' } }, el('table', { class: 'tb' }, el('thead', null, el('tr', null, ['from mean', 'values', 'Gaussian'].map((h) => el('th', { scope: 'col', text: h })))), body))
}
function matrixPart(t, key, signal) {
const R = t.matrix_rows, C = t.matrix_columns, s = t.stat
const state = read()
let as = state.params.get('as') === 'mean' ? 'mean' : 'max'
const peak = s.max_sigma_at?.length ? [s.max_sigma_at[0], flat(s.max_sigma_at, t.shape)] : [0, 0]
if (t.shape.length === 1) peak.splice(0, 2, 0, s.max_sigma_at?.[0] ?? 0)
let at = (state.params.get('at') ?? '').split(',').map(Number)
if (at.length !== 2 || !at.every((x, i) => Number.isInteger(x) && x >= 0 && x < [R, C][i])) at = [...peak]
let zoom = Math.max(1, Number(state.params.get('zoom')) || 1)
let win = [0, R, 0, C], p = null, norms = null, asked = 0
const canvas = el('canvas', { tabindex: 0, role: 'application', 'aria-roledescription': 'matrix', 'aria-label': '' })
const over = svg('svg', { 'aria-hidden': 'true' })
const frame = el('div', { class: 'matrix' }, canvas, over)
const sub = el('span', { class: 'sub wide' }), modes = el('span'), legendBox = el('div'), around = el('div'), normBox = el('div')
const node = el('section', null, el('div', { class: 'row mid', css: { 'margin-bottom': '8px' } }, el('h2', { text: t.shape.length === 1 ? 'Vector' : 'Matrix' }), modes, sub),
el('div', { class: 'matrixcols' }, el('div', { class: 'mleft' }, frame, legendBox), el('div', { class: 'mright' }, around, normBox)))
function window_() {
const cut = (n, centre) => {
const size = Math.max(Math.min(n, 4), Math.ceil(n / zoom))
const from = Math.max(0, Math.min(n - size, Math.round(centre - size / 2)))
return [from, from + size]
}
const rows = cut(R, at[0]), columns = cut(C, at[1])
if (zoom === 1) return [0, R, 0, C]
return [...rows, ...columns]
}
async function load() {
const mine = ++asked
win = window_()
const part = zoom === 1 ? '' : `&rows=${win[0]}:${win[1]}&columns=${win[2]}:${win[3]}`
try {
const got = await picture(`data/picture?name=${key}&as=${as}${part}`, signal)
if (mine !== asked || signal.aborted) return
p = got
draw()
} catch (e) {
if (e.name !== 'AbortError') sub.textContent = e.problem?.text ?? String(e)
}
}
function take(k) {
as = k
put({ as: k === 'max' ? '' : k })
load()
}
const left = 44, top = 20
function draw() {
if (!p || !node.isConnected) return
choice(modes, 'Tiles', [['max', 'largest |x|'], ['mean', 'mean']], as, take)
sub.replaceChildren((p.high * p.wide > 1 ? `a pixel is ${p.high}×${p.wide} values; ` : 'a pixel is a value; '), kbd('+'), ' ', kbd('−'), ' or wheel with Ctrl zoom, ', kbd('0'), ' shows all, arrows move')
const total = frame.parentElement?.clientWidth || 904
const right = total > 600 ? 92 : 0, w = Math.min(768, total - left - right - 4)
const rows = win[1] - win[0], columns = win[3] - win[2]
const h = Math.max(12, Math.min(384, Math.max(Math.min(192, w / 2), (w * rows) / columns)))
const high = rows === 1 ? 24 : Math.min(h, Math.max(24, (w * rows) / columns * (columns / rows > 16 ? 4 : 1), Math.min(192, rows * 8)))
paintTiles(canvas, p, as)
Object.assign(canvas.style, { left: left + 'px', top: top + 'px', width: w + 'px', height: high + 'px' })
const bottom = norms ? 76 : 8
frame.style.height = top + high + bottom + 'px'
over.setAttribute('width', String(total))
over.setAttribute('height', String(top + high + bottom))
over.replaceChildren()
const x = (c) => left + (w * (c + 0.5 - win[2])) / columns, y = (r) => top + (high * (r + 0.5 - win[0])) / rows
const text = (cls, tx, ty, s) => over.append(svg('text', { class: cls, x: tx, y: ty, text: s }))
const cx = x(at[1]), cy = y(at[0]), inside = cx >= left && cx <= left + w && cy >= top && cy <= top + high
if (Math.abs(cx - left) > 90) text('k', left, top - 8, 'column ' + grouped(win[2]))
if (Math.abs(left + w - cx) > 60) text('k e', left + w, top - 8, grouped(win[3] - 1))
if (rows > 1) {
if (cy - top > 22) text('k e', left - 6, top + 10, 'row ' + grouped(win[0]))
if (top + high - cy > 16) text('k e', left - 6, top + high, grouped(win[1] - 1))
}
if (inside) {
text('b c', Math.max(left + 12, Math.min(left + w - 12, cx)), top - 8, grouped(at[1]))
if (rows > 1) text('b e', left - 6, cy + 4, grouped(at[0]))
const tw = Math.max(10, w / p.columns), th = Math.max(10, high / p.rows)
over.append(svg('rect', { class: 'ring', x: cx - tw / 2, y: cy - th / 2, width: tw, height: th }))
}
over.append(svg('rect', { class: 'gl', fill: 'none', x: left, y: top, width: w, height: high }))
if (norms) drawNorms(w, high, right, x, y)
canvas.setAttribute('aria-label', `Matrix of ${grouped(R)} rows and ${grouped(C)} columns; looking at ${place(at)}. Arrows move, plus and minus zoom.`)
legendBox.replaceChildren(legend(as === 'max' ? matrixMeasure : meanMeasure, as === 'max' ? { low: 2, high: 256 } : { low: 0, high: 4 }, [], Math.min(400, total - left)))
legendBox.firstElementChild?.setAttribute('class', 'legend in')
}
function drawNorms(w, high, right, x, y) {
const line = (n, from, to, size, point) => {
const most = Math.max(...n.norms.filter(Number.isFinite), 1e-30)
const out = []
const a = Math.floor(from / n.step), b = Math.ceil(to / n.step)
for (let i = a; i < b; i++) if (Number.isFinite(n.norms[i])) out.push(point(i * n.step + (n.step - 1) / 2, (size * n.norms[i]) / most))
return out.join(' ')
}
const bold = (n, where, size) => n.largest.filter((v) => v.norm > 0 && isFinite(v.norm)).map((v) => [v, where(v.at), (size * v.norm) / Math.max(...n.norms.filter(Number.isFinite), 1e-30)])
if (right && win[1] - win[0] > 1) {
const left0 = left + w + 8
over.append(svg('line', { class: 'ax', x1: left0, x2: left0, y1: top, y2: top + high }), svg('polyline', { class: 'nl', points: line(norms.rows, win[0], win[1], 48, (i, v) => (left0 + 2 + v).toFixed(1) + ',' + y(i).toFixed(1)) }),
svg('text', { class: 'k', x: left0, y: top - 8, text: 'row norm' }))
bold(norms.rows, y, 48).forEach(([v, py, size], i) => {
if (py < top || py > top + high) return
over.append(svg('text', { class: i ? 'k' : 'b', x: left0 + size + 6, y: py + 4, text: i ? grouped(v.at) : number(v.norm) }))
})
}
const base = top + high + 64
over.append(svg('line', { class: 'ax', x1: left, x2: left + w, y1: base, y2: base }), svg('polyline', { class: 'nl', points: line(norms.columns, win[2], win[3], 44, (i, v) => x(i).toFixed(1) + ',' + (base - 2 - v).toFixed(1)) }), svg('text', { class: 'k e', x: left - 6, y: base, text: 'norm' }))
bold(norms.columns, x, 44).forEach(([v, px, size], i) => {
if (px < left || px > left + w) return
const flip = px > left + w - 60
over.append(svg('text', { class: (i ? 'k' : 'b') + (flip ? ' e' : ''), x: px + (flip ? -6 : 6), y: base - size + (i ? -4 : 8), text: i ? grouped(v.at) : number(v.norm) }))
})
}
async function values() {
try {
const v = await remember(`data/values?name=${key}&row=${at[0]}&column=${at[1]}&rows=7&columns=7`, signal)
if (signal.aborted) return
const head = el('tr', null, el('td'))
v.values[0]?.forEach((_, i) => head.append(el('th', { scope: 'col', class: v.column + i === at[1] ? 'here' : null, text: grouped(v.column + i) })))
const body = v.values.map((line, r) => el('tr', null, el('th', { scope: 'row', class: v.row + r === at[0] ? 'here' : null, text: grouped(v.row + r) }), line.map((x, c) => {
const td = el('td', { text: small(Number(x), s.std), title: String(x) })
const z = Number.isFinite(Number(x)) ? Math.abs(x - s.mean) / s.std : 256
paint(td, 'odd', Math.max(0, byLog(z, 2, 256)))
if (v.row + r === at[0] && v.column + c === at[1]) td.className = 'here'
return td
})))
around.replaceChildren(el('h3', { text: 'Around ' + place(t.shape.length === 1 ? [at[1]] : at) }), el('table', { class: 'around' }, el('thead', null, head), el('tbody', null, body)))
} catch (e) {
if (e.name !== 'AbortError') around.replaceChildren(el('p', { class: 'sub', text: e.problem?.text ?? String(e) }))
}
}
async function loadNorms() {
if (R < 2) return
try {
norms = await remember(`data/norms?name=${key}`, signal)
if (signal.aborted) return
const lines = [['row', norms.rows], ['column', norms.columns]].flatMap(([what, n]) => n.largest.map((v, i) => el('tr', null, el('td', { class: 'l' }, what + ' ', el(i ? 'span' : 'b', { text: grouped(v.at) })), el('td', { text: number(v.norm) }), el('td', { class: 'sub', text: n.median ? number(v.norm / n.median).replace(/^(\d+\.\d)\d$/, '$1') + ' ×' + (i ? '' : ' median') : '' }))))
const zeros = [['row', norms.rows.zeros], ['column', norms.columns.zeros]].filter(([, n]) => n).map(([what, n]) => things(n, what) + ' all zero').join(', ')
normBox.replaceChildren(el('h3', { class: 't16', text: 'Largest norms' }), el('table', { class: 'tb t4' }, el('tbody', null, lines)), zeros ? el('p', { class: 'sub', css: { 'margin-top': '8px', color: 'var(--warn)' }, text: zeros }) : '')
draw()
} catch (e) {
if (e.name !== 'AbortError') normBox.replaceChildren(el('p', { class: 'sub', text: e.problem?.text ?? String(e) }))
}
}
let timer = 0
function look(r, c) {
at = [Math.max(0, Math.min(R - 1, r)), Math.max(0, Math.min(C - 1, c))]
put({ at: at.join(',') === peak.join(',') ? '' : at.join(','), zoom: zoom === 1 ? '' : String(zoom) })
if (zoom > 1 && (at[0] < win[0] || at[0] >= win[1] || at[1] < win[2] || at[1] >= win[3])) load()
else draw()
clearTimeout(timer)
timer = setTimeout(values, 80)
}
function magnify(z) {
const most = 2 ** Math.ceil(Math.log2(Math.max(R / 8, C / 32, 1)))
zoom = Math.max(1, Math.min(most, z))
put({ zoom: zoom === 1 ? '' : String(zoom) })
load()
}
canvas.addEventListener('click', (e) => {
const b = canvas.getBoundingClientRect()
look(win[0] + Math.floor(((e.clientY - b.top) / b.height) * (win[1] - win[0])), win[2] + Math.floor(((e.clientX - b.left) / b.width) * (win[3] - win[2])))
})
canvas.addEventListener('wheel', (e) => {
if (!e.ctrlKey) return
e.preventDefault()
magnify(e.deltaY < 0 ? zoom * 2 : zoom / 2)
}, { passive: false })
canvas.addEventListener('keydown', (e) => {
const stepR = e.shiftKey ? 10 * p.high : p?.high ?? 1, stepC = e.shiftKey ? 10 * p.wide : p?.wide ?? 1
const d = { ArrowUp: [-stepR, 0], ArrowDown: [stepR, 0], ArrowLeft: [0, -stepC], ArrowRight: [0, stepC] }[e.key]
if (!d) return
e.preventDefault()
look(at[0] + d[0], at[1] + d[1])
})
load()
values()
loadNorms()
return {
node, update: draw, leave: () => clearTimeout(timer),
keys(e) {
if (e.key === '+' || e.key === '=') magnify(zoom * 2)
else if (e.key === '-' || e.key === '−') magnify(zoom / 2)
else if (e.key === '0') magnify(1)
else if (e.key === 'm' || e.key === 'M') take(as === 'max' ? 'mean' : 'max')
else return false
return true
},
}
}
function small(x, std) {
if (x === 0 || !Number.isFinite(x)) return number(x)
const a = Math.abs(x), d = Math.max(0, Math.min(1 - Math.floor(Math.log10(std)), a < 1 ? 99 : 2 - Math.floor(Math.log10(a))))
const s = d > 5 || a >= 1e4 ? a.toExponential(0).replace('+', '').replace('-', '−') : a.toFixed(d)
return (x < 0 ? '−' : '') + s.replace(/^0\./, '.')
}
function parts(t) {
const sum = t.parts.reduce((n, p) => n + p.stored_bytes, 0) || 1
const bar = el('div', { class: 'bar', role: 'img', 'aria-label': 'Bytes by part' })
t.parts.forEach((p, i) => bar.append(el('div', { css: { flex: `${Math.max(8, Math.sqrt(p.stored_bytes / sum) * 60)} 1 0`, background: colour('amount', 0.55 - i * 0.12), color: ink('amount', 0.55 - i * 0.12) }, text: p.role || p.name })))
const heads = [['part', 'l'], ['stored as', 'l'], ['count', ''], ['bytes', ''], ['smallest', 'wide'], ['median', 'wide'], ['largest', 'wide'], ['largest |x| in', 'l wide']]
return el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Parts' }), faint('as stored')), bar,
blockWords(t, ' (not to scale)'),
scroller('Parts', el('table', { class: 'tb t8' }, el('thead', null, el('tr', null, heads.map(([h, c]) => el('th', { scope: 'col', class: c, text: h })))),
el('tbody', null, t.parts.map((p) => el('tr', null, el('td', { class: 'l m', title: p.name, text: p.role || p.name }), el('td', { class: 'l', text: p.stored }), el('td', { text: count_(p.count) }), el('td', { text: bytes(p.stored_bytes) }), el('td', { class: 'wide' }, el(-p.min > p.max ? 'b' : 'span', { text: number(p.min) })), el('td', { class: 'wide', text: number(p.median) }), el('td', { class: 'wide' }, el(-p.min > p.max ? 'span' : 'b', { text: number(p.max) })), el('td', { class: 'l wide', text: p.max_at })))))), firstValues(t))
}
function blockWords(t, more = '') {
return t.block ? el('p', { class: 'sub', css: { margin: '4px 0' }, text: t.block + more }) : null
}
function count_(n) {
return n ? grouped(n) : none
}
function firstValues(t) {
if (!t.first_values?.length) return el('span')
return el('div', null, el('h3', { css: { 'margin-top': t.parts.length ? '16px' : '0' }, text: 'First values, row by row' }), el('p', { class: 'm', css: { 'margin-top': '4px', 'overflow-wrap': 'anywhere' }, text: t.first_values.map(t.stat.finite && t.stat.std === null ? grouped : number).join(', ') + (t.elements > t.first_values.length ? ', …' : '') }))
}
function readIt(t) {
return el('div', null, el('div', { class: 'row mid', css: { 'margin-bottom': '8px' } }, el('h2', { text: 'Read it' }), el('span', { class: 'sp btnline' }, el('button', { class: 'btn low', click: () => copy(t.go) }, 'Copy Go ', kbd('c')), ' ', el('button', { class: 'btn low', text: 'Copy command', click: () => copy(t.command) }))),
el('pre', { text: t.go, tabindex: 0 }), el('pre', { text: t.command, tabindex: 0 }))
}
return { tensorView }
})()
const module_chooser = (() => {
const { tell } = module_ask
const { el } = module_dom
function chooser(main, done, side) {
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
function files(list) {
if (list.length) open({ files: list })
}
async function open(what) {
problem.replaceChildren(el('p', { class: 'sub t16', text: 'Opening …' }))
const answer = await tell(side ? { ...what, side } : what)
if (answer.opened) return done()
fail(answer.problem ?? { text: 'The model cannot be opened.', line: '', hint: '' })
}
function fail(p) {
problem.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: p.text })), p.line ? el('pre', { class: 't12', text: p.line }) : '', p.hint ? el('p', { class: 'sub t12', text: p.hint }) : '')
}
}
function fromInput(input) {
return [...(input.files ?? [])].map((f) => ({ path: f.webkitRelativePath || f.name, file: f }))
}
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
return { chooser }
})()
const module_compare = (() => {
const { ask, host, problemOf } = module_ask
const { chooser } = module_chooser
const { choice, copy, el, faint, kbd, say, scroller, svg } = module_dom
const { chip, legend, meter } = module_figure
const { bytes, count, grouped, named, none, number, percent, quote, reals, seconds, thin, things } = module_format
const { binned, layerGrid } = module_grid
const { byLog } = module_scale
const { changed, isServed, listen, store } = module_store
const { go, put, read, tensorLink } = module_route
const { findingsList } = module_findings
const { strip } = module_overview
const one = (x) => (Number.isFinite(x) ? grouped(Math.abs(x) < 0.05 ? '0.0' : x.toFixed(1)) : number(x))
const same = (p) => p.same_elements || (p.db === Infinity && !p.lost)
const cosine = (x) => (x === null ? none : x.toFixed(5).replace('-', '−'))
const kinds = [
{ key: 'db', name: 'dB', sub: 'higher is better; stronger colour, more lost', ramp: 'odd', reversed: true, value: (p) => p.db, text: one, at: (v) => (45 - v) / 40, long: (v) => one(v) + thin + 'dB', d: { low: 45, high: 5 }, ticks: [5, 10, 15, 20, 25, 30, 35, 40, 45], foot: 'dB, linear, clamped to 5…45; 6 dB are about one bit' },
{ key: 'cosine', name: 'Cosine', sub: 'colour: 1 − cosine, log scale', ramp: 'odd', value: (p) => p.cosine, text: cosine, at: (v) => byLog(Math.max(1e-12, 1 - v), 1e-6, 1), long: (v) => 'cosine ' + cosine(v), d: { low: 1e-6, high: 1 }, log: true, place: (v) => Math.max(1e-12, 1 - v), ticks: [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], tick: number, foot: '1 − cosine, log scale' },
{ key: 'relative_rms', name: 'Relative RMS', sub: 'error ÷ values', ramp: 'odd', value: (p) => p.relative_rms, text: percent3, at: (v) => byLog(v, 1e-3, 1), long: (v) => 'relative RMS ' + percent3(v), d: { low: 1e-3, high: 1 }, log: true, ticks: [1e-3, 1e-2, 0.1, 1], tick: percent, foot: 'relative RMS, log scale from 0.1 % to 100 %' },
{ key: 'bits', name: 'Bits', sub: 'per weight, of B', ramp: 'amount', value: (p) => p.bits, text: number, at: (v) => byLog(v, 1, 32), long: (v) => number(v) + ' bits', d: { low: 1, high: 32 }, log: true, ticks: [1, 2, 4, 8, 16, 32], tick: String, foot: 'bits per weight, log scale', all: true },
]
const kept = new Map() // what was read, by direction
function compareView(main) {
if (!store.model.compared) return needsSecond(main)
const state = read()
const swap = state.params.get('swap') === '1'
let kind = kindOf(state)
let sort = state.params.get('sort') ?? '', all = false, isTune = false
const stop = new AbortController()
const data = kept.get(swap) ?? { a: null, b: null, grid: null, pairs: [], overall: null, types: [], findings: [], progress: null, problem: null, complete: false }
kept.set(swap, data)
let marked = [], now = -1
const sides = el('div', { class: 'sides' }), figures = el('div'), progress = meter(), notes = el('div')
const findings = findingsList('What it cost', (f) => { marked = f.numbers ?? []; now = marked[0] ?? -1; select() })
const cost = el('section', { class: 'near', hidden: true }, el('h2', { text: 'What it cost' }), ...findings.nodes)
const maps = el('section', { class: 'maps' }), bits = el('div'), types = el('div'), worst = el('section')
main.append(el('h1', { class: 'hidden', text: 'Comparison' }), sides, figures, progress.node, notes, cost, maps, el('section', { class: 'buy' }, bits, types), worst)
let left = null, right = null
const by = new Map()
async function start() {
if (data.complete) return
Object.assign(data, { pairs: [], findings: [], problem: null })
try {
const reply = await ask('data/compare' + (swap ? '?swap=1' : ''), { signal: stop.signal })
for await (const line of reply.lines()) {
for (const k of ['a', 'b', 'grid', 'progress', 'overall', 'types', 'findings']) if (line[k]) data[k] = line[k]
reals(line.overall)
line.types?.forEach(reals)
for (const p of line.pairs ?? []) data.pairs[p.number] = reals(p)
if (line.error?.swapped && await isServed()) return start()
if (line.error) data.problem = line.error
changed()
}
data.complete = !data.problem && Boolean(data.overall)
} catch (e) {
if (e.name === 'AbortError') return
data.problem = problemOf(e)
}
changed()
}
function makeMaps() {
if (!data.grid?.layers.length) return
const groups = data.grid.groups.map((g) => ({ ...g, rows: g.rows.filter((r) => !r.vector || r.cells.flat().some((n) => by.get(n) && !by.get(n).same_elements)) })).filter((g) => g.rows.length)
const hasTypes = data.pairs.some((p) => Number.isFinite(p?.type_db))
const grid = binned({ ...data.grid, groups }, innerWidth <= 600 ? 400 : (hasTypes && innerWidth > 1000 ? maps.clientWidth - 448 : maps.clientWidth) - 192)
const key = groups.map((g) => g.rows.length).join() + hasTypes + grid.binned
if (maps.dataset.key === key) return
maps.dataset.key = key
left?.leave()
right?.leave()
const common = { grid, shapes: false, bad: 'damaged, in one model alone, or of another shape', go: (numbers) => { now = numbers[0] ?? -1; select() }, open }
left = layerGrid({ ...common, label: 'Comparison by role and layer', look: lookLeft })
right = layerGrid({ ...common, label: 'dB against what the type keeps of Gaussian values', look: lookRight })
left.node.querySelector('.grid').classList.add('tall')
right.node.querySelector('.grid').classList.add('tall', 'bare')
maps.replaceChildren(el('div', null, el('div', { class: 'row mid' }, el('h2', { text: shown().name + ' by layer and role' }), el('span', { class: 'kindbox' }), el('span', { class: 'sub kindsub' })), left.node, el('div', { class: 'legendbox' })),
hasTypes ? el('div', null, el('div', { class: 'row' }, el('h2', { text: 'Against the type' }), faint('dB above or below Gaussian values')), right.node, el('p', { class: 'sub typewords t8' })) : '')
maps.classList.toggle('lone', !hasTypes)
}
function lookLeft(numbers) {
const kind = shown()
const p = worstOf(numbers)
if (!p) return { text: '', name: 'not computed yet' }
const fail = broken(p)
if (fail) return { mark: 'bad', text: '✕', name: fail }
if (same(p) && !kind.all) return { text: '=', name: 'identical', two: p.type_b }
const v = kind.value(p)
if (v === null) return { text: none, name: 'not defined' }
return { text: kind.text(v), two: p.type_b, t: Math.min(1, Math.max(0, kind.at(v))), ramp: kind.ramp, name: kind.long(v) + ', ' + p.type_b, bold: p.odd === 2 }
}
function lookRight(numbers) {
const p = worstOf(numbers)
if (!p) return { text: '', name: 'not computed yet' }
const fail = broken(p)
if (fail) return { mark: 'bad', text: '✕', name: fail }
if (same(p)) return { text: '=', name: 'identical' }
if (!Number.isFinite(p.type_db) || p.db === null) return { text: none, name: 'its type keeps all' }
const v = p.db - p.type_db
return { text: one(v), t: Math.min(1, Math.max(0, -v / 6)), ramp: 'odd', name: one(v) + ' dB against ' + p.type_b, bold: p.odd === 2 }
}
function broken(p) {
if (p.error) return 'damaged: ' + p.error
if (p.only_in) return 'only in ' + p.only_in.toUpperCase()
if (p.lost) return 'NaN or infinite: ' + things(p.lost, 'value') + ', in one model alone'
return p.other_shape ? 'another shape' : ''
}
function worstOf(numbers) {
let w = null
for (const n of numbers) {
const p = by.get(n)
if (p && (!w || broken(p) || (p.db ?? Infinity) < (w.db ?? Infinity))) w = p
}
return w
}
function open(numbers) {
const p = worstOf(numbers)
if (p && p.only_in !== 'b') go(tensorLink(p.name))
}
function select() {
left?.select(marked, now)
right?.select(marked, now)
}
function update() {
by.clear()
for (const p of data.pairs) if (p) by.set(p.number, p)
isTune = data.pairs.some((p) => p && p.relative_rms > 0) && !data.pairs.some((p) => Number.isFinite(p?.type_db))
side()
const p = data.progress, busy = p && !p.done && !data.problem
progress.show(busy ? p.values / Math.max(1, p.all_values) : null, p?.seconds, `Reading both models: ${grouped(p?.tensors)} of ${grouped(p?.all_tensors)} tensors`)
notes.replaceChildren(...(data.problem ? [el('p', { class: 'note bad' }, el('b', { text: data.problem.text }), el('br'), el('span', { class: 'm', text: data.problem.line }), ' ' + (data.problem.hint ?? ''))] : []))
const o = data.overall
if (o) {
if (store.differ !== o.differ) changed()
store.differ = o.differ
const a = data.a, b = data.b
const exact = o.relative_rms === 0 // no decibels also mean that A is all zeros, or that nothing could be compared
const db = ['Overall, signal to error', exact ? 'identical' : o.db === null ? none : one(o.db) + thin + 'dB'], rms = ['Relative RMS', percent3(o.relative_rms)]
figures.replaceChildren(strip([
isTune ? rms : db, isTune && db, o.matrices_db !== null && ['Matrices of layers', one(o.matrices_db) + thin + 'dB'],
!isTune && rms, ['Cosine', cosine(o.cosine)],
['Changed', `${grouped(o.differ)} of ${grouped(o.differ + o.identical + o.only_a + o.only_b)}`, `${grouped(o.identical)} identical, ${grouped(o.only_a + o.only_b)} missing` + (o.damaged ? `, ${o.damaged} damaged` : '')],
a && b && ['Bits per weight', number(a.bits_per_weight) + ' → ' + number(b.bits_per_weight)],
a && b && ['Size', bytes(a.bytes) + ' → ' + bytes(b.bytes), (b.bytes > 1.005 * a.bytes ? '+' : '') + grouped(Math.round(100 * (b.bytes / a.bytes - 1))) + thin + '%'],
], isTune ? rms[0] : db[0]))
figures.firstElementChild?.classList.add('gapped')
}
cost.hidden = !data.findings.length
findings.update(data.findings, !busy)
cost.firstChild.textContent = 'What it cost' + (busy ? ', so far' : '')
makeMaps()
if (left) drawMaps()
if (o) {
bits.replaceChildren(...buy())
bits.parentElement.classList.toggle('lone', !bits.firstChild)
types.replaceChildren(...byType())
}
if (data.pairs.length) worstTable()
}
function drawMaps() {
const kind = shown()
left.update()
if (right.node.isConnected) right.update()
select()
maps.querySelector('h2').textContent = kind.name + ' by layer and role'
maps.querySelector('.kindsub').textContent = kind.sub
choice(maps.querySelector('.kindbox'), 'Measure of comparison', kinds.map((k) => [k.key, k.name]), kind.key, setKind)
const values = []
for (const r of left.rows) for (const n of r.cells.flat()) {
const q = by.get(n), v = q && (!same(q) || kind.all) ? kind.value(q) : null
if (v !== null && v !== undefined) values.push(kind.place ? kind.place(v) : v)
}
const m = { ...kind, short: String }
const w = left.node.clientWidth - (innerWidth > 600 ? 186 : 16)
maps.querySelector('.legendbox').replaceChildren(legend(m, kind.d, values, Math.min(600, w)))
maps.querySelector('.legend').style.marginLeft = innerWidth > 600 ? '178px' : '0'
const typewords = maps.querySelector('.typewords')
if (typewords) {
const lows = [...by.values()].filter((q) => Number.isFinite(q.db) && Number.isFinite(q.type_db)).map((q) => q.db - q.type_db)
const least = Math.min(...lows), explained = least > -3 && [...by.values()].every((q) => !Number.isFinite(q.db) || Number.isFinite(q.type_db))
typewords.textContent = 'Colour from 0 to −6 dB' + (lows.length ? `; the furthest is ${one(least)} dB` + (explained ? ', so the dB lost come from the types chosen, not from these weights.' : '.') : '.')
}
}
function kindOf(s) {
return kinds.find((k) => k.key === s.params.get('m')) ?? null
}
function shown() {
return kind ?? kinds[isTune ? 2 : 0]
}
function setKind(key) {
kind = null
if (key !== shown().key) kind = kinds.find((k) => k.key === key)
put({ m: kind?.key })
if (left) drawMaps()
}
function side() {
const box = (label, s, title) => el('div', { class: 'sidebox' }, faint(label), el('br'), el('b', { text: s?.title ?? title }), ' ', s ? faint([s.format, s.quantization || s.types, bytes(s.bytes)].filter(Boolean).join(' · ')) : null)
if (sides.children.length && sides.dataset.known === String(Boolean(data.a))) return
sides.dataset.known = String(Boolean(data.a))
sides.replaceChildren(box('A, the reference', data.a, swap ? store.model.compared.title : store.model.title), el('button', { class: 'btn', title: 'Swap A and B', click: exchange }, el('span', { class: 'hidden', text: 'Swap A and B' }), '⇄ ', kbd('x')), box('B', data.b, swap ? store.model.title : store.model.compared.title))
}
function exchange() {
go('#/compare?' + new URLSearchParams(swap ? {} : { swap: '1' }).toString().replace(/\?$/, ''))
say('A and B are swapped')
}
function buy() {
const points = [...by.values()].filter((p) => Number.isFinite(p.db) && Number.isFinite(p.bits) && !broken(p))
if (new Set(points.map((p) => Math.round(10 * p.bits))).size < 2) return []
const ts = data.types.filter((t) => Number.isFinite(t.db))
const xs = points.map((p) => p.bits).concat(ts.map((t) => t.bits)), ys = points.map((p) => p.db).concat(ts.map((t) => t.type_db).filter(Number.isFinite))
const x0 = Math.floor(Math.min(...xs) - 0.4), x1 = Math.ceil(Math.max(...xs) + 0.4), y0 = Math.floor((Math.min(...ys) - 2) / 5) * 5, y1 = Math.ceil(Math.max(...ys) / 5) * 5
const w = Math.max(320, Math.min(560, innerWidth - 32)), h = 264, x = (v) => 40 + ((w - 56) * (v - x0)) / (x1 - x0), y = (v) => 214 - (178 * (v - y0)) / Math.max(5, y1 - y0)
const g = svg('svg', { viewBox: `0 0 ${w} ${h}`, width: '100%', class: 'buyfig', role: 'img', 'aria-label': 'Bits per weight against dB: ' + ts.map((t) => `${t.type} ${number(t.bits)} bits, ${one(t.db)} dB`).join('; ') })
const stepY = [5, 10, 20, 50].find((s) => y1 - y0 <= 9 * s) ?? 100
for (let v = y0; v <= y1; v += stepY) g.append(svg('line', { class: 'gl', x1: 40, x2: w - 16, y1: y(v), y2: y(v) }), svg('text', { class: 'k e', x: 32, y: y(v) + 4, text: String(v).replace('-', '−') }))
const stepX = x1 - x0 > 10 ? 4 : 1
for (let v = x0; v <= x1; v += stepX) g.append(svg('text', { class: 'k c', x: x(v), y: 238, text: v }))
g.append(svg('text', { class: 'k', x: 0, y: 12, text: 'dB' }), svg('text', { class: 'k e', x: w - 16, y: 256, text: 'bits per weight' }))
const seen = {}
points.slice(0, 1500).forEach((p) => {
const i = (seen[p.type_b] = (seen[p.type_b] ?? 0) + 1)
g.append(svg('circle', { class: 'pt', cx: (x(p.bits) + (((i * 0.618034) % 1) - 0.5) * 22).toFixed(1), cy: y(p.db).toFixed(1), r: 3 }))
})
for (const t of ts) {
if (Number.isFinite(t.type_db)) g.append(svg('line', { class: 'ty', x1: x(t.bits) - 16, x2: x(t.bits) + 16, y1: y(t.type_db), y2: y(t.type_db) }))
const flip = x(t.bits) > w - 90
g.append(svg('text', { class: flip ? 'b e' : 'b', x: x(t.bits) + (flip ? -20 : 20), y: y(Number.isFinite(t.type_db) ? t.type_db : t.db) + 18, text: t.type + ' ' + grouped(seen[t.type] ?? 0) }))
}
g.append(svg('line', { class: 'ty', x1: 48, x2: 68, y1: 24, y2: 24 }), svg('text', { x: 74, y: 28, text: 'the type on Gaussian values' }), svg('circle', { class: 'pt', cx: 58, cy: 44, r: 3 }), svg('text', { x: 74, y: 48, text: 'a tensor' }))
return [el('h2', { text: 'What bits buy' }), g]
}
function byType() {
const rows = data.types.map((t) => el('tr', null, el('td', { class: 'l m', text: t.type }), el('td', { text: grouped(t.tensors) }), el('td', { class: 'wide', text: count(t.elements) }), el('td', { text: number(t.bits) }),
el('td', null, t.db === Infinity ? 'identical' : t.db === null ? none : dbChip(t.db)), el('td', { class: 'wide', text: one(t.type_db) }), el('td', { text: t.error_share ? percent(t.error_share) : '0' })))
return [el('h2', { text: 'By type' }), scroller('By type', el('table', { class: 'tb t8' }, el('thead', null, el('tr', null, [['type in B', 'l'], ['tensors', ''], ['values', 'wide'], ['bits', ''], ['dB', ''], ['Gaussian', 'wide'], ['share of error', '']].map(([h, c]) => el('th', { scope: 'col', class: c, text: h })))), el('tbody', null, rows)))]
}
function dbChip(v) {
const m = { ...kinds[0], text: one }
return chip({ ...m, unit: '' }, kinds[0].d, v, null)
}
const columns = [['name', 'tensor', 'l'], ['type_b', 'type', 'l wide'], ['bits', 'bits', 'wide'], ['db', 'dB', ''], ['to', 'to the type', 'wide'], ['relative_rms', 'relative RMS', 'wide'], ['cosine', 'cosine', 'wide'], ['max_abs', 'largest error', 'wide'], ['error_share', 'share of all error', 'wide']]
let tableKey = ''
function worstTable() {
const key = [sort, all, data.pairs.length, Boolean(data.overall), Math.floor(Date.now() / 500) * (data.overall ? 0 : 1)].join()
if (key === tableKey) return
tableKey = key
const value = (p, k) => (k === 'to' ? (p.db !== null && Number.isFinite(p.type_db) ? p.db - p.type_db : null) : p[k])
const [by_, down] = [sort.replace(/^-/, '') || 'db', sort.startsWith('-')]
const list = [...by.values()].filter((p) => !p.same_elements || broken(p))
list.sort((p, q) => {
const x = value(p, by_), y = value(q, by_)
if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0)
return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1)
})
list.sort((p, q) => Number(Boolean(broken(q))) - Number(Boolean(broken(p))))
const shown = list.slice(0, all ? 400 : 10), only = list.filter((p) => p.only_in).length
const held = worst.contains(document.activeElement) ? document.activeElement?.textContent?.replace(/ [↑↓]$/, '') : ''
worst.replaceChildren(el('div', { class: 'row mid', css: { 'margin-bottom': '4px' } }, el('h2', { text: 'Worst tensors' }), el('span', { class: 'sub', text: `${shown.length} of ${grouped(list.length)}` + (only ? ` · only in one model: ${only}` : ' · only in one model: 0') }),
list.length > 10 ? el('button', { class: 'link', text: all ? 'fewer' : 'all', click: () => { all = !all; worstTable() } }) : null,
el('span', { class: 'sp' }, el('button', { class: 'btn low', text: 'Copy command', click: () => copy(`tensormap diff ${[store.model, store.model.compared].map((m) => quote(m.from))[swap ? 'reverse' : 'slice']().join(' ')} --sort db`) }))),
scroller('Worst tensors', el('table', { class: 'tb' }, el('thead', null, el('tr', null, columns.map(([k, h, c]) => el('th', { scope: 'col', class: c, 'aria-sort': k === by_ ? (down ? 'descending' : 'ascending') : null }, el('button', { class: 'headbtn', text: h + (k === by_ ? (down ? ' ↓' : ' ↑') : ''), click: () => { sort = k === by_ ? (down ? k : '-' + k) : k === 'db' || k === 'name' || k === 'cosine' || k === 'to' ? k : '-' + k; put({ sort: sort === 'db' ? '' : sort }); worstTable() } }))))),
el('tbody', null, shown.map((p) => {
const fail = broken(p)
return el('tr', null, el('td', { class: 'l m name' }, p.only_in === 'b' ? p.name : el('a', { href: tensorLink(p.name), text: named(p.name), title: p.name })), el('td', { class: 'l wide', text: p.type_a === p.type_b ? p.type_a : (p.type_a || none) + ' → ' + (p.type_b || none) }),
el('td', { class: 'wide', text: number(p.bits) }), el('td', null, fail ? el('span', { class: 'chip bad', text: '✕ ' + fail.split(':')[0] }) : p.db === null ? none : dbChip(p.db)), el('td', { class: 'wide', text: one(value(p, 'to')) }), el('td', { class: 'wide', text: percent3(p.relative_rms) }),
el('td', { class: 'wide', text: cosine(p.cosine) }), el('td', { class: 'wide', text: number(p.max_abs) }), el('td', { class: 'wide', text: data.overall ? percent(p.error_share) : '' }))
})))))
if (held) [...worst.querySelectorAll('button')].find((b) => b.textContent?.startsWith(held))?.focus()
}
const end = listen(update)
update()
start()
return {
update,
state: () => (data.progress?.done || data.overall ? 'Exact: ' + grouped(data.progress?.values ?? 0) + ' pairs of values' + (data.progress && host !== 'file' ? ', ' + seconds(data.progress.seconds) : '') : 'Reading both models'),
leave: () => { end(); stop.abort(); left?.leave(); right?.leave() },
reset(s) {
if ((s.params.get('swap') === '1') !== swap) return false
kind = kindOf(s)
sort = s.params.get('sort') ?? ''
update()
return true
},
keys(e) {
if (e.key === 'x') exchange()
else if (e.key === 'o') findings.next()
else if (e.key === 'm' || e.key === 'M') {
setKind(kinds[(kinds.indexOf(shown()) + (e.key === 'm' ? 1 : -1) + kinds.length) % kinds.length].key)
say(shown().name)
} else if (e.key === 's') {
const keys = ['', 'to', '-relative_rms', '-error_share', 'name']
sort = keys[(keys.indexOf(sort) + 1) % keys.length]
put({ sort })
worstTable()
} else return false
return true
},
}
}
function percent3(x) {
return x === null ? none : number(100 * x) + thin + '%'
}
function forgetComparisons() {
kept.clear()
}
function needsSecond(main) {
const line = `tensormap explore ${quote(store.model.from)} SECOND`
main.append(el('section', { class: 'near' }, el('h1', { text: 'Compare' }), el('p', { class: 't8', text: 'A comparison needs a second model: an original and its quantization, or a base and its fine-tune. The first is the reference.' }),
el('pre', { css: { 'margin-top': '16px', 'max-width': '704px' }, text: line }), el('div', { class: 'btns' }, el('button', { class: 'btn', text: 'Copy command', click: () => copy(line) }))))
if (host === 'worker') chooser(main, () => document.dispatchEvent(new Event('again')), 'b')
return { reset: () => true, leave() {} }
}
return { compareView, forgetComparisons }
})()
const module_map = (() => {
const { ask, host } = module_ask
const { atRest, choice, el, kbd, say, svg } = module_dom
const { bytes, grouped, named, shape, thin } = module_format
const { go, put, read, tensorLink } = module_route
const { changed, rowsOf, store } = module_store
const words = { part: 'part', dtype: 'dtype', sigma: 'max in σ', memory: 'in memory' }
const copied = new Set('class x y width height d cx cy r id fill fill-opacity stroke stroke-opacity patternUnits patternTransform'.split(' '))
const sheet = new CSSStyleSheet()
const isNarrow = () => innerWidth <= 1000
function like(node) {
if (!['defs', 'pattern', 'rect', 'circle', 'path', 'text'].includes(node.localName)) return null
const props = Object.fromEntries([...node.attributes].filter((a) => copied.has(a.name)).map((a) => [a.name, a.value]))
return svg(node.localName, props, ...(node.localName === 'text' ? [node.textContent] : [...node.children].map(like)))
}
function legendTable(legend) {
const parts = []
for (const node of legend.children) {
const kind = node.getAttribute('class') ?? '', part = parts[parts.length - 1], last = part?.rows[part.rows.length - 1]
if (kind === 'u') parts.push({ heads: [node.textContent], rows: [] })
else if (kind === 'u e') part.heads.push(node.textContent)
else if (node.localName === 'rect') last && !last.cells.length ? last.squares.push(node) : part.rows.push({ squares: [node], cells: [] })
else if (node.localName === 'text' && last) last.cells.push(node.textContent)
}
return parts.filter((p) => p.rows.length).map((p) => el('table', { class: 'tb' },
el('thead', null, el('tr', null, p.heads.map((h, k) => el('th', { scope: 'col', class: place(k, p), text: h.toLowerCase().replace('of all', 'of all bytes') })))),
el('tbody', null, p.rows.map((r) => el('tr', null, r.cells.map((c, k) => el('td', { class: place(k, p) }, k ? null : square(r.squares), c.replace(/^0.0 %/, '<0.1 %').replace(/(\d) ?([KMGT]?i?B|[KMBT]|%)$/, '$1' + thin + '$2'))))))))
}
function place(k, part) {
return k === 0 ? 'l' : k === 2 && part.heads.length > 4 ? 'wide' : null
}
function square(rects) {
return svg('svg', { width: 12, height: 12, 'aria-hidden': 'true' }, rects.map((r) => svg('rect', { class: r.getAttribute('class'), width: 12, height: r.getAttribute('height') })))
}
function mapView(main) {
let by = read().params.get('by') ?? '', narrow = false, wanted = ''
const stop = new AbortController()
const modes = el('span'), note = el('span', { class: 'sub' }), legend = el('div', { class: 'maplegend' }), picture = el('div', { class: 'box', role: 'region', tabindex: 0, 'aria-label': 'Where bytes lie' }), looked = el('p', { class: 'written', role: 'status' })
let answer = null, order = [], at = null // the tensor or cell that is looked at
let cells = [] // {boxes, d, lines, first}: first is the number of the first tensor
const outline = svg('path', { class: 'now' })
if (!Object.hasOwn(words, by) || (host === 'file' && by === 'memory')) by = 'part' // what is in memory is not saved
main.append(el('div', { class: 'row mid' }, el('h1', { text: 'Where bytes lie' }), modes, note, el('span', { class: 'sp' }, el('button', { class: 'btn low', text: 'Save SVG', click: () => save().catch((e) => say(String(e))) }))),
el('div', { class: 'mappicture' }, legend, looked, picture))
load()
async function load() {
narrow = isNarrow()
const path = wanted = 'data/map?by=' + by + (narrow ? '&narrow' : '')
try {
const got = await (await ask(path, { signal: stop.signal })).json()
if (path !== wanted) return
answer = got
draw()
} catch (e) {
if (e.name !== 'AbortError') picture.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: e.problem?.text ?? 'The map cannot be drawn.' }), ' ', el('span', { class: 'm', text: e.problem?.line ?? String(e) })))
}
}
function take(b) {
by = b
put({ by: b === 'part' ? '' : b })
load()
}
function draw() {
if (answer.bys.length > 1) choice(modes, 'Colours', answer.bys.map((b) => [b, words[b] ?? b]), by, take)
note.replaceChildren(answer.note || '', ' ', el('span', { class: 'wide' }, kbd('←'), ' ', kbd('→'), ' tensor before, after, ', kbd('↵'), ' open'))
const [before, style, rest] = answer.svg.split(/<\/?style>/) // the page's policy forbids it within the document
const root = new DOMParser().parseFromString(before + rest, 'image/svg+xml').documentElement, key = root.querySelector('.legend')
sheet.replaceSync('.mappicture{' + style + '}')
document.adoptedStyleSheets = [sheet]
legend.replaceChildren(...legendTable(key))
picture.replaceChildren(inline(root))
if (at) show(at)
changed()
}
function inline(root) {
const wide = Number(root.getAttribute('width')), high = Number(root.getAttribute('height'))
const out = svg('svg', { role: 'img', 'aria-label': 'Map of the bytes of all tensors, coloured by ' + (words[by] ?? by) })
const groups = new Map()
let top = high
cells = []
for (const node of root.children) {
if (node.localName === 'g' || /bg/.test(node.getAttribute('class'))) continue
if (node.localName === 'text') top = Math.min(top, Number(node.getAttribute('y')) - 24)
if (!node.matches('.c')) {
out.append(like(node) ?? '')
continue
}
const kind = node.getAttribute('class'), d = node.getAttribute('d'), n = node.getAttribute('data-t')
const group = kind + /h1\.5v/.test(d) // narrow ones lie upon others
if (!groups.has(group)) {
groups.set(group, { path: svg('path', { class: kind }), d: [] })
out.append(groups.get(group).path)
}
groups.get(group).d.push(d)
cells.push({ d, first: n === null ? null : Number(n), lines: node.textContent.split('\n'), boxes: [...d.matchAll(/M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)/g)].map((m) => m.slice(1).map(Number)) })
}
for (const g of groups.values()) g.path.setAttribute('d', g.d.join(''))
out.append(outline)
for (const [k, v] of [['viewBox', `0 ${top} ${wide} ${high - top}`], ['width', wide], ['height', high - top]]) out.setAttribute(k, String(v))
return out
}
function under(e) {
const box = picture.querySelector('svg')?.getScreenCTM()
if (!box) return null
const x = (e.clientX - box.e) / box.a, y = (e.clientY - box.f) / box.d
return cells.findLast((c) => c.boxes.some(([left, top, w, h]) => x >= left && x <= left + w && y >= top && y <= top + h)) ?? null
}
function show(what) {
at = what
const r = store.rows[what.number ?? what.first]
const cell = what.boxes ? what : cellOf(what.number)
outline.setAttribute('d', cell?.d ?? '')
const many = what.boxes && (what.lines.length > 5 || r === undefined) ? what.lines.slice(0, 2).join(' · ') + (r ? ', from ' : '') : ''
looked.replaceChildren(many, ...(r ? [el('a', { class: 'm', href: tensorLink(r.name), text: named(r.name) }), ` · ${r.type} · ${shape(r.shape)} · ${bytes(r.stored_bytes)} at ${grouped(r.offset)}` + (store.model.files > 1 ? `, file ${r.file + 1}` : '')] : []))
}
function cellOf(number) {
const places = new Map(order.map((r, i) => [r.number, i])), here = places.get(number)
let found = null, best = -1
for (const c of cells) {
const p = places.get(c.first) ?? -1
if (p <= here && p > best) [best, found] = [p, c]
}
return found
}
function open() {
const n = at?.number ?? at?.first
if (n !== null && n !== undefined) rowsOf([n]).then(() => go(tensorLink(store.rows[n].name)), () => {})
}
async function save() {
const answer = await (await ask('data/map?by=' + by)).json()
const a = el('a', { href: URL.createObjectURL(new Blob([answer.svg.replace(/ data-t="\d+"/g, '')], { type: 'image/svg+xml' })), download: store.model.title + '.svg' })
a.click()
setTimeout(() => URL.revokeObjectURL(a.href), 1000)
say('Saved ' + a.download)
}
function step(d) {
order = store.rows.filter(Boolean).sort((a, b) => a.file - b.file || a.offset - b.offset)
if (!order.length) return
const i = at ? order.indexOf(store.rows[at.number ?? at.first]) + d : d > 0 ? 0 : order.length - 1
show({ number: order[Math.max(0, Math.min(order.length - 1, i))].number })
}
picture.addEventListener('mousemove', (e) => {
const cell = under(e)
picture.style.cursor = cell && cell.first !== null ? 'pointer' : ''
if (cell && cell !== at) show(cell)
})
picture.addEventListener('click', (e) => {
const cell = under(e)
if (!cell) return
show(cell)
if (e.pointerType !== 'touch') open() // a finger hits a neighbour: the name above the picture is the link
})
return {
update: () => { if (narrow !== isNarrow()) load() },
leave: () => { stop.abort(); document.adoptedStyleSheets = [] },
reset: () => false,
state: () => (answer ? bytes(store.model.bytes) + ' in ' + grouped(store.model.files) + (store.model.files === 1 ? ' file' : ' files') : ''),
keys(e) {
const bys = answer?.bys ?? []
if (e.key === 'ArrowRight') step(1)
else if (e.key === 'ArrowLeft') step(-1)
else if (e.key === 'Enter' && at && (atRest() || document.activeElement === picture)) open()
else if ((e.key === 'm' || e.key === 'M') && bys.length > 1) {
take(bys[(Math.max(0, bys.indexOf(by)) + (e.key === 'm' ? 1 : bys.length - 1)) % bys.length])
} else return false
return true
},
}
}
return { mapView }
})()
const module_metadata = (() => {
const { ask, host } = module_ask
const { choice, copy, el, faint, scroller } = module_dom
const { grouped, quote, things } = module_format
const { put, read, tensorLink } = module_route
const { changed, store } = module_store
const most = 3, rowHigh = 24, view = 288
function isB() {
return store.model.compared && read().params.get('of') === 'b'
}
function path(query = '') {
const parts = [isB() && 'compared', query].filter(Boolean)
return 'data/metadata' + (parts.length ? '?' + parts.join('&') : '')
}
function metadataView(main) {
const { compared } = store.model
const stop = new AbortController(), { signal } = stop
const found = el('span', { class: 'sub', role: 'status' }), tree = el('div', { class: 'tree' })
const field = el('input', { type: 'search', 'aria-label': 'Find in metadata', placeholder: 'find a key or a value', class: 'bigfield', autocomplete: 'off', spellcheck: 'false', input: () => search() })
let entries = [], graph = null, more = 0, isRead = false, timer = 0
const inLists = new Map() // how many values of a long list the search finds, by key
const folded = new Set()
const sides = el('span')
main.append(el('div', { class: 'row mid' }, el('h1', { text: 'Metadata' }), compared ? sides : null, found), el('div', { class: 'listbar t12' }, field), tree)
load()
const command = () => `tensormap inspect ${quote((isB() ? compared : store.model).from)} --json`
async function load() {
if (compared) choice(sides, 'Model', [['', 'A ' + store.model.title], ['b', 'B ' + compared.title]], isB() ? 'b' : '', (of) => { put({ of }); load() })
try {
const asked = path(), a = await (await ask(asked, { signal })).json()
if (asked !== path()) return
entries = a.entries ?? []
graph = a.graph
more = a.more
isRead = true
search()
changed()
} catch (e) {
if (e.name !== 'AbortError') tree.replaceChildren(el('p', { class: 'note bad' }, el('b', { text: e.problem?.text ?? 'The metadata cannot be read.' }), ' ', el('span', { class: 'm', text: e.problem?.line ?? String(e) })))
}
}
function search() {
inLists.clear()
draw()
clearTimeout(timer)
timer = setTimeout(() => searchLists(field.value.trim()).catch(() => {}), 150)
}
async function searchLists(q) {
if (!q || host === 'file') return
for (const e of entries) {
if (e.length > 0) {
const a = await (await ask(path(`key=${encodeURIComponent(e.key)}&q=${encodeURIComponent(q)}&from=0&count=1`), { signal })).json()
if (q !== field.value.trim()) return
inLists.set(e.key, a.matches)
}
}
draw()
}
function draw() {
const q = field.value.trim().toLowerCase()
const list = entries.filter((e) => !q || e.key.toLowerCase().includes(q) || e.value.toLowerCase().includes(q) || inLists.get(e.key))
found.textContent = q ? `${grouped(list.length)} of ${things(entries.length, 'key')}` : things(entries.length, 'key')
const groups = new Map()
for (const e of list) {
const g = e.key.match(/^[^.]+(\.json)?(?=\.)/)?.[0] ?? '' // config.json is the name of a file
if (!groups.has(g)) groups.set(g, [])
groups.get(g).push(e)
}
const out = []
for (const [g, es] of groups) {
const box = el('dl', { class: 'meta' }, es.slice(0, 500).flatMap((e) => [el('dt', null, el('span', { class: 'm', text: g && groups.size > 1 ? e.key.slice(g.length + 1) : e.key, title: e.key }), faint(e.type)), el('dd', null, value(e))]))
if (g && groups.size > 1) {
const d = el('details', { open: !folded.has(g), toggle: () => { d.open ? folded.delete(g) : folded.add(g) } }, el('summary', null, el('b', { class: 'm', text: g }), faint(' ' + grouped(es.length))), box)
out.push(d)
} else out.push(box)
if (es.length > 500) out.push(el('p', { class: 'sub', text: grouped(es.length - 500) + ' more: search for them' }))
}
if (more) out.push(el('p', { class: 'note', text: things(more, 'key') + ' more than the page shows: ' + command() + ' prints all' }))
if (!entries.length) out.push(el('p', { class: 'note', text: 'This file says nothing of itself beyond its tensors.' }))
if (store.model.summary && typeof store.model.summary === 'object' && !q && !isB()) out.push(el('details', null, el('summary', null, el('b', { text: 'Summary' })), el('pre', { text: JSON.stringify(store.model.summary, null, 2) })))
if (graph && !q) out.push(graphPart())
tree.replaceChildren(...out)
}
function value(e) {
if (e.length > 0) return longList(e)
const lines = e.value.split('\n')
if (lines.length <= most && e.value.length <= 400) return el('span', { class: 'm val', text: e.value })
const pre = el('pre', { tabindex: 0, text: lines.length > most ? lines.slice(0, most).join('\n') : e.value.slice(0, 400) + ' …' })
const more = el('button', { class: 'link', 'aria-expanded': 'false', text: lines.length > most ? things(lines.length - most, 'more line') : 'all of it', click: () => {
pre.textContent = e.value
more.remove()
} })
return el('div', null, pre, el('div', { class: 'row' }, more, el('button', { class: 'link', text: 'copy', click: () => copy(e.value) })))
}
function longList(e) {
if (host === 'file') return el('span', null, things(e.length, 'value') + ', ', faint('not in this file: '), el('span', { class: 'm', text: e.key.startsWith('config.json.') ? 'config.json' : command() }), faint(' has them'))
const box = el('div')
const q = inLists.get(e.key) ? field.value.trim() : ''
const button = el('button', { class: 'link', 'aria-expanded': String(Boolean(q)), text: 'show ' + things(e.length, 'value'), click: () => {
if (button.getAttribute('aria-expanded') === 'true') {
button.setAttribute('aria-expanded', 'false')
box.replaceChildren()
return
}
button.setAttribute('aria-expanded', 'true')
box.replaceChildren(listBox(e, signal, ''))
} })
if (q) box.append(listBox(e, signal, q))
return el('div', null, button, box)
}
function graphPart() {
const { nodes } = graph, names = (list) => list.slice(0, 12).map((i) => nodes[i]?.name || '#' + i).join(', ') + (list.length > 12 ? ', …' : '')
const cells = (n, i) => [n.op, el('span', { title: n.attributes ? JSON.stringify(n.attributes) : null, text: n.name || '#' + i }), names(n.inputs), el('span', null, n.tensors.slice(0, 12).flatMap((t, k) => [k ? ', ' : '', el('a', { href: tensorLink(t), text: t })]))]
return el('details', null, el('summary', null, el('b', { text: 'Graph' }), faint(' ' + things(nodes.length, 'operation'))),
el('p', { class: 'sub', text: 'inputs: ' + (names(graph.inputs) || 'none') + ' · outputs: ' + (names(graph.outputs) || 'none') }),
scroller('Graph', el('table', { class: 'tb' }, el('thead', null, el('tr', null, ['operation', 'name', 'inputs', 'tensors'].map((h) => el('th', { class: 'l', scope: 'col', text: h })))),
el('tbody', null, nodes.slice(0, 400).map((n, i) => el('tr', null, cells(n, i).map((c) => el('td', { class: 'l m wrap' }, c)))))), nodes.length > 400 ? el('p', { class: 'sub', text: grouped(nodes.length - 400) + ' more: tensormap inspect --json lists all' }) : null))
}
return { leave: () => { stop.abort(); clearTimeout(timer) }, reset: () => { load(); return true }, state: () => (isRead ? things(entries.length, 'key') : 'Reading the metadata'), keys: () => false }
}
function listBox(e, signal, q) {
const field = el('input', { type: 'search', 'aria-label': 'Find in ' + e.key, placeholder: 'find', autocomplete: 'off', spellcheck: 'false', input: () => { clearTimeout(timer); timer = setTimeout(again, 60) } })
const said = el('span', { class: 'sub', role: 'status' }), inner = el('div', { class: 'inner' }), scroll = el('div', { class: 'scroll', tabindex: 0, role: 'list', 'aria-label': e.key }, inner)
field.value = q
let timer = 0, total = 0, generation = 0
let windows = new Map()
scroll.addEventListener('scroll', draw)
function again() {
generation++
windows = new Map()
scroll.scrollTop = 0
fetchWindow(0)
}
async function fetchWindow(from) {
if (windows.has(from)) return
windows.set(from, null)
const mine = generation
try {
const a = await (await ask(path(`key=${encodeURIComponent(e.key)}&q=${encodeURIComponent(field.value.trim())}&from=${from}&count=100`), { signal })).json()
if (mine !== generation) return
total = a.matches
windows.set(from, a.values)
said.textContent = field.value.trim() ? `${grouped(total)} of ${grouped(e.length)}` : ''
draw()
} catch (x) {
if (x.name !== 'AbortError') said.textContent = x.problem?.text ?? String(x)
}
}
function draw() {
const first = Math.max(0, Math.floor(scroll.scrollTop / rowHigh) - 5), last = Math.min(total, Math.ceil((scroll.scrollTop + view) / rowHigh) + 5)
inner.style.height = total * rowHigh + 'px'
const out = []
for (let i = first; i < last; i++) {
const from = Math.floor(i / 100) * 100
fetchWindow(from)
const v = windows.get(from)?.[i - from]
out.push(el('div', { class: 'value', role: 'listitem', css: { top: i * rowHigh + 'px' } }, faint(v ? grouped(v.at) : ''), el('span', { class: 'm', text: v ? v.value : '…' })))
}
inner.replaceChildren(...out)
}
again()
return el('div', { class: 'long' }, el('div', { class: 'row mid' }, field, said), scroll)
}
return { metadataView }
})()
const module_main = (() => {
const { ask, host, onSwap, accept, Refusal, problemOf } = module_ask
const { copy, el, kbd, say, seen } = module_dom
const { grouped, seconds } = module_format
const { onTheme } = module_scale
const { forget, leave, listen, load, store } = module_store
const { back, go, link, read, step } = module_route
const { overview } = module_overview
const { listView } = module_list
const { tensorView } = module_tensor
const { compareView, forgetComparisons } = module_compare
const { mapView } = module_map
const { metadataView } = module_metadata
const { chooser } = module_chooser
const views = [
['overview', 'Overview', overview], ['tensors', 'Tensors', listView], ['compare', 'Compare', compareView], ['map', 'Map', mapView], ['metadata', 'Metadata', metadataView],
]
const $ = (id) => /** @type {any} */ (document.getElementById(id))
const main = $('main')
let view = null
let shownPath = ''
let lettersOff = stored('letters') === 'off'
function stored(key) {
try {
return localStorage.getItem('tensormap.' + key)
} catch {
return null
}
}
function frame() {
const m = store.model
document.title = seen(m ? m.title + ' · ' : '') + 'tensormap explore'
$('title').textContent = seen(m?.title ?? 'tensormap')
$('title').title = m?.from ?? ''
$('about').textContent = m ? (m.compared ? 'against ' + m.compared.title : [m.format, m.quantization].filter(Boolean).join(' · ')) : ''
const now = read().view
$('tabs').replaceChildren(...views.map(([key, name]) => el('a', { href: link(key), 'aria-current': key === now || (now === 't' && key === 'tensors') ? 'page' : null }, name,
key === 'tensors' && m ? el('small', { text: grouped(m.tensors) }) : key === 'compare' && store.differ ? el('small', { text: grouped(store.differ) }) : null)))
$('find').querySelector('input').placeholder = m?.example ?? ''
$('place').replaceChildren(host === 'server' ? 'read-only · ' + location.hostname : host === 'file' ? 'saved in one file' : 'read in this browser, nothing leaves it',
m && host === 'worker' ? el('button', { class: 'link small', text: ' · open another', click: choose }) : '')
}
function footer() {
const p = store.progress, m = store.model
if (store.differ && !$('tabs').children[2]?.querySelector('small')) frame()
if (!m || !p) {
$('state').textContent = ''
return
}
const bad = store.stats.filter((s) => s?.error && s.kind !== 'no values').length
const nan = store.stats.filter((s) => s && s.nan + s.pos_inf + s.neg_inf > 0).length
const odd = (bad ? ' · ' + bad + (bad === 1 ? ' tensor' : ' tensors') + ' damaged' : '') + (nan ? ' · ' + nan + ' with NaN or infinities' : '')
const read = !p.done ? 'Reading: ' : p.share < 1 ? 'Sampled: ' : 'Exact: '
$('state').textContent = (view?.state?.() ?? read + grouped(p.values) + ' of ' + grouped(p.all_values) + ' values' + (p.done && host !== 'file' ? ', read in ' + seconds(p.seconds) : '')) + odd
}
function route() {
const s = read()
step()
const path = s.view + '/' + s.name
if (path === shownPath && view?.reset?.(s)) return frame()
if (!store.model) return
view?.leave?.()
view = null
main.replaceChildren()
frame()
if (shownPath) main.focus({ preventScroll: true })
shownPath = path
const found = views.find(([key]) => key === s.view)
try {
if (s.view === 't') view = tensorView(main, s.name)
else view = (found ?? views[0])[2](main)
} catch (e) {
problem(problemOf(e))
}
swapNote()
footer()
scrollTo(0, 0)
}
function problem(p) {
main.replaceChildren(el('section', { class: 'near' },
el('p', { class: 'note bad' }, el('b', { text: p.text })), p.line ? el('pre', { class: 't12', text: p.line }) : null,
el('div', { class: 'btns' }, el('button', { class: 'btn', click: start }, 'Try again ', kbd('r')),
host === 'worker' ? el('button', { class: 'btn', text: 'Open another', click: choose }) : null,
p.line ? el('button', { class: 'btn', text: 'Copy the message', click: () => copy(p.line) }) : null),
p.hint ? el('p', { class: 'sub t16', text: p.hint }) : null))
}
function swapNote() {
document.getElementById('swap')?.remove()
if (!store.swapped) return
main.before(el('p', { class: 'note warn', id: 'swap', role: 'status' }, 'Another model is served now. This page still shows the one before. ', el('button', { class: 'link', text: 'Show the new one', click: start })))
}
function choose() {
view?.leave?.()
view = null
shownPath = ''
store.model = null
main.replaceChildren()
frame()
chooser(main, start)
}
async function start() {
accept()
document.getElementById('swap')?.remove()
forget()
forgetComparisons()
view?.leave?.()
view = null
shownPath = ''
try {
await load()
route()
} catch (e) {
if (host === 'worker' && e instanceof Refusal && e.status === 404) return choose()
frame()
problem(problemOf(e))
}
}
const keys = [
['/', 'find tensors'], ['1 – 5', 'views'], ['o', 'next finding'], ['m M', 'measure, next and before'], ['← → ↑ ↓', 'move in maps, lists, the matrix'], ['↵', 'open'], ['Esc', 'back to where you came from'],
['[ ]', 'the same role, a layer before or after'], ['→ ←', 'unfold, fold'], ['s', 'sort'], ['+ − 0', 'zoom'], ['c', 'copy the lines of Go'], ['x', 'swap A and B'], ['r', 'read again'], ['?', 'these keys'],
]
function showKeys() {
const box = el('input', { type: 'checkbox', change: () => {
lettersOff = !box.checked
try {
localStorage.setItem('tensormap.letters', lettersOff ? 'off' : 'on')
} catch { /* not kept */ }
} })
box.checked = !lettersOff
const dialog = el('dialog', { 'aria-label': 'Keys' }, el('h2', { text: 'Keys' }),
el('dl', null, ...keys.flatMap(([k, what]) => [el('dt', null, ...k.split(' ').filter((x) => x !== '–').flatMap((x, i) => [i ? ' ' : '', kbd(x)])), el('dd', { text: what })])),
el('label', null, box, 'Letters, digits and signs do something. They never do in fields.'),
el('div', { class: 'btns' }, el('button', { class: 'btn p', text: 'Close', click: () => dialog.close() })))
dialog.addEventListener('close', () => dialog.remove())
document.body.append(dialog)
dialog.showModal()
}
function key(e) {
if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return
const field = e.target.closest?.('input, select, textarea')
if (field) {
if (e.key === 'Escape') field.blur()
return
}
if (e.key.length === 1 && lettersOff && e.key !== '?') return
if (e.key === '?') showKeys()
else if (e.key === '/') openFind()
else if (view?.keys?.(e)) { /* the view did it */ }
else if (e.key >= '1' && e.key <= '5') go(link(views[Number(e.key) - 1][0]))
else if (e.key === 'Escape') back()
else if (e.key === 'r') start()
else return
e.preventDefault()
}
function openFind() {
$('find').classList.add('open')
const field = main.querySelector('input[type=search]') ?? $('find').querySelector('input')
field.focus()
field.select()
}
$('find').addEventListener('submit', (e) => {
e.preventDefault()
const field = $('find').querySelector('input')
go(link('tensors', { q: field.value.trim() }))
field.blur()
})
$('findbutton').addEventListener('click', openFind)
$('keysbutton').addEventListener('click', showKeys)
$('skip').addEventListener('click', (e) => {
e.preventDefault()
main.focus()
})
addEventListener('keydown', key)
addEventListener('hashchange', route)
document.addEventListener('again', start)
addEventListener('pagehide', leave)
addEventListener('resize', () => view?.update?.())
onTheme(() => view?.update?.())
if (host === 'server') setInterval(() => { // sees that another model is served
if (store.model?.tensors && !store.swapped && !document.hidden) ask('data/rows?numbers=0').then((r) => r.json()).catch(() => {})
}, 15000)
listen(footer)
onSwap(() => {
store.swapped = true
swapNote()
say('Another model is served now.')
})
frame()
start()
return { ask }
})()
export const { ask } = module_main
