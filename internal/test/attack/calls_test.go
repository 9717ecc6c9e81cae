//go:build unix

package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

// A subject is an open model under attack, seen from one goroutine.
type subject struct {
	*rand.Rand
	m    *loader.Model
	x    loader.Tensor // of the model or of a lease
	dir  string        // for what is written
	all  *model
	want *tensor // what x holds
}

// errWrong is the answer of a call that hands out something else than the file held, without
// an error of its own.
var errWrong = errors.New("wrong without an error")

// same compares memory that may be lost while it is read.
func (s *subject) same(got, want []byte) error {
	return mmapio.Guard(func() error {
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%w: %d bytes, want %d", errWrong, len(got), len(want))
		}
		return nil
	})
}

// sameValues compares bits, since weights may be NaN.
func (s *subject) sameValues(got, want []float32) error {
	return mmapio.Guard(func() error {
		if len(got) != len(want) {
			return fmt.Errorf("%w: %d values, want %d", errWrong, len(got), len(want))
		}
		if modeltest.SameBits(got, want) {
			return nil
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				return fmt.Errorf("%w: value %d is %v, want %v", errWrong, i, got[i], want[i])
			}
		}
		return nil
	})
}

// span chooses elements [first, first+n).
func (s *subject) span(of int) (first, n int) {
	if of == 0 {
		return 0, 0
	}
	first = s.IntN(of)
	if n = s.IntN(min(of-first, 5000)) + 1; s.IntN(4) == 0 {
		n = of - first
	}
	return first, n
}

// has reports whether the tensor's type has values; without them a call must say so.
func (s *subject) has() bool { return s.want.values != nil }

// multiply has n vectors multiplied, and looks at the products as far as they are finite. Quantizing a vector costs
// half a unit of 127 of its greatest element.
func (s *subject) multiply(n int, call func(ctx context.Context, dst, xs []float32) error) error {
	cols := 1
	if dims := len(s.want.shape); dims > 0 {
		cols = int(s.want.shape[dims-1])
	}
	rows := 0
	if cols > 0 {
		rows = int(s.x.Elements()) / cols
	}
	xs, dst := make([]float32, n*cols), make([]float32, n*rows)
	for i := range xs {
		xs[i] = 2*s.Float32() - 1
	}
	if err := call(context.Background(), dst, xs); err != nil || !s.has() {
		return err
	}
	for i, got := range dst {
		row, x := s.want.values[i%rows*cols:][:cols], xs[i/rows*cols:][:cols]
		var want, room float64
		for j, w := range row {
			want += float64(w) * float64(x[j])
			room += math.Abs(float64(w)) / 100
		}
		if diff := math.Abs(float64(got) - want); diff > room && room < 1e30 {
			return fmt.Errorf("%w: product %d is %v, want %v", errWrong, i, got, want)
		}
	}
	return nil
}

