'use strict'
// Runs explore.wasm and hands it the messages of the page. If it cannot run, or ends, every request is answered with why.

importScripts('wasm_exec.js')

const waiting = new Set() // ids of requests that are not answered
let ended = null // why nothing runs any more

const post = self.postMessage.bind(self)
self.postMessage = (message, buffers) => {
  if (message.end || message.opened || message.problem) waiting.delete(message.id)
  post(message, buffers)
}

const reader = new FileReaderSync() // without leaving the worker's turn, which a promise would

// Reads the bytes from one to another of a file into a buffer, and returns how many there are.
self.readInto = (file, from, to, buffer) => {
  const bytes = new Uint8Array(reader.readAsArrayBuffer(file.slice(from, to)))
  buffer.set(bytes)
  return bytes.length
}

function fail(id) {
  const problem = { text: 'The program that reads the model does not run in this browser.', line: String(ended), hint: 'Load the page again.' }
  post({ id, status: 500, headers: { 'Content-Type': 'application/json' }, problem })
  post({ id, chunk: new TextEncoder().encode(JSON.stringify(problem)) })
  post({ id, end: true })
}

function end(why) {
  ended = why
  for (const id of waiting) fail(id)
  waiting.clear()
}

async function start() {
  const go = new Go()
  const { instance } = await WebAssembly.instantiateStreaming(fetch('explore.wasm'), go.importObject)
  go.run(instance).then(() => end('explore.wasm has ended: is its memory full?'), end)
}

const started = start().catch(end)

self.onmessage = async ({ data }) => {
  if (data.stop) waiting.delete(data.id)
  else waiting.add(data.id)
  await started
  if (!ended) self.receive(data)
  else if (waiting.delete(data.id)) fail(data.id)
}
