package tsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// The fixtures hold most refusals; these are the rest, and what errors say.
func TestErrors(t *testing.T) {
	head := len(build(1).b)
	for _, test := range []struct {
		name     string
		file     *builder
		lim      layout.Limits
		sentinel error
		field    string
		at       int
		reason   string
	}{
		{"another code", new(builder).i32(0, 0x19910928).i32(make([]int, 40)...), layout.Limits{},
			layout.ErrInvalid, "code", 4, "0x19910928, not 0x19910929"},
		{"a .sta container", new(builder).i32(moduleCode, 6).i32(make([]int, 40)...), layout.Limits{},
			layout.ErrUnsupported, "fake", 0, ".sta container"},
		{"pointers", build(1).i32(1).param("p", 1).tensor(12, 8), layout.Limits{},
			layout.ErrUnsupported, "dtype", head + 13, `node 0, param "p": 12 is PTR`},
		{"type 255", build(1).i32(1).param("p", 1).tensor(255, 8), layout.Limits{},
			layout.ErrUnsupported, "dtype", head + 13, "255 is no known type"},
		{"negative type of a node", build(1).i32(1).ints("#dtype", -1).inputs(), layout.Limits{},
			layout.ErrUnsupported, "#dtype", head + 27, "-1 is no known type"},
		{"size past 64 bits in many dimensions", build(1).i32(1).param("p", 1).tensor(11, 0, 1<<30, 1<<30, 4, 1, 1), layout.Limits{},
			layout.ErrInvalid, "shape", head + 18, "2^64 bytes"},
		{"memory past the file", build(1).i32(1).param("p", 1).tensor(11, 0, 1<<30), layout.Limits{},
			layout.ErrTruncated, "memory", head + 22, "8589934592 bytes, but only 0 are left"},
		{"tensors past the limit", build(1).i32(1).param("p", 3).tensor(1, 1).tensor(1, 1).tensor(1, 1).inputs(), layout.Limits{Tensors: 2},
			layout.ErrLimit, "packed_tensor", head + 25, "more than 2 tensors"},
		{"params past the limit", build(1).i32(2).param("p", 1).tensor(1, 1).param("q", 1).tensor(1, 1).inputs(), layout.Limits{Tensors: 1},
			layout.ErrLimit, "packed_tensor", head + 28, "more than 1 tensors"},
		{"rank past the limit", build(1).i32(1).param("p", 1).tensor(1, 1, 1, 1).inputs(), layout.Limits{Rank: 1},
			layout.ErrLimit, "dims", head + 14, "2 dimensions, more than 1"},
		{"node's name past the limit", build(1).node("name", "", 0).inputs(), layout.Limits{NameBytes: 3},
			layout.ErrLimit, "#name", head + 17, "4 bytes, more than 3"},
		{"tensor's name past the limit", build(1).node("nam", "o", 1).param("p", 1).tensor(1, 1).inputs(), layout.Limits{NameBytes: 4},
			layout.ErrLimit, "name", head + 59, "5 bytes, more than 4"},
		{"nodes past the limit", build(3).i32(0, 0, 0, 0, 0, 0), layout.Limits{HeaderBytes: uint64(head) + 23},
			layout.ErrLimit, "graph", head - 4, "3 records, all but the tensors' bytes take more than 163"},
		{"inputs past the limit", build(2).i32(0).inputs().i32(0).inputs(0, 0, 0), layout.Limits{HeaderBytes: uint64(head) + 27},
			layout.ErrLimit, "inputs", head + 12, "3 records"},
		{"long cycle", ring(12), layout.Limits{},
			layout.ErrInvalid, "inputs", len(ring(12).b) - 8, `node 0, "", reads its own output: a cycle of 12 nodes`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode(test.file.in(), &test.lim)
			format.CheckError(t, err, test.sentinel, test.field, uint64(test.at), test.reason)
		})
	}
	for _, rank := range []int{1, 5} { // a tensor read the fast way, and one that is not
		in := build(1).i32(1).param("p", 1).tensor(2, 1000, append(slices.Repeat([]int{1}, rank-1), 1000)...).inputs().in()
		if _, err := Decode(in, &layout.Limits{HeaderBytes: in.Size() - 1000}); err != nil {
			t.Errorf("the bytes of a tensor are counted: %v", err)
		}
	}
}