// calls are the methods and functions that read on the caller's behalf. Each returns
// errWrong, an error of the call, or nil after it has seen what the file held.
var calls = map[string]func(*subject) error{
	"loader.Tensor.Bytes": func(s *subject) error {
		b, err := s.x.Bytes()
		if err != nil {
			return err
		}
		return s.same(b, s.want.raw)
	},
	"loader.Tensor.Float32s": func(s *subject) error {
		v, err := s.x.Float32s()
		if err != nil {
			return err
		}
		return s.sameValues(v, s.want.values)
	},
	"loader.View": func(s *subject) error {
		b, err := loader.View[uint8](s.x)
		if err != nil {
			v, err := loader.View[float32](s.x)
			if err != nil {
				return err
			}
			return s.sameValues(v, s.want.values)
		}
		return s.same(b, s.want.raw)
	},
	"loader.Tensor.Dequantize": func(s *subject) error {
		dst := make([]float32, s.x.Elements())
		if err := s.x.Dequantize(dst); err != nil {
			return err
		}
		return s.sameValues(dst, s.want.values)
	},
	"loader.Tensor.DequantizeRange": func(s *subject) error {
		first, n := s.span(int(s.x.Elements()))
		dst := make([]float32, n)
		if err := s.x.DequantizeRange(dst, uint64(first)); err != nil || !s.has() {
			return err
		}
		return s.sameValues(dst, s.want.values[first:first+n])
	},
	"loader.Tensor.DequantizeRows": func(s *subject) error {
		if s.x.Elements() == 0 {
			return nil
		}
		row := 1
		if n := len(s.want.shape); n > 0 {
			row = int(s.want.shape[n-1])
		}
		first, n := s.span(int(s.x.Elements()) / row)
		dst := make([]float32, n*row)
		if err := s.x.DequantizeRows(dst, uint64(first), uint64(n)); err != nil || !s.has() {
			return err
		}
		return s.sameValues(dst, s.want.values[first*row:(first+n)*row])
	},
	"loader.Tensor.Slice": func(s *subject) error {
		if len(s.want.shape) == 0 || s.want.shape[0] == 0 {
			return nil
		}
		first, n := s.span(s.want.shape[0])
		part, err := s.x.Slice(loader.Range{First: first, N: n})
		if err != nil {
			return err
		}
		dst := make([]float32, part.Elements())
		if err := part.Dequantize(dst); err != nil || !s.has() {
			return err
		}
		inner := len(s.want.values) / s.want.shape[0]
		return s.sameValues(dst, s.want.values[first*inner:(first+n)*inner])
	},
	"loader.Tensor.Values": func(s *subject) error {
		at := 0
		for v, err := range s.x.Values(make([]float32, 1+s.IntN(3000))) {
			if err != nil || !s.has() {
				return err
			}
			if err := s.sameValues(v.Values, s.want.values[at:at+len(v.Values)]); err != nil {
				return err
			}
			if at += len(v.Values); s.IntN(9) == 0 {
				return nil
			}
		}
		return s.sameValues(nil, s.want.values[at:])
	},
	"loader.Tensor.MatVec": func(s *subject) error { return s.multiply(1, s.x.MatVec) },
	"loader.Tensor.MatMul": func(s *subject) error {
		return s.multiply(2, func(ctx context.Context, dst, xs []float32) error { return s.x.MatMul(ctx, dst, xs, 2) })
	},
	"loader.Tensor.ReadAt": func(s *subject) error {
		first, n := s.span(len(s.want.raw))
		p := make([]byte, n)
		if n, err := s.x.ReadAt(p, int64(first)); n < len(p) {
			return err
		}
		return s.same(p, s.want.raw[first:first+n])
	},
	"loader.Tensor.WriteTo": func(s *subject) error {
		var out bytes.Buffer
		if _, err := s.x.WriteTo(&out); err != nil {
			return err
		}
		return s.same(out.Bytes(), s.want.raw)
	},
	"loader.Tensor.WriteAs": func(s *subject) error {
		var out bytes.Buffer
		if _, err := s.x.WriteAs(context.Background(), &out, layout.F32); err != nil || !s.has() {
			return err
		}
		return s.sameValues(dequantized(out.Bytes()), s.want.values)
	},
	"loader.Tensor.ReadAs": func(s *subject) error {
		first, n := s.span(int(s.x.Elements()))
		dst := make([]byte, 4*n)
		if err := s.x.ReadAs(context.Background(), dst, layout.F32, uint64(first)); err != nil || !s.has() {
			return err
		}
		return s.sameValues(dequantized(dst), s.want.values[first:first+n])
	},
	"loader.Tensor.WriteDecrypted": func(s *subject) error {
		var out bytes.Buffer
		if _, err := s.x.WriteDecrypted(&out); err != nil {
			return err
		}
		return s.same(out.Bytes(), s.want.stored)
	},
	"loader.Tensor.Scale": func(s *subject) error {
		q, scaled, err := s.x.Scale()
		if err == nil && (q != s.want.quant || scaled != s.want.scaled) {
			return fmt.Errorf("%w: scale %v %v, want %v %v", errWrong, q, scaled, s.want.quant, s.want.scaled)
		}
		return err
	},
	"loader.Model.Metadata": func(s *subject) error {
		md, err := s.m.Metadata()
		if err == nil && describe(md) != s.all.meta {
			return fmt.Errorf("%w: %.200s", errWrong, describe(md))
		}
		return err
	},
	"loader.Lease.Metadata": func(s *subject) error {
		l, err := s.m.Acquire()
		if err != nil {
			return err
		}
		defer l.Release()
		md, err := l.Metadata()
		if err == nil && describe(md) != s.all.meta {
			return fmt.Errorf("%w: %.200s", errWrong, describe(md))
		}
		return err
	},
	"loader.Lease.Graph":         leased(func(l *loader.Lease) error { _, err := l.Graph(); return err }),
	"loader.Lease.Summary":       leased(func(l *loader.Lease) error { _, err := l.Summary(); return err }),
	"loader.Model.Footprint":     func(s *subject) error { _, err := s.m.Footprint(nil); return err },
	"loader.Lease.Footprint":     leased(func(l *loader.Lease) error { _, err := l.Footprint(nil); return err }),
	"loader.Model.ResidentBytes": func(s *subject) error { _, err := s.m.ResidentBytes(); return err },
	"loader.Model.Resident": func(s *subject) error {
		at := s.want.places[s.IntN(len(s.want.places))]
		_, err := s.m.Resident(at.file, at.off, at.size)
		return err
	},
	"loader.Model.ReadFileAt": func(s *subject) error {
		at := s.want.places[s.IntN(len(s.want.places))]
		content, ok := s.all.files[filepath.Base(s.m.Files()[at.file].Path)]
		if !ok { // opened as a reader, without a name
			content = s.all.files[s.all.path]
		}
		first, n := s.span(int(at.size))
		first += int(at.off)
		p := make([]byte, n)
		if err := s.m.ReadFileAt(context.Background(), at.file, p, uint64(first)); err != nil {
			return err
		}
		return s.same(p, content[first:first+n])
	},
	"loader.Model.Changed": func(s *subject) error { return s.m.Changed() },
	"loader.Lease.Changed": func(s *subject) error {
		l, err := s.m.Acquire()
		if err != nil {
			return err
		}
		defer l.Release()
		return l.Changed()
	},
	"loader.Model.Verify": func(s *subject) error {
		report, err := s.m.Verify(context.Background(), &loader.VerifyOptions{Workers: s.IntN(4), Progress: func(_, _ uint64) {}})
		if err != nil {
			return err
		}
		return report.Err()
	},
	"loader.Model.Warm": func(s *subject) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.IntN(2000))*time.Microsecond)
		defer cancel()
		opts := &loader.WarmOptions{Readers: s.IntN(4), Ordered: s.IntN(2) == 0, Progress: func(_, _ uint64) {}}
		_, err := s.m.Warm(ctx, []string{s.want.name}, opts)
		return err
	},
	"loader.Lease.Warm": func(s *subject) error {
		return leased(func(l *loader.Lease) error {
			_, err := l.Warm(context.Background(), []string{s.want.name}, nil)
			return err
		})(s)
	},
	"loader.Model.WarmAll": func(s *subject) error {
		_, err := s.m.WarmAll(context.Background(), &loader.WarmOptions{Readers: s.IntN(4)})
		return err
	},
	"loader.Model.Stream": func(s *subject) error {
		opts := &loader.StreamOptions{Buffers: lent(s), Readers: s.IntN(4), Ordered: s.IntN(2) == 0, Backing: loader.Backing(s.IntN(4)), Progress: func(_, _ uint64) {}}
		if s.IntN(2) == 0 {
			opts.As = layout.BF16
		}
		var got []byte
		_, err := s.m.Stream(context.Background(), []string{s.want.name}, opts, func(p loader.Piece) error {
			got = append(got, p.Bytes...)
			if s.IntN(2) == 0 {
				p.Retain()
				go p.Release()
			}
			return nil
		})
		if err != nil || opts.As != layout.Invalid {
			return err
		}
		return s.same(got, s.want.raw)
	},
	"loader.Model.StreamAll": func(s *subject) error {
		_, err := s.m.StreamAll(context.Background(), &loader.StreamOptions{Buffers: lent(s), Backing: loader.Backing(s.IntN(4))}, func(loader.Piece) error { return nil })
		return err
	},
	"loader.Lease.Stream": func(s *subject) error {
		return leased(func(l *loader.Lease) error {
			_, err := l.Stream(context.Background(), []string{s.want.name}, &loader.StreamOptions{Buffers: lent(s), As: layout.F32}, func(loader.Piece) error { return nil })
			return err
		})(s)
	},
	"loader.Model.Region": func(s *subject) error {
		r, err := s.m.Region(context.Background(), 0)
		if err != nil {
			return err
		}
		defer r.Release()
		return mmapio.Guard(func() error {
			touched := byte(0)
			for i := 0; i < len(r.Bytes); i += os.Getpagesize() {
				touched ^= r.Bytes[i]
			}
			runtime.KeepAlive(touched)
			return nil
		})
	},
	"loader.Model.Evict": func(s *subject) error { return s.m.Evict(s.want.name) },
	"survey.Stats": func(s *subject) error {
		var damage error
		err := survey.Stats(context.Background(), s.m, &survey.StatsOptions{Bins: s.IntN(3)}, func(t *survey.TensorStats) error {
			damage = errors.Join(damage, t.Err)
			return nil
		})
		return errors.Join(err, damage)
	},
	"survey.NewFindings": func(s *subject) error {
		found := survey.NewFindings(s.m)
		defer found.All()
		return survey.Stats(context.Background(), s.m, nil, found.Add)
	},
	"survey.HashFiles": func(s *subject) error {
		return survey.HashFiles(context.Background(), s.m, nil, func(*survey.FileDigest) error { return nil })
	},
	"survey.Hash": func(s *subject) error {
		var damage error
		err := survey.Hash(context.Background(), s.m, &survey.HashOptions{Values: true, Stored: true}, func(t *survey.TensorDigest) error {
			damage = errors.Join(damage, t.Err)
			return nil
		})
		return errors.Join(err, damage)
	},
	"survey.Overall.Complete": func(s *subject) error {
		var all survey.Overall
		err := survey.Compare(context.Background(), s.m, s.m, nil, func(p *survey.Pair) error {
			all.Add(p)
			return nil
		})
		all.DD = 1 // as if some value differed: otherwise nothing is read
		return errors.Join(err, all.Complete(context.Background(), s.m, survey.Options{}))
	},
	"survey.Compare": func(s *subject) error {
		var damage error
		err := survey.Compare(context.Background(), s.m, s.m, nil, func(p *survey.Pair) error {
			damage = errors.Join(damage, p.Err)
			return nil
		})
		return errors.Join(err, damage)
	},
	"convert.Write": func(s *subject) error { return s.convert([]string{"out.apr", "out.safetensors"}[s.IntN(2)]) },
	"convert.NewPlan": func(s *subject) error {
		_, err := convert.NewPlan(context.Background(), s.m, filepath.Join(s.dir, "plan.apr"), &convert.Options{DType: layout.I8})
		return err
	},
}

