// @ts-check
// The measures that maps show: what a tensor's value is, where it lies on a scale, how it is written and spoken.
import { byLog, logTicks } from './scale.js'
import { bytes, cell, number, percent, thin } from './format.js'

/** Returns the number at a share of a sorted list. */
function at(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))]
}

/** Says whether a tensor's figures cannot be had because it is damaged, or has NaN or infinities. */
export function broken(stat) {
  return Boolean(stat && ((stat.error && stat.kind !== 'no values') || stat.nan > 0 || stat.pos_inf > 0 || stat.neg_inf > 0))
}

/** Says whether all values of a tensor are zero. */
export function allZero(stat) {
  return Boolean(stat && !stat.sampled && stat.finite > 0 && stat.zeros === stat.finite)
}

/** Says whether distances from a tensor's mean can be told in σ. */
export function spreads(stat) {
  return stat.std > 0 && Number.isFinite(stat.std)
}

/** Returns the sign before a figure of a sample: ≥ or ≤ for what it bounds, ≈ for what it estimates. It is empty of exact figures. */
export function bound(stat, sign = '≥') {
  return stat?.sampled && sign ? sign + ' ' : ''
}

const zeroShare = (s) => (s.finite ? s.zeros / s.finite : null)

/** The measures in the order of the page. value gives undefined as long as it is not computed, null if there is none. */
export const measures = [
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

/** Writes a share of zeros in percent for a cell. */
function zeroText(v) {
  const p = 100 * v
  return p === 0 ? '0' : p < 0.01 ? '<0.01' : p < 1 ? String(Number(p.toPrecision(2))) : cell(p)
}

/** Returns the measure of a key; the largest in σ without one. */
export function measure(key) {
  return measures.find((m) => m.key === key) ?? measures[3]
}

/**
 * Fixes the scale of a measure from low to high: over the matrices of a grid, or over all its tensors where there are none; that of sizes
 * over the whole model. From least to most is the range of all tensors of the grid.
 */
export function domain(m, grid, rows, stats) {
  const lines = grid.groups.flatMap((g) => g.rows), matrices = lines.filter((r) => !r.vector)
  const numbersOf = (list) => list.flatMap((r) => r.cells.flat())
  const values = (numbers) => Array.from(numbers, (n) => m.value(rows[n], stats[n])).filter(Number.isFinite)
  const numbers = numbersOf(lines), all = values(numbers)
  // The domain of a measure with a fixed scale takes no values, and so has no parameters: nothing is sorted for it.
  const scale = m.domain.length ? values(m.add ? rows.keys() : matrices.length ? numbersOf(matrices) : numbers).sort((a, b) => a - b) : []
  const [low, high] = m.domain(scale.length ? scale : [1, 2])
  const least = all.reduce((a, b) => Math.min(a, b), Infinity), most = all.reduce((a, b) => Math.max(a, b), -Infinity)
  return { low, high, least, most, same: all.length > 1 && most - least <= 1e-3 * Math.abs(most), empty: all.length === 0, sampled: numbers.some((n) => stats[n]?.sampled) }
}

/** Returns the place of a value on the scale of a measure, from 0 to 1. */
export function position(m, d, v) {
  if (d.same && m.ramp === 'amount') return 0.12
  if (v === 0) return 0
  const t = m.log ? byLog(v, d.low, d.high) : (v - d.low) / (d.high - d.low)
  return Math.min(1, Math.max(0, t))
}

/** Returns the numbers that stand under the scale of a measure. */
export function ticks(m, d) {
  return m.ticks ?? (m.log ? logTicks(d.low, d.high) : [])
}

/** Says the range of a measure for its small map. */
export function range(m, d) {
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

/** Sums up the tensors of a cell: the worst of them colours it; □ and ✕ win. */
export function summary(m, numbers, rows, stats) {
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