// ring is n nodes, each an input of the one before it, and two for the last one so that
// the order alone does not tell.
func ring(n int) *builder {
	b := build(n)
	for i := range n - 1 {
		b.i32(0).inputs(i + 1)
	}
	return b.i32(0).inputs(0, n-1)
}

// A graph as deep as it has nodes, in an order that tells nothing, is walked in little time
// and without recursion.
func TestDeepGraph(t *testing.T) {
	const n = 60_000
	for _, cycle := range []bool{false, true} {
		b := build(n)
		b.i32(0).inputs(2) // 0, 2, 4, …, 5, 3, 1
		for i := 1; i < n; i++ {
			switch {
			case i == 1 && cycle:
				b.i32(0).inputs(0)
			case i == 1:
				b.i32(0).inputs()
			case i%2 == 1:
				b.i32(0).inputs(i - 2)
			case i == n-2:
				b.i32(0).inputs(n - 1)
			default:
				b.i32(0).inputs(i + 2)
			}
		}
		_, err := Decode(b.in(), nil)
		if cycle {
			format.CheckError(t, err, layout.ErrInvalid, "inputs", headerSize+12+12+8, "a cycle of 60000 nodes")
		} else if err != nil {
			t.Error(err)
		}
	}
}

// Every path is walked once, however many lead to a node.
func TestWideGraph(t *testing.T) {
	const n = 2000 // with 2^1000 paths
	b := build(n)
	for i := range n {
		switch {
		case i%2 == 0 && i < n-2:
			b.i32(0).inputs(i+1, i+2, i+3)
		case i < n-2:
			b.i32(0).inputs(i+1, i+2)
		case i == n-2:
			b.i32(0).inputs()
		default:
			b.i32(0).inputs(n - 2) // so that the order tells nothing
		}
	}
	format.MustDecode(t, b.in())
}

// Params beyond the few that are compared one by one.
func TestManyParams(t *testing.T) {
	const n = 200
	for _, twice := range []int{-1, 0, 3, 15, 16, 17, 150} {
		b := build(1).i32(n)
		at := 0
		for i := range n {
			name := fmt.Sprint("p", i)
			if i == n-1 && twice >= 0 {
				name = fmt.Sprint("p", twice)
			}
			at = len(b.b)
			b.param(name, i%3)
			for range i % 3 {
				b.tensor(10, 8, 2)
			}
		}
		b.inputs()
		f, err := Decode(b.in(), nil)
		if twice >= 0 {
			format.CheckError(t, err, layout.ErrDuplicate, "name", uint64(at), fmt.Sprintf(`node 0, param "p%d": the node has two`, twice))
		} else if err != nil || len(f.Index().Tensors) != n-1 {
			t.Errorf("%v", err)
		}
	}
}

func TestModule(t *testing.T) {
	b := build(3)
	b.node("sum", "add", 0).inputs(1, 2, 2)
	b.node("x", "<param>", 2).ints("#shape", -1, 3).ints("#dtype", 10).inputs()
	b.node("y", "<const>", 4).param("value", 2).tensor(10, 8, 2).tensor(1, 1).param("none", 0).ints("#output_count", 1).ints("#shape").inputs()
	f := format.MustDecode(t, b.in())
	m, err := f.scan(b.in())
	if err != nil {
		t.Fatal(err)
	}
	nodes, got := m.nodes, ""
	for _, n := range nodes {
		got += fmt.Sprint(n.name, n.op, n.inputs, n.shape, n.dtype, n.outputs)
		for _, p := range n.params {
			got += fmt.Sprint(" ", p.name, len(p.fields))
		}
		got += ";"
	}
	if want := "sumadd[1 2 2] [] INVALID 0;x<param>[] [-1 3] F32 0;y<const>[] [] INVALID 1 value2 none0;"; got != want {
		t.Errorf("nodes are\n%s, want\n%s", got, want)
	}
	if nodes[0].shape != nil || nodes[2].shape == nil {
		t.Error("a node without a shape is taken for one with the shape of a scalar, or the other way round")
	}
	if _, err := f.Graph(b.in()[:len(b.b)-1]); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("a file that shrank: %v", err)
	}
	if _, err := f.Graph(build(0).in()); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("another file: %v", err)
	}
}