// dequantized returns the values of F32s.
func dequantized(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	if err := dequant.Expand(layout.F32, v, b); err != nil {
		panic(err)
	}
	return v
}

// leased makes a call under a lease of its own.
func leased(call func(l *loader.Lease) error) func(s *subject) error {
	return func(s *subject) error {
		l, err := s.m.AcquireContext(context.Background())
		if err != nil {
			return err
		}
		defer l.Release()
		return call(l)
	}
}

// convert writes the model to a file of its own and wants that to be whole or not there.
func (s *subject) convert(name string) error {
	dir, err := os.MkdirTemp(s.dir, "convert")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	opts := &convert.Options{DType: []layout.DType{layout.Invalid, layout.F16, layout.Q8_0, layout.I8}[s.IntN(4)]}
	if strings.HasSuffix(name, ".apr") {
		opts.Compress = []convert.Compression{convert.NoCompression, convert.Fast}[s.IntN(2)]
	}
	if s.IntN(3) == 0 {
		opts.ShardBytes = 100_000
	}
	_, err = convert.Write(context.Background(), s.m, filepath.Join(dir, name), opts)
	entries := must(os.ReadDir(dir))
	if err != nil && len(entries) > 0 {
		return fmt.Errorf("%w: %v left behind after %v", errWrong, entries, err)
	}
	if opts.DType == layout.Q8_0 && errors.Is(err, dequant.ErrNotFinite) {
		return nil // values made of random bits can be beyond every scale of Q8_0
	}
	return err
}

