// @ts-check
// Colours. Two sequential scales, of even steps of lightness: blue says how much, amber to plum how odd. Low recedes into
// the page in both themes.

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

/** Calls f whenever the theme changes. */
export function onTheme(f) {
  dark.addEventListener('change', f)
}

/** Returns 201 colours of a scale in the present theme, from low to high. */
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

/** Returns red, green and blue of a place on a scale from 0 to 1. */
export function rgb(ramp, t) {
  return steps(ramp)[Math.round(200 * Math.min(1, Math.max(0, t)))]
}

/** Returns a colour as CSS has it. */
export function colour(ramp, t) {
  return 'rgb(' + rgb(ramp, t).join(' ') + ')'
}

/** Returns black or white, whichever contrasts more with a place on a scale. */
export function ink(ramp, t) {
  const [r, g, b] = rgb(ramp, t).map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4))
  const l = 0.2126 * r + 0.7152 * g + 0.0722 * b
  return (l + 0.05) / 0.05 >= 1.05 / (l + 0.05) ? '#000' : '#fff'
}

/** Colours an element, text included. */
export function paint(node, ramp, t) {
  node.style.background = colour(ramp, t)
  node.style.color = ink(ramp, t)
}

/** Returns the place of x between a and b, by logarithms. */
export function byLog(x, a, b) {
  return b > a ? Math.log(Math.max(x, 1e-300) / a) / Math.log(b / a) : 0
}

/** Returns round numbers between a and b for a logarithmic axis: powers of 2, or 1, 2, 5 times powers of ten. */
export function logTicks(a, b) {
  const out = []
  for (let e = Math.floor(Math.log10(a)); e <= Math.ceil(Math.log10(b)); e++) {
    for (const m of [1, 2, 5]) {
      const v = m * 10 ** e
      if (v >= a * 0.999 && v <= b * 1.001) out.push(v)
    }
  }
  return out.length > 8 ? out.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6) : out
}

/** Returns the colour of a custom property of the page, for canvases. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
