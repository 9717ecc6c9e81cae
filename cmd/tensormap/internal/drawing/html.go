package drawing

import (
	"bufio"
	"crypto/sha256"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"

	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// The page's texts. A policy allows only the script of globs and the one here, by their hash: whatever a name in a file
// holds, a browser runs nothing else, and fetches nothing.
var (
	//go:embed page.css
	mapPageCSS string
	//go:embed page.js
	mapPageJS string
	//go:embed page_head.html
	mapPageHead string // a format: the script's hash, the title, two styles
	//go:embed page_search.html
	mapPageSearch string
)

// WriteHTML writes a page with the picture of mm and a search for tensors. Errors are those of w.Flush.
func WriteHTML(w *bufio.Writer, mm *Map) {
	script := glob.JavaScript + mapPageJS
	hash := sha256.Sum256([]byte(script))
	p := picture{w: w, mm: mm, look: looksOf(mm.dtypes, mm.within)}
	fmt.Fprintf(w, mapPageHead, base64.StdEncoding.EncodeToString(hash[:]), escaped(mm.title), mapPageCSS, mapStyle)
	p.lookStyles()
	w.WriteString("</style>\n</head>\n<body>\n" + mapPageSearch)
	fmt.Fprintf(w, "<main>\n<h1>%s</h1>\n<p>%s</p>\n", escaped(mm.title), escaped(p.about()))
	w.WriteString(`<svg class="defs" width="0" height="0" aria-hidden="true">`)
	p.patterns()
	w.WriteString("</svg>\n<div class=\"legend\">\n")
	p.table("Tensors by dtype", []string{"dtype", "tensors", "elements", "size", "of all"}, p.dtypeRows())
	p.table("All else", []string{"what", "size", "of all"}, p.restRows())
	w.WriteString("</div>\n")
	var lists [][][]string
	for i := range mm.files {
		p.section(&mm.files[i], func(c *cell) { lists = append(lists, c.items()) })
	}
	text, _ := json.Marshal(lists) // strings only; < and > are escaped
	fmt.Fprintf(w, `</main>
<div id="tip" hidden></div>
<script type="application/json" id="lists">%s</script>
<script>%s</script>
</body>
</html>
`, terminal.PrintableJSON(text), script)
}

// table writes a table of the legend.
func (p *picture) table(caption string, heading []string, rows []legendRow) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(p.w, "<table>\n<caption><h2>%s</h2></caption>\n<thead><tr>", caption)
	for _, h := range heading {
		fmt.Fprintf(p.w, `<th scope="col">%s</th>`, h)
	}
	p.w.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range rows {
		fmt.Fprintf(p.w, `<tr><th scope="row"><svg width="%d" height="%[1]d" aria-hidden="true">`, swatch)
		p.swatch(row.class, 0, swatch-2)
		fmt.Fprintf(p.w, `</svg><bdi>%s</bdi></th>`, escaped(row.name))
		for _, number := range row.numbers {
			fmt.Fprintf(p.w, "<td>%s</td>", number)
		}
		p.w.WriteString("</tr>\n")
	}
	p.w.WriteString("</tbody>\n</table>\n")
}

// section writes a file twice, for two sizes of screen. The cells are in the same order.
func (p *picture) section(f *fileMap, drawn func(*cell)) {
	name, about := escaped(f.name), f.about(p.mm.resident != nil)
	heading, more := name, about+" · "
	if len(p.mm.files) == 1 { // the page has said it
		heading, more = "Map", ""
	}
	fmt.Fprintf(p.w, "<section aria-label=\"%s\">\n<h2>%s</h2>\n"+`<p>%sa row is <span class="wide">%s</span><span class="narrow">%s</span></p>`+"\n",
		name, heading, more, offset(p.mm.rowSize/wide.share), offset(p.mm.rowSize/narrow.share))
	for _, view := range []frame{wide, narrow} {
		d := p.in(view, f)
		d.drawn, drawn = drawn, nil // the second has the same cells
		fmt.Fprintf(p.w, `<svg class="map %s" viewBox="0 0 %d %d" role="img" aria-label="map of %s, %s">`+"\n",
			view.name, view.picture, f.rows(d.rowSize)*rowPitch, name, about)
		d.draw()
		p.w.WriteString("</svg>\n")
	}
	p.w.WriteString("</section>\n")
}

// items returns the spans of a cell for the search to find: what is shown of each, as name and
// the rest, and of a tensor the name itself, if it is shown in another way.
func (c *cell) items() [][]string {
	items := make([][]string, 0, len(c.spans))
	for i := range c.spans {
		s := &c.spans[i]
		if s.kind == paddingSpan && len(c.spans) > 1 {
			continue
		}
		shown := terminal.Printable(s.name())
		item := []string{shown, strings.TrimPrefix(s.line(), s.name())}
		switch {
		case s.tensor == nil:
			item = []string{shown + item[1]}
		case shown != string(s.tensor.Name):
			item = append(item, string(s.tensor.Name))
		}
		items = append(items, item)
	}
	return items
}
