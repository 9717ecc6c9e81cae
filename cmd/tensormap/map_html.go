package main

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// The page's parts. Its only script is the one below, by its hash: whatever a name in a file
// holds, a browser runs nothing else, and fetches nothing.
var (
	//go:embed map_page.css
	mapPageCSS string
	//go:embed map_page.js
	mapPageJS string
)

func writeMapHTML(w *bufio.Writer, mm *modelMap) {
	hash := sha256.Sum256([]byte(mapPageJS))
	fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-%s'">
<meta name="viewport" content="width=device-width">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<header><input type="search" placeholder="filter by name, dtype, shape" aria-label="filter" autofocus><output></output></header>
<main>
`, base64.StdEncoding.EncodeToString(hash[:]), escaped(mm.title), mapPageCSS)
	lists := make(map[int][]string)
	drawn := 0
	p := picture{w: w, mm: mm, fill: fillsOf(mm.dtypes, mm.within), drawn: func(c *cell) {
		if len(c.spans) > 1 {
			lists[drawn] = c.lines()
		}
		drawn++
	}}
	p.draw()
	text, _ := json.Marshal(lists) // strings only; < and > are escaped
	fmt.Fprintf(w, `</main>
<div id="tip" hidden></div>
<script type="application/json" id="lists">%s</script>
<script>%s</script>
</body>
</html>
`, text, mapPageJS)
}

// lines are the spans of a cell for the search to find, printable.
func (c *cell) lines() []string {
	lines := make([]string, 0, len(c.spans))
	for i := range c.spans {
		if s := &c.spans[i]; s.kind != paddingSpan {
			lines = append(lines, printable(s.line()))
		}
	}
	return lines
}
