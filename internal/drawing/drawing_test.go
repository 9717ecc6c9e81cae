package drawing

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func svgOf(t testing.TB, path string) string { return colored(t, path, nil) }

// colored returns the picture of a model with its tensors coloured by c, or by dtype if c is nil.
func colored(t testing.TB, path string, c *Coloring) string {
	t.Helper()
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := WriteSVG(w, m, &Options{Format: Wide, Title: filepath.Base(path), Coloring: c}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	return b.String()
}

// linesWith are the lines of a picture that hold part.
func linesWith(picture, part string) (lines []string) {
	for line := range strings.Lines(picture) {
		if strings.Contains(line, part) {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// The header's 248 bytes take five rows of 48 and eight bytes of a sixth, whose 1080 pixels
// have 22.5 to the byte; a.weight begins there.
func TestMapCells(t *testing.T) {
	picture := svgOf(t, modeltest.Small(t))
	rows := [6]int{}
	for i := range rows {
		rows[i] = legendTop + 3*legendPitch + i*rowSpace
	}
	var header strings.Builder
	for _, y := range rows[:5] {
		fmt.Fprintf(&header, "M96 %dh1080v28h-1080z", y)
	}
	last := rows[5]
	about := `<title>header` + "\n248 B at offset 0</title></path>"
	want := fmt.Sprintf(`<path class="c s" d="%sM96 %dh179v28h-179z">%s`, header.String(), last, about)
	if !strings.Contains(picture, want) {
		t.Errorf("no header %q", want)
	}
	want = fmt.Sprintf(`<path class="c d0" d="M276 %dh539v28h-539z"><title>a.weight`+"\nF32 2×3\n24 B at offset 248</title></path>", last)
	if !strings.Contains(picture, want) {
		t.Errorf("no a.weight %q in\n%s", want, picture)
	}
	want = fmt.Sprintf(`<path class="c d1" d="M816 %dh179v28h-179z"><title>b/bias`+"\nI16 4\n8 B at offset 272</title></path>", last)
	if !strings.Contains(picture, want) {
		t.Errorf("no b/bias %q", want)
	}
	if got := linesWith(picture, `class="c `); len(got) != 3 {
		t.Errorf("%d cells", len(got))
	}
	for _, label := range []string{`<text class="l w" x="100" y="` + strconv.Itoa(rows[0]+18) + `">header</text>`,
		`<text class="l" x="280" y="` + strconv.Itoa(last+18) + `">a.weight</text>`,
		`<text class="l" x="820" y="` + strconv.Itoa(last+18) + `">b/bias</text>`} {
		if !strings.Contains(picture, label) {
			t.Errorf("no label %q", label)
		}
	}
}

func TestMapLegend(t *testing.T) {
	text := strings.Join(texts(t, svgOf(t, apr2Fixtures+"compressed.apr")), "|")
	for _, want := range []string{"compressed.apr|apr2 2.0 · ", "DTYPE|TENSORS|ELEMENTS|SIZE|OF ALL|", "|header|32 B|", "|footer|16 B|", "|lz4: ", " raw|"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	gaps := strings.Join(texts(t, svgOf(t, apr2Fixtures+"gap.apr")), "|")
	if !strings.Contains(gaps, "|padding|326 B|24.4 %") || !strings.Contains(gaps, "|belongs to nothing|412 B|30.8 %") {
		t.Errorf("gaps: %q", gaps)
	}
}

// texts are the texts of a picture, which must be well-formed, in order.
func texts(t testing.TB, picture string) (list []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	d.Strict = true
	in := ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			in = x.Name.Local
		case xml.CharData:
			if in == "text" {
				list = append(list, string(x))
			}
		case xml.EndElement:
			in = ""
		}
	}
}

var pathData = regexp.MustCompile(`M([\d.]+) ([\d.]+)h([\d.]+)v(\d+)h-([\d.]+)z`)

// TestMapFixtures: pictures of all formats are well-formed, say the same twice, and draw
// nothing outside of rows.
func TestMapFixtures(t *testing.T) {
	testmode.Sequential(t)
	modeltest.EveryFixture(t, "../../testdata", openFixture, func(t *testing.T, path string) {
		picture := svgOf(t, path)
		if picture != svgOf(t, path) {
			t.Error("another picture the second time")
		}
		texts(t, picture)
		for _, line := range linesWith(picture, `class="c `) {
			boxes := pathData.FindAllStringSubmatch(line, -1)
			if len(boxes) == 0 {
				t.Errorf("nothing drawn by %q", line)
			}
			for _, box := range boxes {
				x, _ := strconv.ParseFloat(box[1], 64)
				width, _ := strconv.ParseFloat(box[3], 64)
				if x < float64(Wide.left) || x+width > float64(Wide.left+Wide.width)+0.01 || width <= 0 || box[3] != box[5] {
					t.Errorf("drawn outside of its row: %q", box[0])
				}
			}
		}
	})
}

// TestMapCovers: the ranges of a file lie side by side from its first byte to its last.
func TestMapCovers(t *testing.T) {
	modeltest.EveryFixture(t, "../../testdata", openFixture, func(t *testing.T, path string) {
		m, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, info := range m.Files() {
			at := uint64(0)
			for _, s := range rangesOf(info.Layout.Index(), partsOf(m)) {
				if s.off != at || s.size == 0 {
					t.Errorf("%s: %d bytes at %d, want them at %d", s.name(), s.size, s.off, at)
				}
				at = s.end()
			}
			if at != info.Size {
				t.Errorf("ranges end at %d of %d", at, info.Size)
			}
		}
	})
}

// Labels stay inside of their cells, so none lies upon another.
func TestMapLabelsFit(t *testing.T) {
	label := regexp.MustCompile(`<text class="l[^"]*" x="([\d.]+)" y="([\d.]+)">(.*)</text>`)
	modeltest.EveryFixture(t, "../../testdata", openFixture, func(t *testing.T, path string) {
		right := make(map[string]float64)
		for _, line := range linesWith(svgOf(t, path), `<text class="l`) {
			part := label.FindStringSubmatch(line)
			x, _ := strconv.ParseFloat(part[1], 64)
			if x < right[part[2]] {
				t.Errorf("%q begins before another label of its row ends", part[3])
			}
			right[part[2]] = max(right[part[2]], x+letter*float64(len([]rune(part[3]))))
		}
	})
}

func TestMapShards(t *testing.T) {
	text := strings.Join(texts(t, svgOf(t, "../../testdata/shards/apr2/model.apr")), "|")
	for _, want := range []string{"|model-00001-of-00004.apr|", "|model-00004-of-00004.apr|", "|manifest|"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// hostileNames in the header of a SafeTensors file.
var hostileNames = []string{`</script><script>alert(1)</script>`, `</title><script>alert(1)</script>`, `]]>&lt;"'`, `<!--`, `\u001b[2J\u202e\u0085\ufffe`, `a\nb`, `"`}

func hostileFile(t testing.TB) string {
	var header strings.Builder
	for i, name := range hostileNames {
		fmt.Fprintf(&header, `,"%s":{"dtype":"U8","shape":[100],"data_offsets":[%d,%d]}`, strings.ReplaceAll(name, `"`, `\"`), i*100, i*100+100)
	}
	return modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}", make([]byte, 100*len(hostileNames))...)
}

func TestMapHostileNames(t *testing.T) {
	file := hostileFile(t)
	out := svgOf(t, file)
	texts(t, out)
	plain(t, out)
	if strings.Contains(out, "<script") || strings.Contains(out, "<!--") || strings.Contains(out, "]]>") {
		t.Error("a name is markup")
	}
	for _, want := range []string{"&lt;/script&gt;&lt;script&gt;alert(1)", `\x1b[2J\u202e\u0085\ufffe`, `a\nb`, "&lt;!--"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestMapManyTensors(t *testing.T) {
	testmode.Sequential(t)
	var header strings.Builder
	const n = 100_000
	for i := range n {
		fmt.Fprintf(&header, `,"model.layers.%d.part%d.weight":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, i/9, i%9, 1000, i*1000, i*1000+1000)
	}
	file := modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()+n*1000); err != nil {
		t.Fatal(err)
	}
	picture := svgOf(t, file)
	cells := linesWith(picture, `class="c `)
	if most := 48 * Wide.width / leastWidth * 2; len(cells) > most || len(picture) > 15<<20 {
		t.Errorf("%d cells (%d at most), picture of %d bytes", len(cells), most, len(picture))
	}
	sum := 0
	several := regexp.MustCompile(`<title>([\d,]+) tensors`)
	for _, line := range cells {
		if part := several.FindStringSubmatch(line); part != nil {
			k, _ := strconv.Atoi(strings.ReplaceAll(part[1], ",", ""))
			sum += k
		} else if strings.Contains(line, "<title>model.") {
			sum++
		}
	}
	if sum != n {
		t.Errorf("%d tensors are drawn", sum)
	}
}

func TestGapRange(t *testing.T) {
	for _, test := range []struct {
		off, end uint64
		want     rangeKind
	}{
		{100, 128, paddingRange}, // 28 bytes to a multiple of 128
		{64, 128, paddingRange},
		{0, 128, unknownRange}, // as much as the alignment
		{1, 4096, paddingRange},
		{7, 9, unknownRange}, // an odd end is not aligned
		{1, 64 << 10, paddingRange},
		{1, 128 << 10, unknownRange}, // an alignment of 128 KiB is chance
		{64<<10 + 1, 128 << 10, paddingRange},
	} {
		if got := gapRange(test.off, test.end); got.kind != test.want || got.off != test.off || got.end() != test.end {
			t.Errorf("%d to %d: %+v", test.off, test.end, got)
		}
	}
}

func TestRowBytes(t *testing.T) {
	for _, test := range []struct {
		bytes  uint64
		ranges int
		want   uint64
	}{{0, 0, 16}, {1, 1, 16}, {128, 3, 16}, {129, 3, 24}, {280, 3, 48}, {1 << 20, 10, 128 << 10}, {1<<20 + 1, 10, 192 << 10},
		{1 << 20, 400, 128 << 10}, {1 << 20, 1 << 20, 24 << 10}, {1 << 63, 5000, 3 << 56}, {1<<64 - 1, 10, 1 << 61}} {
		if got := Wide.rowBytes(test.bytes, test.ranges); got != test.want {
			t.Errorf("%d bytes, %d ranges: %d, want %d", test.bytes, test.ranges, got, test.want)
		}
	}
}

func TestOffset(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 48: "48 B", 1023: "1,023 B", 1024: "1 KiB", 1056: "1,056 B", 1152 << 10: "1.125 MiB", 1536: "1.5 KiB", 2304 << 10: "2.25 MiB",
		12 << 20: "12 MiB", 3 << 29: "1.5 GiB", 1 << 63: "8 EiB"} {
		if got := exactSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestFitted(t *testing.T) {
	const name = "blk.0.attn_q.weight"
	for room, want := range map[int]string{40: name, 19: name, 18: "blk.0.attn_q", 12: "blk.0.attn_q", 11: "…0.attn_q", 9: "…0.attn_q", 8: "…attn_q", 7: "…attn_q", 6: "", 0: "", -1: ""} {
		if got := shortenLabel(name, "", room); got != want {
			t.Errorf("%d: %q, want %q", room, got, want)
		}
	}
	if got := shortenLabel("abcdefghijklmnopqrstuvwxyz", "", 13); got != "abcdef…uvwxyz" {
		t.Errorf("%q", got)
	}
	if got := shortenLabel("a.self.query", "query", 8) + shortenLabel("a.out.dense", "out.dense", 10) + shortenLabel("a.out.dense", "out.dense", 9); got != "…query…out.dense" {
		t.Errorf("%q", got)
	}
	if got := shortenLabel("重み重み", "", 7) + shortenLabel("重み", "", 4); got != "重み" {
		t.Errorf("%q", got)
	}
}

func sizes(cells []cell) (list [][]uint64) {
	for _, c := range cells {
		var of []uint64
		for _, s := range c.ranges {
			of = append(of, s.size)
		}
		list = append(list, of)
	}
	return list
}

func TestNewCells(t *testing.T) {
	const least = 10
	for _, test := range []struct {
		ranges string // sizes; p before one is padding
		want   string
	}{
		{"20 30", "[[20] [30]]"},
		{"4 4 4 4 4", "[[4 4 4] [4 4]]"},
		{"20 4 4 20", "[[20] [4 4] [20]]"},
		{"20 p4 20 p4 20", "[[20] [20] [20]]"}, // what aligns is not worth a line
		{"20 p12 20", "[[20] [12] [20]]"},
		{"4 p3 4", "[[4 3 4]]"},
		{"p3 4 p3", "[[4 3]]"},
		{"1", "[[1]]"},
		{"", "[]"},
	} {
		var ranges []fileRange
		for word := range strings.FieldsSeq(test.ranges) {
			s := fileRange{}
			digits, padding := strings.CutPrefix(word, "p")
			if padding {
				s.kind = paddingRange
			}
			s.size, _ = strconv.ParseUint(digits, 10, 64)
			ranges = append(ranges, s)
		}
		if got := fmt.Sprint(sizes(newCells(ranges, least))); got != test.want {
			t.Errorf("%q: %s, want %s", test.ranges, got, test.want)
		}
	}
}

// Tensors inside of others may lie in one another by the thousand, and must not be drawn each.
func TestNewCellsAbove(t *testing.T) {
	const least = 10
	for _, test := range []struct {
		ranges [][2]uint64
		want   string
	}{
		{nil, "[]"},
		{[][2]uint64{{100, 20}, {0, 50}}, "[[50] [20]]"},
		{[][2]uint64{{0, 50}, {50, 50}}, "[[50] [50]]"},
		{[][2]uint64{{0, 50}, {20, 10}, {40, 30}, {69, 1}}, "[[50 10 30 1]]"},
		{[][2]uint64{{0, 4}, {4, 4}, {8, 4}, {12, 4}}, "[[4 4 4] [4]]"},
		{[][2]uint64{{0, 4}, {30, 4}}, "[[4] [4]]"},
		{[][2]uint64{{0, 50}, {52, 4}}, "[[50] [4]]"},
	} {
		ix := &layout.Index{}
		for _, s := range test.ranges {
			ix.Tensors = append(ix.Tensors, layout.Tensor{Alias: true, Offset: s[0], Stored: s[1]})
		}
		ix.Tensors = append(ix.Tensors, layout.Tensor{Stored: 1000}, layout.Tensor{Alias: true})
		if got := fmt.Sprint(sizes(newCellsAbove(ix, least))); got != test.want {
			t.Errorf("%v: %s, want %s", test.ranges, got, test.want)
		}
	}
}

func TestMapMemory(t *testing.T) {
	f := fileMap{size: 2700 + 1350}
	inMemory := func(off, n uint64) (uint64, error) { // the first 1,005 bytes, and from 2,700 on
		switch {
		case off >= 2700, off+n <= 1005:
			return n, nil
		case off < 1005:
			return 1005 - off, nil
		}
		return 0, nil
	}
	if err := f.measure(2700, inMemory); err != nil {
		t.Fatal(err)
	}
	want := []memoryRange{{0, 1000, true}, {1000, 1010, false}, {2700, 4050, true}}
	if !slices.Equal(f.memory, want) || f.resident != 1005+1350 {
		t.Errorf("%v, %d", f.memory, f.resident)
	}
	failed := errors.New("no")
	if err := f.measure(2700, func(uint64, uint64) (uint64, error) { return 0, failed }); err != failed {
		t.Error(err)
	}
	tiny := fileMap{size: 20}
	if err := tiny.measure(16, func(_, n uint64) (uint64, error) { return n, nil }); err != nil || tiny.resident != 20 || len(tiny.memory) != 1 {
		t.Errorf("%+v, %v", tiny, err)
	}
}

func TestFills(t *testing.T) {
	of := func(names ...string) (list []report.Total) {
		for _, name := range names {
			d, ok := layout.ParseDType(name)
			if !ok {
				t.Fatal(name)
			}
			list = append(list, report.Total{Kind: d.String()})
		}
		return list
	}
	for _, lists := range [][][]report.Total{
		{of("F32")}, {of("F16", "F32")}, {of("Q4_K", "Q4_0", "Q6_K", "F32")},
		{of("U64"), of("F32", "U64", "I16")},
	} {
		fills := fillsOf(lists...)
		if f, ok := fills["F32"]; ok && f != commonFills["F32"] {
			t.Errorf("%v: F32 looks different", fills)
		}
		distinct(t, fills)
	}
	var all []report.Total
	for d := range layout.DType(math.MaxUint8) {
		if _, ok := layout.ParseDType(d.String()); ok {
			all = append(all, report.Total{Kind: d.String()})
		}
	}
	if len(all) < 60 {
		t.Fatalf("%d dtypes", len(all))
	}
	distinct(t, fillsOf(all, all))
	distinct(t, fillsOf(all[len(all)/2:], all[:len(all)/2]))
	distinct(t, commonFills)
}

// distinct wants another look for each dtype.
func distinct(t *testing.T, fills map[string]fill) {
	t.Helper()
	seen := make(map[string]string)
	for d, f := range fills {
		color, texture := f.look()
		look := color + texture
		if other, ok := seen[look]; ok {
			t.Errorf("%v and %v look the same, %s", d, other, look)
		}
		seen[look] = d
	}
}

// vision is how people see linear light: all, and those who lack one kind of cone (Machado,
// Oliveira, Fernandes 2009, severity 1).
var vision = map[string][3][3]float64{
	"all":          {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// linear is the light of a colour such as "#77aadd", of 0 to 1.
func linear(color string) (light [3]float64) {
	for i := range light {
		n, _ := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		c := float64(n) / 255
		light[i] = c / 12.92
		if c > 0.04045 {
			light[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return light
}

func multiplied(m [3][3]float64, v [3]float64) (p [3]float64) {
	for i := range m {
		for j := range v {
			p[i] += m[i][j] * v[j]
		}
	}
	return p
}

// oklab is where distances are differences that people see (Ottosson 2020).
func oklab(light [3]float64) [3]float64 {
	lms := multiplied([3][3]float64{{0.4122214708, 0.5363325363, 0.0514459929}, {0.2119034982, 0.6806995451, 0.1073969566}, {0.0883024619, 0.2817188376, 0.6299787005}}, light)
	for i := range lms {
		lms[i] = math.Cbrt(max(lms[i], 0))
	}
	return multiplied([3][3]float64{{0.2104542553, 0.7936177850, -0.0040720468}, {1.9779984951, -2.4285922050, 0.4505937099}, {0.0259040371, 0.7827717662, -0.8086757660}}, lms)
}

// TestColors: any two colours, and a colour and its surroundings, differ for people of any colour
// vision. Dark text upon each can be read (WCAG 2: a contrast of 4.5).
func TestColors(t *testing.T) {
	for name, cones := range vision {
		least := 0.036 // about two differences that are just seen
		if name == "all" {
			least = 0.08
		}
		seen := func(color string) [3]float64 { return oklab(multiplied(cones, linear(color))) }
		for i, a := range colors {
			for _, b := range append([]string{"#5b6b82"}, colors[:i]...) {
				x, y := seen(a), seen(b)
				if d := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); d < least {
					t.Errorf("%s and %s are %.3f apart (%s)", a, b, d, name)
				}
			}
		}
	}
	luminance := func(color string) float64 {
		light := linear(color)
		return 0.2126*light[0] + 0.7152*light[1] + 0.0722*light[2]
	}
	for _, color := range colors {
		if contrast := (luminance(color) + 0.05) / (luminance("#141a24") + 0.05); contrast < 4.5 {
			t.Errorf("text on %s has a contrast of %.1f", color, contrast)
		}
	}
}

func openFixture(path string) (*loader.Model, error) { return loader.Open(path, nil) }

// plain wants nothing that a terminal would obey.
func plain(t testing.TB, output string) {
	t.Helper()
	modeltest.Plain(t, output, report.Printable)
}

const apr2Fixtures = "../../testdata/apr2/"

// layered has 24 layers of 32 KB.
func layered(t *testing.T) string {
	var header strings.Builder
	const layers, each = 24, 32_000
	for i := range layers {
		fmt.Fprintf(&header, `,"blk.%d.ffn[0]":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, i, each, i*each, (i+1)*each)
	}
	return modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}", make([]byte, layers*each)...)
}

// TestMapStructure: what a person finds who does not see the picture.
func TestMapStructure(t *testing.T) {
	picture := svgOf(t, layered(t))
	for _, want := range []string{"<title>Map of model.safetensors</title>", "<desc>safetensors · ", `role="img"`} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestMapColoring: a map by kinds has their colours, a bracket over each group, and labels in place of names. Names stay text.
func TestMapColoring(t *testing.T) {
	layer := func(name string) string { return "layer " + strings.Split(name, ".")[1] }
	c := &Coloring{Heading: "part", Kinds: []Kind{{"even", "#472000", "#ffeedd"}, {"odd", "#eeddcc", "#112233"}},
		Of:    func(name string) int { return int(layer(name)[len(layer(name))-1]-'0') % 2 },
		Group: layer, Label: func(string) (string, string) { return "up", "" }}
	picture := colored(t, layered(t), c)
	for want, n := range map[string]int{
		"svg .d0{fill:#472000}svg .t0{fill:#fff}@media (prefers-color-scheme:dark){svg .d0{fill:#ffeedd}svg .t0{fill:#000}}": 1, "svg .d1{fill:#eeddcc}svg .t1{fill:#000}": 1,
		`<text class="l t0" `: 12, `<text class="l t1" `: 12, ">up</text>": 24, ">layer 23</text>": 1, ">PART</text>": 1,
	} {
		if got := strings.Count(picture, want); got < n {
			t.Errorf("%d of %s, want %d", got, want, n)
		}
	}
	plain(t, picture)
	texts(t, picture)
	c.Group = func(name string) string { return strings.Repeat("long ", 60) + layer(name) }
	if short := colored(t, layered(t), c); !strings.Contains(short, ">23</text>") || strings.Contains(short, ">long") {
		t.Error("a bracket that its heading does not fit has no number")
	}
	hostile := colored(t, hostileFile(t), &Coloring{Kinds: []Kind{{"<script>", "#000000", "#000000"}}, Of: func(string) int { return 0 },
		Group: func(name string) string { return name }, Label: func(name string) (string, string) { return name, "" }})
	texts(t, hostile)
	plain(t, hostile)
	if strings.Contains(hostile, "<script") {
		t.Error("a name is markup")
	}
}
