// @ts-check
// Numbers as the page shows them: three significant digits, thousands with commas, units after a narrow space.

export const thin = '\u202f'
export const none = '–'

/** Writes an integer, or a decimal in digits, with commas and a true minus. */
export function grouped(x) {
  const [whole, rest] = String(x).split('.')
  return whole.replace(/\B(?=(\d{3})+$)/g, ',').replace('-', '−') + (rest === undefined ? '' : '.' + rest)
}

/** Writes a number, or a Value of package answer, with three significant digits; what is not defined is a dash. */
export function number(x) {
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

/** Gives infinite figures of an answer, which are text in JSON, their values, and returns it. */
export function reals(answer) {
  for (const key in answer) if (key !== 'name' && (answer[key] === 'Infinity' || answer[key] === '-Infinity')) answer[key] = Number(answer[key])
  return answer
}

/** Writes a number in a cell: one decimal below 10, none above. */
export function cell(x) {
  if (!Number.isFinite(x)) return number(x)
  const a = Math.abs(x)
  return grouped(a < 9.95 ? (a < 0.05 ? '0.0' : x.toFixed(1)) : x.toFixed(0))
}

/** Writes how many there are: exact below a million. */
export function count(n) {
  if (n < 1e6) return grouped(n)
  const [unit, by] = n < 999.5e6 ? ['M', 1e6] : n < 999.5e9 ? ['B', 1e9] : ['T', 1e12]
  return number(n / by) + thin + unit
}

/** Writes bytes in units of 1,024. */
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  while (n >= 1024 && i < 4) {
    n /= 1024
    i++
  }
  return (i === 0 ? grouped(n) : number(n)) + thin + units[i]
}

/** Writes a share of 1 in percent: one decimal, or three digits if that would be 0.0. */
export function percent(x) {
  if (!Number.isFinite(x)) return number(x)
  const p = 100 * x
  if (p === 0 || p === 100) return p + thin + '%'
  return (Math.abs(p) < 0.05 ? number(p) : grouped(p.toFixed(1))) + thin + '%'
}

/** Writes a dimension list: 384×1536. */
export function shape(dims) {
  return dims ? (dims.length ? dims.join('×') : 'scalar') : ''
}

/** Writes a name: between quotes if there is nothing to see of it. */
export function named(name) {
  return name.trim() ? name : '"' + name + '"'
}

/** Writes a place: [99, 856]. */
export function place(at) {
  return '[' + at.join(', ') + ']'
}

/** Writes seconds. */
export function seconds(s) {
  if (s < 0.1) return number(1000 * s) + thin + 'ms'
  if (s < 120) return (s < 10 ? s.toFixed(2) : s.toFixed(0)) + thin + 's'
  return Math.round(s / 60) + thin + 'min'
}

/** Returns a function that says how far a share is at so many seconds, and how long the rest takes at the rate of the last second. */
export function pace() {
  let marks = [[0, 0]]
  return (share, at) => {
    if (share < marks[marks.length - 1][0]) marks = [[0, 0]]
    if (at > marks[marks.length - 1][1]) marks.push([share, at])
    while (marks.length > 2 && at - marks[1][1] >= 1) marks.shift()
    const took = at - marks[0][1], rate = (share - marks[0][0]) / took
    return Math.floor(100 * share) + ' %' + (share > 0.02 && took > 0.3 && rate > 0 ? ' · about ' + seconds(Math.max(1, Math.round((1 - share) / rate))).replace('.00', '') + ' left' : '')
  }
}

/** Writes a number of things: "1 tensor", "104 tensors". */
export function things(n, one, many = one + 's') {
  return count(n) + ' ' + (n === 1 ? one : many)
}

/** Quotes an argument of the command where it needs that. */
export function quote(s) {
  return /^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'"
}
