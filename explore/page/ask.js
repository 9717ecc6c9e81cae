// @ts-check
// One way to ask for data, over three hosts: a server, a worker that runs the same Go code in the browser, or the page
// itself, which has its answers inside.

const inside = document.getElementById('answers')
const worker = document.querySelector('meta[name=host][content=worker]') ? new Worker('worker.js') : null
let answers = inside ? JSON.parse(inside.textContent || '{}') : null

/** Says which host answers: "file", "worker" or "server". */
export const host = inside ? 'file' : worker ? 'worker' : 'server'

/** Is an answer that says what went wrong: text for people, the command's line, a hint. */
export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.text)
    this.problem = problem
    this.status = status
  }
}

/** Returns the problem of a Refusal, or of an error that nobody expected. */
export function problemOf(e) {
  return e.problem ?? { text: 'The page met something unexpected.', line: String(e.stack ?? e), hint: '' }
}

let known = ''
let swapped = () => {}

/** Calls f once an answer is of another model than the first. */
export function onSwap(f) {
  swapped = f
}

/** Takes the model that is served now as the one that the page shows. */
export function accept() {
  known = ''
}

/** Asks for a path. The answer has json(), lines() and bytes(), and header(name). Throws a Refusal. */
export async function ask(path, { signal } = {}) {
  const reply = await (host === 'file' ? fromFile(path) : host === 'worker' ? fromWorker(path, signal) : fromServer(path, signal))
  const id = reply.header('Model')
  if (id && known && id !== known) swapped()
  if (id && !known) known = id
  return reply
}

/** Says what to do about a file that the browser cannot read any more: an empty one may be gone as well. */
function explained(p) {
  if (!/the browser cannot read it|the file is empty/.test(p.line)) return p
  return { ...p, text: 'A file is empty or cannot be read: was it moved, removed or changed since it was given?', hint: 'Drop or choose it again.' }
}

/** Makes a Refusal of an answer that is an error. */
function refuse(text, status) {
  try {
    return new Refusal(explained(JSON.parse(text)), status)
  } catch {
    return new Refusal({ text: status === 403 ? 'This page is no longer allowed to read the model. Open the address that the command printed.' : 'The answer cannot be understood.', line: text.slice(0, 500).trim(), hint: '' }, status)
  }
}

/** Splits a stream of bytes into lines of JSON. */
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

// Messages to the worker are {id, path} and {id, stop}. From it come {id, status, headers}, then {id, chunk: Uint8Array} as
// often as needed, and {id, end}.
const waiting = new Map()
let next = 1
worker?.addEventListener('message', ({ data }) => waiting.get(data.id)?.(data))

/**
 * Makes the worker open a model: tell({files: [{path, file}]}), where path has the folders of a dropped folder, or
 * tell({address}); with side: 'b' the one to compare with. Resolves to {opened: true} or {problem: {text, line, hint}}.
 * Before any is open, data/model is refused with status 404.
 */
export function tell(message) {
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
