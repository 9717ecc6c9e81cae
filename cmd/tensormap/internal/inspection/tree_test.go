package inspection

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// entry is a tensor for tests.
type entry struct {
	name  string
	dtype layout.DType
	shape []int
}

// tensors returns the tensors of a file that lists these. Their bytes come the other way round.
func tensors(t *testing.T, list ...entry) iter.Seq[loader.Tensor] {
	t.Helper()
	var header strings.Builder
	end := uint64(0)
	for _, e := range list {
		n, _ := e.dtype.Size(e.shape)
		end += n
	}
	size := end
	for _, e := range list {
		n, _ := e.dtype.Size(e.shape)
		shape, _ := json.Marshal(e.shape)
		fmt.Fprintf(&header, `,%q:{"dtype":"%v","shape":%s,"data_offsets":[%d,%d]}`, e.name, e.dtype, shape, end-n, end)
		end -= n
	}
	m, err := loader.Open(modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}", make([]byte, size)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.Tensors()
}

// outline is the tree's first column, with how many tensors each line stands for.
func outline(n *node) (lines []string) {
	for row := range n.treeGrid(0).Rows {
		lines = append(lines, row[0]+" "+row[1])
	}
	return lines
}

func TestTree(t *testing.T) {
	for _, test := range []struct {
		why   string
		names string // of tensors of one shape; a name with ! has another
		want  string // lines, joined by |
	}{
		{"flat", "a b", "a 1|b 1"},
		{"a prefix", "m.a m.b", "m 2|├─ a 1|└─ b 1"},
		{"slashes", "m/a m/b n.c", "m 2|├─ a 1|└─ b 1|n.c 1"},
		{"a chain is one line", "a.b.c.d a.b.c.e", "a.b.c 2|├─ d 1|└─ e 1"},
		{"numbers", "l.0.w l.1.w l.2.w", "l.{0..2}.w 3"},
		{"two of them", "l.0.w l.1.w", "l.{0,1}.w 2"},
		{"numbers with holes, out of order", "l.9.w l.0.w l.4.w l.3.w l.2.w l.7.w", "l.{0,2..4,7,9}.w 6"},
		{"numbered tensors", "l.0 l.1 l.2", "l.{0..2} 3"},
		{"other names", "l.0.w l.1.v", "l 2|├─ 0.w 1|└─ 1.v 1"},
		{"another shape", "l.0.w l.1.!w l.2.w", "l 3|├─ {0,2}.w 2|└─ 1.!w 1"},
		{"one without a bias", "l.0.w l.0.b l.1.w l.2.b l.2.w", "l 5|├─ {0,2} 4|│  ├─ w 2|│  └─ b 2|└─ 1.w 1"},
		{"numbers below numbers", "b.0.e.0.w b.0.e.1.w b.1.e.0.w b.1.e.1.w", "b.{0,1}.e.{0,1}.w 4"},
		{"other numbers below", "b.0.e.0.w b.0.e.1.w b.1.e.0.w", "b 3|├─ 0.e.{0,1}.w 2|└─ 1.e.0.w 1"},
		{"zeros first", "l.00.w l.01.w l.1.w", "l 3|├─ 00.w 1|├─ 01.w 1|└─ 1.w 1"},
		{"longer than an int", "l.99999999999999999999 l.99999999999999999998", "l 2|├─ 99999999999999999999 1|└─ 99999999999999999998 1"},
		{"a tensor named as a prefix", "a a.b a.c", "a 1|a 2|├─ b 1|└─ c 1"},
		{"separators alone", ". .. a. .a", `. 3|├─ "" 1|├─ . 1|└─ a 1|a. 1`},
		{"number and slash", "0.w 1/w", "0.w 1|1/w 1"},
		{"braces in names", "l.{0..1}.w l.0.w l.1.w", "l 3|├─ {0..1}.w 1|└─ {0,1}.w 2"},
		{"the same braces twice", "x.0.l.{0,1}.w x.0.l.0.w x.0.l.1.w x.1.l.{0,1}.w x.1.l.0.w x.1.l.1.w",
			"x.{0,1}.l 6|├─ {0,1}.w 2|└─ {0,1}.w 4"},
	} {
		var list []entry
		for name := range strings.FieldsSeq(test.names) {
			shape := []int{2, 3}
			if strings.Contains(name, "!") {
				shape = []int{6}
			}
			list = append(list, entry{name, layout.U8, shape})
		}
		if got := strings.Join(outline(newTree(tensors(t, list...))), "|"); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.why, got, test.want)
		}
	}
}

