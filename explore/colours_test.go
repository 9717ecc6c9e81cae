package explore

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestColours: the map and the style have the colours of the page's scales.
func TestColours(t *testing.T) {
	read := func(name string) string {
		text, err := fs.ReadFile(pageFiles, "built/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	scales := make(map[string][]string) // by the shade of the theme, the scale of amounts first
	for _, m := range regexp.MustCompile(`(light|dark): '(#[^']+)'`).FindAllStringSubmatch(read("main.js"), -1) {
		scales[m[1]] = append(scales[m[1]], strings.Fields(m[2])...)
	}
	light, dark := scales["light"], scales["dark"]
	if !slices.Equal(light[:9], amounts) || !slices.Equal(dark[:9], darkAmounts) {
		t.Errorf("amounts are %v and %v in the map, %v and %v in the page", amounts, darkAmounts, light[:9], dark[:9])
	}
	for _, kind := range sigmaKinds[:6] {
		at := slices.Index(light[9:], kind.Color)
		if at < 0 || dark[9+at] != kind.Dark {
			t.Errorf("%s: no stop of the page's scale of what is odd is %s, and %s on dark screens", kind.Name, kind.Color, kind.Dark)
		}
	}
	stops := append(slices.Clone(light[9:]), dark[9:]...)
	styled := regexp.MustCompile(`--o(\d):(#\w+)`).FindAllStringSubmatch(read("page.css"), -1)
	for i, m := range styled {
		if at := i / 5 * 9; stops[at+int(m[1][0]-'0')] != m[2] {
			t.Errorf("the style's %s", m[0])
		}
	}
	if len(styled) != 10 {
		t.Errorf("the style has %d stops", len(styled))
	}
}
