// @ts-check
// The address holds the state, after #: "#/?m=max_sigma&at=NAME", "#/t/NAME?as=max". A change of view is a step of the
// history, a change within a view replaces.

/** Reads the address: {view, name, params}. */
export function read() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const [view, ...rest] = path.split('/')
  const params = new URLSearchParams(query ?? '')
  let name = rest.join('/')
  try {
    name = decodeURIComponent(name)
  } catch { /* a name that is no encoding is itself */ }
  return { view: view || 'overview', name, params }
}

/** Writes an address. */
export function link(view, params, name) {
  const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== '' && v !== null && v !== undefined)).toString()
  return '#/' + (view === 'overview' ? '' : view) + (name === undefined ? '' : '/' + encodeURIComponent(name)) + (query ? '?' + query : '')
}

/** Writes the address of a tensor's view. */
export function tensorLink(name, params) {
  return link('t', params, name)
}

/** Goes to another view. */
export function go(address) {
  if (location.hash === address) return
  location.hash = address
}

let steps = -1 // that lie behind within this page
step()

/** Counts the steps to the present address, as the history keeps them. */
export function step() {
  steps = history.state?.steps ?? steps + 1
  history.replaceState({ ...history.state, steps }, '')
}

/** Goes back to where one came from within this page; to the overview if the page began here. */
export function back() {
  if (steps > 0) {
    steps--
    history.back()
  } else if (read().view !== 'overview') go('#/')
}

/** Replaces parameters of the present address, without a step of the history. Empty ones go. */
export function put(params) {
  const s = read()
  for (const [k, v] of Object.entries(params)) {
    if (v === '' || v === null || v === undefined) s.params.delete(k)
    else s.params.set(k, v)
  }
  history.replaceState(history.state, '', link(s.view, Object.fromEntries(s.params), s.view === 't' ? s.name : undefined))
}
