package layouttest

import (
	"errors"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// toy is a file that says whatever a test has it say.
type toy struct {
	index    layout.Index
	md       layout.Metadata
	mdErr    error
	sums     []layout.Checksum
	sumsErr  error
	findings []layout.Finding
	factsErr error
	graphErr error
	unpack   error
}

func (f *toy) Index() *layout.Index                                    { return &f.index }
func (f *toy) Metadata(layout.Input) (layout.Metadata, error)          { return f.md, f.mdErr }
func (f *toy) Checksums(layout.Input) ([]layout.Checksum, error)       { return f.sums, f.sumsErr }
func (f *toy) Audit(layout.Input) []layout.Finding                     { return f.findings }
func (f *toy) Summary(layout.Input) ([]layout.Fact, error)             { return nil, f.factsErr }
func (f *toy) Graph(layout.Input) (*layout.Graph, error)               { return nil, f.graphErr }
func (f *toy) Unpack(_ layout.Input, _ *layout.Tensor, b []byte) error { clear(b); return f.unpack }

// content is what toys are decoded from.
var content = layout.Bytes("123456789abcdefg")

// newToy is in order.
func newToy() *toy {
	f := &toy{md: layout.Metadata{{Key: "k", Value: 1.5}}}
	f.index = layout.Index{Format: layout.TSM, Version: "1", Size: content.Size(), Sections: []layout.Section{{Name: "header", Size: 4}}}
	f.index.Tensors = []layout.Tensor{
		{Name: []byte("a"), DType: layout.U8, Shape: []int{2, 2}, Offset: 4, Stored: 4, Raw: 4},
		{Name: []byte("b"), DType: layout.I32, Shape: []int{1}, Offset: 8, Stored: 1, Raw: 4, Encoding: layout.Protobuf,
			Quant: &layout.Quant{Scale: 0.5, Zero: 3}},
		{Name: []byte("c"), DType: layout.U8, Shape: []int{1}, Offset: 5, Stored: 1, Raw: 1, Alias: true},
	}
	f.name()
	return f
}

// name enters the tensors under the names they have.
func (f *toy) name() {
	f.index.Names = layout.NewNames(len(f.index.Tensors))
	for i, x := range f.index.Tensors {
		f.index.Names.Enter(layout.HashNameBytes(x.Name), i, func(int) bool { return false })
	}
}

// toys is a format of which the next file is f, or is refused with err.
func toys(f *toy, err error) *Format[*toy] {
	return &Format[*toy]{ID: layout.TSM, Decode: func(layout.Input, *layout.Limits) (*toy, error) { return f, err }}
}

func formatError(change func(*layout.FormatError)) error {
	e := layout.Errorf(layout.TSM, 3, "field", layout.ErrInvalid, "7 is wrong")
	change(e)
	return e
}

// badErrors are errors in bad form.
var badErrors = map[string]error{
	"no FormatError": errors.New("plain"),
	"other format":   formatError(func(e *layout.FormatError) { e.Format = layout.GGUF }),
	"no field":       formatError(func(e *layout.FormatError) { e.Field = "" }),
	"no reason":      formatError(func(e *layout.FormatError) { e.Reason = "" }),
	"no sentinel":    formatError(func(e *layout.FormatError) { e.Err = nil }),
	"past the file":  formatError(func(e *layout.FormatError) { e.Offset = content.Size() + 1 }),
}

var goodError = formatError(func(*layout.FormatError) {})

func TestUseNotices(t *testing.T) {
	use := func(f *toy, err error) func(testing.TB) {
		return func(tb testing.TB) { toys(f, err).Use(tb, content) }
	}
	fails(t, false, "in order", use(newToy(), nil))
	fails(t, false, "refused", use(nil, goodError))
	fails(t, true, "refused, and a file", use(newToy(), goodError))
	for name, err := range badErrors {
		fails(t, true, name, use(nil, err))
		fails(t, true, name+": CheckError", func(tb testing.TB) {
			toys(nil, nil).CheckError(tb, err, layout.ErrInvalid, "field", 3, "wrong")
		})
	}
	for name, change := range map[string]func(f *toy, err error){
		"metadata":  func(f *toy, err error) { f.mdErr = err },
		"checksums": func(f *toy, err error) { f.sumsErr = err },
		"summary":   func(f *toy, err error) { f.factsErr = err },
		"graph":     func(f *toy, err error) { f.graphErr = err },
		"unpack":    func(f *toy, err error) { f.unpack = err },
		"finding": func(f *toy, err error) {
			e, _ := err.(*layout.FormatError)
			f.findings = []layout.Finding{{FormatError: e}}
		},
	} {
		f := newToy()
		change(f, goodError)
		fails(t, false, name+" refused", use(f, nil))
		for bad, err := range badErrors {
			change(f, err)
			if name == "finding" && bad == "no FormatError" {
				continue // which its type rules out
			}
			fails(t, true, name+": "+bad, use(f, nil))
			fails(t, true, name+" again: "+bad, func(tb testing.TB) { toys(f, nil).Again(tb, f, content) })
		}
	}
	for name, sum := range map[string]layout.Checksum{"covers too much": {Size: 17}, "far": {Offset: 1<<64 - 1, Size: 2}, "is not there": {At: 13}} {
		f := newToy()
		f.sums = []layout.Checksum{sum}
		fails(t, true, name, use(f, nil))
	}
	f := newToy()
	f.md = layout.Metadata{{Key: "k", Value: func() {}}}
	fails(t, true, "metadata that is no JSON", use(f, nil))
	broken := toys(newToy(), nil)
	broken.Promises = func(t testing.TB, _ *toy, _ layout.Bytes, got *Answers) {
		t.Errorf("%t", got.Failed())
	}
	fails(t, true, "promises", func(tb testing.TB) { broken.Use(tb, content) })
	fails(t, true, "MustDecode", func(tb testing.TB) { toys(nil, goodError).MustDecode(tb, content) })
}

func TestCheckErrorNotices(t *testing.T) {
	for _, tc := range []struct {
		sentinel error
		field    string
		at       uint64
		reason   string
		want     bool
	}{
		{layout.ErrInvalid, "field", 3, "is wrong", false},
		{layout.ErrInvalid, "field", 3, "", false},
		{layout.ErrLimit, "field", 3, "", true},
		{layout.ErrInvalid, "fields", 3, "", true},
		{layout.ErrInvalid, "field", 4, "", true},
		{layout.ErrInvalid, "field", 3, "is right", true},
	} {
		fails(t, tc.want, tc.field+tc.reason, func(tb testing.TB) {
			toys(nil, nil).CheckError(tb, goodError, tc.sentinel, tc.field, tc.at, tc.reason)
		})
	}
}

func TestCheckIndexNotices(t *testing.T) {
	for name, change := range map[string]func(ix *layout.Index, a, b, c *layout.Tensor){
		"size":            func(ix *layout.Index, a, b, c *layout.Tensor) { ix.Size-- },
		"not found":       func(ix *layout.Index, a, b, c *layout.Tensor) { a.Name = []byte("x") },
		"type":            func(ix *layout.Index, a, b, c *layout.Tensor) { a.DType = layout.F16 },
		"shape":           func(ix *layout.Index, a, b, c *layout.Tensor) { a.Shape[1] = 3 },
		"raw":             func(ix *layout.Index, a, b, c *layout.Tensor) { b.Raw = 8 },
		"stored":          func(ix *layout.Index, a, b, c *layout.Tensor) { a.Stored = 3 },
		"half a block":    func(ix *layout.Index, a, b, c *layout.Tensor) { a.DType, a.Shape = layout.Q8_0, []int{33} },
		"too small":       func(ix *layout.Index, a, b, c *layout.Tensor) { b.Shape[0], b.Raw = 100, 400 },
		"LZ4 too small":   func(ix *layout.Index, a, b, c *layout.Tensor) { b.Shape[0], b.Raw, b.Encoding = 1000, 4000, layout.LZ4 },
		"leaves":          func(ix *layout.Index, a, b, c *layout.Tensor) { b.Offset = 16 },
		"leaves, empty":   func(ix *layout.Index, a, b, c *layout.Tensor) { a.Shape[0], a.Stored, a.Raw, a.Offset = 0, 0, 0, 17 },
		"wraps":           func(ix *layout.Index, a, b, c *layout.Tensor) { b.Offset = 1<<64 - 1 },
		"alias leaves":    func(ix *layout.Index, a, b, c *layout.Tensor) { c.Offset = 16 },
		"overlap":         func(ix *layout.Index, a, b, c *layout.Tensor) { b.Offset = 7 },
		"in the header":   func(ix *layout.Index, a, b, c *layout.Tensor) { b.Offset = 3 },
		"section leaves":  func(ix *layout.Index, a, b, c *layout.Tensor) { ix.Sections[0] = layout.Section{Offset: 9, Size: 8} },
		"section in data": func(ix *layout.Index, a, b, c *layout.Tensor) { ix.Sections[0].Size = 5 },
		"nothing":         func(ix *layout.Index, a, b, c *layout.Tensor) {},
		"APR_Q8": func(ix *layout.Index, a, b, c *layout.Tensor) {
			b.DType, b.Shape, b.Raw = layout.APR_Q8, []int{4}, 8
		},
		"APR_Q4": func(ix *layout.Index, a, b, c *layout.Tensor) {
			b.DType, b.Shape, b.Raw, b.Stored = layout.APR_Q4, []int{3}, 18, 3
		},
	} {
		f := newToy()
		x := f.index.Tensors
		change(&f.index, &x[0], &x[1], &x[2])
		right := name == "nothing" || name == "APR_Q8" || name == "APR_Q4"
		fails(t, !right, name, func(tb testing.TB) { CheckIndex(tb, &f.index, content) })
	}
	f := newToy()
	f.index.Tensors[1].Name = f.index.Tensors[0].Name
	f.name()
	fails(t, true, "same name", func(tb testing.TB) { CheckIndex(tb, &f.index, content) })
}