func TestTreeSums(t *testing.T) {
	tree := newTree(tensors(t,
		entry{"blk.0.q", layout.F32, []int{8, 4}}, entry{"blk.0.n", layout.F32, []int{8}},
		entry{"blk.1.q", layout.I8, []int{8, 4}}, entry{"blk.1.n", layout.F32, []int{8}},
		entry{"out", layout.F16, []int{1000}},
	))
	var b strings.Builder
	tree.treeGrid(0).Write(&b, report.Screen{})
	const want = `NAME       TENSORS  ELEMENTS      SIZE   SHARE  DTYPE    SHAPE
blk.{0,1}        4        80     224 B  10.1 %  F32, I8
├─ q             2        64     160 B   7.2 %  F32, I8    8×4
└─ n             2        16      64 B   2.9 %  F32          8
out              1     1.00K  1.95 KiB  89.9 %  F16       1000
`
	if b.String() != want {
		t.Errorf("\n%s\nwant\n%s", b.String(), want)
	}
}

var one = []int{1}

func TestTreeDepth(t *testing.T) {
	root := newTree(tensors(t, entry{"a.b.x", layout.U8, one}, entry{"a.b.y", layout.U8, one}, entry{"a.c", layout.U8, one}))
	for depth, want := range map[int]int{0: 5, 1: 1, 2: 3, 3: 5, 4: 5} {
		if got := len(slices.Collect(root.treeGrid(depth).Rows)); got != want {
			t.Errorf("depth %d: %d lines, want %d", depth, got, want)
		}
	}
}

// A name made of separators must not make a node of every byte.
func TestTreeIsBounded(t *testing.T) {
	root := newTree(tensors(t, entry{strings.Repeat(".", 1000), layout.U8, one}, entry{strings.Repeat("a.", 500), layout.U8, one}))
	if n := len(slices.Collect(root.treeGrid(0).Rows)); n != 2 {
		t.Errorf("%d lines", n)
	}
	deepest := 0
	for n := root; len(n.children) > 0; n = n.children[len(n.children)-1] {
		deepest++
	}
	if deepest > treeDepth {
		t.Errorf("%d levels", deepest)
	}
}

func TestTreeNarrow(t *testing.T) {
	root := newTree(tensors(t, entry{"encoder.layer.0.attention.self.query.weight", layout.F32, []int{384, 384}}, entry{"encoder.b", layout.F32, []int{384}}))
	for _, width := range []int{200, 80, 60, 50, 40} {
		var b strings.Builder
		root.treeGrid(0).Write(&b, report.Screen{Width: width})
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d columns: a line of %d:\n%s", width, n, b.String())
				break
			}
		}
		for _, want := range []string{"NAME", "SIZE", "576 KiB", "F32"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%d columns: no %s in\n%s", width, want, b.String())
			}
		}
	}
}

func TestSort(t *testing.T) {
	m, err := loader.Open(modeltest.WriteSafeTensors(t, `{"l.10":{"dtype":"U8","shape":[5],"data_offsets":[14,19]},"l.2":{"dtype":"I8","shape":[9],"data_offsets":[0,9]},
		"a":{"dtype":"U8","shape":[5],"data_offsets":[9,14]},"z":{"dtype":"I8","shape":[1],"data_offsets":[19,20]}}`, make([]byte, 20)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for order, want := range map[string]string{
		"": "l.10 l.2 a z", "name": "a l.2 l.10 z", "size": "l.2 l.10 a z", "offset": "l.2 a l.10 z", "dtype": "l.2 z l.10 a",
	} {
		in := &inspection{selected: m.Tensors(), count: m.Len()}
		in.sortTensors(order)
		var got []string
		for tensor := range in.selected {
			got = append(got, tensor.Name())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %q: %q, want %q", order, got, want)
		}
	}
	// Siblings of a tree, by sums.
	list := tensors(t, entry{"a.x", layout.U8, []int{3}}, entry{"a.y", layout.U8, []int{4}}, entry{"b", layout.U8, []int{6}}, entry{"a.c", layout.I8, []int{2}})
	for order, want := range map[string]string{
		"": "a x y c b", "name": "a c x y b", "size": "a y x c b", "offset": "b a c y x", "dtype": "a c x y b",
	} {
		root := newTree(list)
		root.sort(order)
		var got []string
		for row := range root.treeGrid(0).Rows {
			got = append(got, strings.TrimLeft(row[0], "├└─│ "))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("tree by %q: %q, want %q", order, got, want)
		}
	}
}