func TestGraph(t *testing.T) {
	in := format.Read(t, "tennis-packed")
	g, err := format.MustDecode(t, in).Graph(in)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(g.Inputs, []int{2}) || !slices.Equal(g.Outputs, []int{0, 1}) || len(g.Nodes) != 3 {
		t.Errorf("%+v", g)
	}
	if n := g.Nodes[1]; n.Name != "layer/0/op" || n.Op != "custom" || !slices.Equal(n.Inputs, []int{2, 2}) ||
		!slices.Contains(n.Tensors, "layer/0/op/fields/3") || len(n.Tensors) != 11 || n.Attributes != nil {
		t.Errorf("%+v", n)
	}
	in = format.Read(t, "tennis-graph")
	g, err = format.MustDecode(t, in).Graph(in)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := g.Nodes[8].Attributes.MarshalJSON(); string(b) != `{"shape":[-1,3,8,8],"dtype":"F32"}` {
		t.Errorf("attributes are %s, %v", b, err)
	}
}

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name string
		in   layout.Bytes
		want string
	}{
		{"graph", format.Read(t, "tennis-graph"), `nodes: 16
inputs: image F32 [-1 3 8 8]
outputs: prob
operators: <const> ×5, add_bias ×2, conv2d ×2, <param> ×1, add ×1, flatten ×1, inner_prod ×1, pooling2d ×1, relu ×1, softmax ×1
parameters: 522 in 26 tensors, 2057 bytes
`},
		{"packed", format.Read(t, "tennis-packed"), "nodes: 3\ninputs: 輸入\noutputs: #0\nlayer/0/op\noperators: <param> ×1, custom ×1, relu ×1\nparameters: 17 in 12 tensors, 62 bytes\n"},
		{"empty", format.Read(t, "empty"), "nodes: 0\ninputs: \noutputs: \noperators: \nparameters: 0 in 0 tensors, 0 bytes\n"},
		{"names", format.Read(t, "names"), `nodes: 17
inputs: in F32 [-1 0 2147483647]
scalar []
outputs: late
16
operators: <const> ×11, <param> ×2, "" ×1, add ×1, relu ×1, split ×1
parameters: 19 in 19 tensors, 76 bytes
`},
	} {
		facts, err := format.MustDecode(t, test.in).Summary(test.in)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, f := range facts {
			fmt.Fprintf(&got, "%s: %s\n", f.Label, f.Value)
		}
		if got.String() != test.want {
			t.Errorf("%s: summary is\n%swant\n%s", test.name, got.String(), test.want)
		}
	}
}

// What there can be any number of is shortened.
func TestSummaryIsShort(t *testing.T) {
	const n = 1000
	b := new(builder).i32(0, moduleCode)
	b.b = append(b.b, make([]byte, 120)...)
	b.inputs(make([]int, n)...).inputs().i32(n)
	long := strings.Repeat("長い", 100)
	for i := range n {
		b.node(fmt.Sprint(long, i), fmt.Sprint("op", i, long), 2).ints("#shape", make([]int, 1000)...).param("huge", 1).tensor(0, 0, 1<<31-1, 1<<31-1).inputs()
	}
	facts, err := format.MustDecode(t, b.in()).Summary(b.in())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if len(f.Value) > 4000 || !utf8.ValidString(f.Value) {
			t.Errorf("%s: %d bytes: %s", f.Label, len(f.Value), f.Value)
		}
	}
	if got := facts[4].Value; got != "0 in 1000 tensors, 0 bytes" {
		t.Errorf("parameters: %s", got)
	}
}

func TestAuditSays(t *testing.T) {
	in := format.Read(t, "names")
	var got []string
	for _, f := range format.MustDecode(t, in).Audit(in) {
		got = append(got, fmt.Sprintf("%s@%d %s", f.Field, f.Offset, f.Reason))
	}
	want := []string{
		"#name@955 1 of 17 nodes have no name, the first is node 9",
		"#op@955 1 of 17 nodes have no operator, the first is node 9",
		"#output_count@5374 1 of 17 nodes have a number of outputs that is not 1, the first is node 12",
		fmt.Sprintf("name@%d 2 of 18 params have names of more than 31 bytes", bytes.Index(in, []byte("xxxx"))-4),
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings are\n%s", strings.Join(got, "\n"))
	}
}
