package drawing

import (
	"fmt"
	"html"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
)

// probe asks a browser where the match is that the search shows, which the page's policy forbids. Then it points at the
// end of the first row of that match, clicks, points elsewhere, and selects what is shown.
const probe = `<script>
const here = Array.from(document.querySelectorAll(".here"), path => path.getBoundingClientRect()).find(box => box.width > 0);
const above = document.querySelector("header").getBoundingClientRect().bottom;
const data = document.body.dataset;
data.seen = here ? here.top >= above && here.top + 28 <= innerHeight : "none";
data.scrolled = scrollY > 0;
data.fits = document.documentElement.scrollWidth <= innerWidth;
if (here) {
  const mouse = (type, x) => {
    const at = {clientX: x, clientY: here.top + 14, bubbles: true};
    document.elementFromPoint(at.clientX, at.clientY).dispatchEvent(new MouseEvent(type, at));
  };
  mouse("mousemove", here.right - 2);
  mouse("click", here.right - 2);
  mouse("mousemove", 1);
  const tip = document.getElementById("tip");
  getSelection().selectAllChildren(tip);
  data.selected = tip.hidden || getComputedStyle(tip).userSelect !== "text" || getComputedStyle(tip).pointerEvents === "none" ? "" : String(getSelection());
}
parent.postMessage(document.documentElement.outerHTML, "*");
</script></body>`

// browse opens the page in a browser without a window, which is wider than its frame for the page. It returns what the
// page has become.
func browse(t *testing.T, page, search string, width int) (dom string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip(err)
	}
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	page = modeltest.Write(t, "page.html", []byte(strings.Replace(page, "</body>", probe, 1)))
	frame := fmt.Sprintf(`<script>addEventListener("message", event => { document.body.textContent = event.data });</script>
<iframe width="%d" height="800" frameborder="0" src="file://%s#%s"></iframe>`, width, page, search)
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--window-size=1600,1000", "--virtual-time-budget=10000", "--dump-dom", "file://"+modeltest.Write(t, "frame.html", []byte(frame)))
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the browser does not work here: %v", err)
	}
	return html.UnescapeString(string(out))
}

// layered has 24 layers of 32 KB.
func layered(t *testing.T) string {
	var header strings.Builder
	const layers, each = 24, 32_000
	for i := range layers {
		fmt.Fprintf(&header, `,"blk.%d.ffn[0]":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, i, each, i*each, (i+1)*each)
	}
	return modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}", make([]byte, layers*each)...)
}

// TestMapPageSearch: the first match is on the screen, however far down it lies, on a phone and
// on a desk. Its name can be selected.
func TestMapPageSearch(t *testing.T) {
	testmode.Sequential(t)
	page := pageOf(t, layered(t))
	for _, test := range []struct {
		width        int
		search, says string
		seen         string
	}{
		{390, "*.2[0-3].*", "1 of 4 matches: <bdi>blk.20.ffn[0]</bdi>  U8 32000  31.3 KiB", "true"},
		{1280, "blk.23 U8", "1 match: <bdi>blk.23.ffn[0]</bdi>  U8 32000  31.3 KiB", "true"},
		{1280, "%5Ba", "[ without ]", "none"},
		{1280, "*.2?.ffn[[]0]", "1 of 4 matches: <bdi>blk.20.ffn[0]</bdi>  U8 32000  31.3 KiB", "true"},
	} {
		dom := browse(t, page, test.search, test.width)
		if !strings.Contains(dom, "<output>"+test.says+"</output>") {
			t.Errorf("%s: %q, want %q", test.search, regexp.MustCompile(`<output>.*</output>`).FindString(dom), test.says)
		}
		// A phone shows only the beginning.
		scrolled := test.seen == "true" && test.width == 390
		want := fmt.Sprintf(`<body data-seen="%s" data-scrolled="%v" data-fits="true"`, test.seen, scrolled)
		if body := regexp.MustCompile(`<body data[^>]*>`).FindString(dom); !strings.HasPrefix(body, want) {
			t.Errorf("%s at %d px: %s, want %s", test.search, test.width, body, want)
		} else if name := regexp.MustCompile(`blk\.\d+\.ffn\[0\]`).FindString(test.says); name != "" && !strings.Contains(body, `data-selected="`+name+"\n") {
			t.Errorf("%s at %d px: %s: selects no %s", test.search, test.width, body, name)
		}
	}
}

// TestMapPageStructure: what a person finds who does not see the page: its language, landmarks,
// headings in order, names for all that has no text.
func TestMapPageStructure(t *testing.T) {
	for _, file := range []string{layered(t), "../../../../testdata/shards/apr2/model.apr", hostileFile(t)} {
		page := pageOf(t, file)
		for _, want := range []string{`<html lang="en">`, "<title>Map of ", `<form role="search" aria-label="tensors">`, "<header>", "<main>", `aria-label="search"`,
			`aria-label="previous match"`, `aria-label="next match"`, `<th scope="col">`, `<th scope="row">`, "<output>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %s", file, want)
			}
		}
		var levels []string
		for _, h := range regexp.MustCompile(`<h(\d)>[^<]+</h\d>`).FindAllStringSubmatch(page, -1) {
			levels = append(levels, h[1])
		}
		if len(levels) < 4 || levels[0] != "1" || slices.Contains(levels[1:], "1") || slices.Max(levels) != "2" {
			t.Errorf("%s: headings %q", file, levels)
		}
		for _, tag := range regexp.MustCompile(`<(svg|button|input|section) [^>]*>`).FindAllString(page, -1) {
			if !strings.Contains(tag, "aria-label=") && !strings.Contains(tag, `aria-hidden="true"`) {
				t.Errorf("%s: no name for %s", file, tag)
			}
		}
		if strings.Contains(page, "tabindex") || strings.Contains(page, "autofocus") {
			t.Errorf("%s: the order of the focus is not that of the page", file)
		}
	}
	for _, want := range []string{"<title>Map of model.safetensors</title>", "<desc>safetensors · ", `role="img"`} {
		if picture := svgOf(t, layered(t)); !strings.Contains(picture, want) {
			t.Errorf("picture: no %s", want)
		}
	}
}

// TestMapPageNarrow: the rows of the picture for a phone hold a quarter as much, in the same
// order of cells, and stay inside of it.
func TestMapPageNarrow(t *testing.T) {
	modeltest.EveryFixture(t, "../../../../testdata", openFixture, func(t *testing.T, path string) {
		var classes [2][]string
		view := -1
		for line := range strings.Lines(pageOf(t, path)) {
			switch {
			case strings.HasPrefix(line, `<svg class="map wide"`):
				view = 0
			case strings.HasPrefix(line, `<svg class="map narrow"`):
				view = 1
			}
			if !strings.HasPrefix(line, `<path class="c `) {
				continue
			}
			class, _, _ := strings.Cut(line, `" d=`)
			classes[view] = append(classes[view], class)
			for _, box := range pathData.FindAllStringSubmatch(line, -1) {
				var x, width float64
				fmt.Sscan(box[1], &x)
				fmt.Sscan(box[3], &width)
				if f := []frame{wide, narrow}[view]; x < float64(f.left) || x+width > float64(f.left+f.width)+0.01 {
					t.Errorf("drawn outside of its row: %q", box[0])
				}
			}
		}
		if len(classes[0]) == 0 || !slices.Equal(classes[0], classes[1]) {
			t.Errorf("%d cells, and %d on a phone", len(classes[0]), len(classes[1]))
		}
	})
}