// unattacked are exported functions of models that read no byte of a file, or are called by
// the attacks in other ways.
var unattacked = map[string]string{
	"loader.Model.Close": "races", "loader.Model.Acquire": "races", "loader.Model.AcquireContext": "races", "loader.Lease.Release": "races",
	"loader.Lease.Tensor": "races", "loader.Lease.Tensors": "races", "loader.Lease.Of": "index", "loader.Current.Swap": "races",
	"loader.Model.Tensor": "index", "loader.Model.Tensors": "index", "loader.Model.Files": "index",
	"loader.Model.Format": "index", "loader.Model.Stats": "counters", "loader.Model.Config": "index", "loader.Model.ConfigFile": "index", "loader.Model.Quantization": "index", "loader.Model.Done": "races", "loader.Model.Path": "names", "loader.Lease.Path": "names", "loader.Lease.Model": "names", "convert.Tensor.Elements": "index", "convert.Tensor.FromShape": "index", "convert.Tensor.FromBytes": "index", "loader.Model.HeldLeases": "counters", "loader.Model.Len": "index",
	"loader.ByName":           "index",
	"loader.Model.ReadBeside": "another file", "convert.SideFiles": "other files",
	"loader.Model.VerifyTrust": "needs Options.Trust, under which package loader's tests cut and change files",
	"loader.Model.Granularity": "index", "loader.Lease.StoredTensors": "index", "loader.Tensor.Stored": "index",
	"loader.Tensor.Parts": "index", "loader.Tensor.Problem": "index", "loader.Tensor.Scheme": "index",
	"loader.Tensor.DType": "index", "loader.Tensor.Elements": "index", "loader.Tensor.Encoding": "index", "loader.Tensor.File": "index",
	"loader.Tensor.Name": "index", "loader.Tensor.Offset": "index", "loader.Tensor.RawBytes": "index", "loader.Tensor.Rows": "index", "loader.Tensor.Shape": "index",
	"loader.Tensor.StoredBytes": "index", "loader.Tensor.Decrypted": "index", "loader.Tensor.ZeroCopy": "index",
}

// lent returns buffers to stream into, of some size.
func lent(s *subject) [][]byte {
	size := []int{1 << 10, 100 << 10, 1 << 20}[s.IntN(3)]
	return [][]byte{make([]byte, size), make([]byte, size), make([]byte, size)}
}

// TestEveryCallIsAttacked holds the table of calls against the sources: what is new has to be
// attacked, or listed with the reason why not.
func TestEveryCallIsAttacked(t *testing.T) {
	exported := map[string]bool{}
	for pkg, dir := range map[string]string{"loader": "../../../loader", "survey": "../../../loader/survey", "convert": "../../../convert"} {
		for _, path := range must(filepath.Glob(filepath.Join(dir, "*.go"))) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file := must(parser.ParseFile(token.NewFileSet(), path, nil, 0))
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() && takesModel(f) {
					exported[qualified(pkg, f)] = true
				}
			}
		}
	}
	for name := range exported {
		if calls[name] == nil && unattacked[name] == "" {
			t.Errorf("%s is new: add it to calls in internal/test/attack, or to unattacked if it reads nothing of a file", name)
		}
	}
	for name := range calls {
		if !exported[name] {
			t.Errorf("%s is gone: remove it from calls", name)
		}
	}
	for name := range unattacked {
		if !exported[name] {
			t.Errorf("%s is gone: remove it from unattacked", name)
		}
	}
}

// modelTypes stand for a file.
var modelTypes = []string{"Model", "Tensor", "Lease"}

// takesModel reports whether a function is a method of a model, or is given one.
func takesModel(f *ast.FuncDecl) bool {
	for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			if slices.Contains(modelTypes, typeName(field.Type)) {
				return true
			}
		}
	}
	return false
}

// typeName returns the name of a type, without package and pointer.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr: // of type parameters
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// qualified names a function, or a method with its type.
func qualified(pkg string, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return pkg + "." + f.Name.Name
	}
	return fmt.Sprintf("%s.%s.%s", pkg, typeName(f.Recv.List[0].Type), f.Name.Name)
}
