package dequant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

func TestSupported(t *testing.T) {
	if len(types) != len(oracles) {
		t.Errorf("%d types are supported, %d have an oracle", len(types), len(oracles))
	}
	for _, d := range []layout.DType{layout.Invalid, layout.C64, layout.VOID, layout.UNKNOWN8, layout.CHAR8, 255} {
		if Supported(d) {
			t.Errorf("%v is supported", d)
		}
		c, plain := NewCodec(d, layout.Quant{}, false)
		_, scaled := NewCodec(d, layout.Quant{Scale: 1}, true)
		_, headed := ReadHead(d, nil)
		if c != (Codec{}) {
			t.Errorf("%v has a codec", d)
		}
		c.dtype = d // as if it had
		for _, err := range []error{plain, scaled, headed, Expand(d, nil, nil), c.Expand(nil, nil, 0, 1)} {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), d.String()) {
				t.Errorf("%v: %v", d, err)
			}
		}
	}
}

func TestLengthErrors(t *testing.T) {
	tests := []struct {
		d           layout.DType
		elems, size int
		want        string // "" for none
	}{
		{layout.Q4_0, 0, 0, ""},
		{layout.Q4_0, 64, 36, ""},
		{layout.Q4_0, 64, 35, "Q4_0: 64 elements take 36 bytes, not 35"},
		{layout.Q4_0, 64, 54, "Q4_0: 64 elements take 36 bytes, not 54"},
		{layout.Q4_0, 33, 18, "Q4_0: 33 elements are no multiple of the block of 32"},
		{layout.Q4_0, 0, 18, "Q4_0: 0 elements take 0 bytes, not 18"},
		{layout.F16, 3, 7, "F16: 3 elements take 6 bytes, not 7"},
		{layout.Q6_K, 32, 210, "Q6_K: 32 elements are no multiple of the block of 256"},
	}
	for _, tt := range tests {
		dst, src := make([]float32, tt.elems), make([]byte, tt.size)
		err := Expand(tt.d, dst, src)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%v: %v", tt.d, err)
		case tt.want != "" && (!errors.Is(err, ErrLength) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// TestExpand expands five blocks of every type.
func TestExpand(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, d := range types {
			src := randomBytes(rand.New(rand.NewPCG(6, uint64(d))), 5*d.BlockBytes())
			want := reference(d, src)
			got := make([]float32, len(want))
			if err := Expand(d, got, src); err != nil {
				t.Fatal(err)
			}
			if i := differ(d, got, want); i >= 0 {
				t.Errorf("%v: element %d is %v, want %v", d, i, got[i], want[i])
			}
		}
	})
}

// TestTypeTable holds the table in the package's comment against the types: all are there, and
// blocks have those sizes.
func TestTypeTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t([A-Z]\S+) +(\d+) +(\d+)  \S`).FindAllStringSubmatch(string(doc), -1) {
		d, ok := layout.ParseDType(row[1])
		if want := fmt.Sprint(d.BlockElems(), d.BlockBytes()); !ok || !Supported(d) || row[2]+" "+row[3] != want || rows[row[1]] {
			t.Errorf("%q, want %s", row[0], want)
		}
		rows[row[1]] = true
	}
	if len(rows) != len(types)+1 { // and APR_Q8
		t.Errorf("%d rows, want %d", len(rows), len(types)+1)
	}
}

// skipInstrumented skips tests that count allocations in builds that add some.
func skipInstrumented(t *testing.T) {
	if testmode.Races() {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	src, dst := make([]byte, 8*18), make([]float32, 256)
	if testing.AllocsPerRun(10, func() { q4_0Generic(dst, src) }) != 0 {
		t.Skip("-d=checkptr=2 makes the portable loops allocate")
	}
}

// TestGenericAllocatesNothing: the portable loops keep their tables of values on the stack.
func TestGenericAllocatesNothing(t *testing.T) {
	skipInstrumented(t)
	for _, d := range types {
		src, dst := make([]byte, 3*d.BlockBytes()), make([]float32, 3*d.BlockElems())
		if n := testing.AllocsPerRun(10, func() { generic.expand[d].run(dst, src) }); n != 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}

func TestExpandAllocatesNothing(t *testing.T) {
	skipInstrumented(t)
	src, dst := make([]byte, 8*18), make([]float32, 256)
	blocks, int8s := plain(layout.Q4_0), integers(layout.I8, 0.5, 3)
	for name, f := range map[string]func(){
		"Expand":          func() { Expand(layout.Q4_0, dst, src) },
		"Codec, range":    func() { blocks.Expand(dst[:100], src[:4*18], 5, AllCores) },
		"Codec":           func() { blocks.Expand(dst, src, 0, AllCores) },
		"Codec, scaled":   func() { int8s.Expand(dst[:144], src, 0, AllCores) },
		"Codec, one core": func() { int8s.Expand(dst[:144], src, 0, 1) },
		"NewCodec":        func() { integers(layout.I8, 0.5, 3) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s of a small buffer: %v allocations", name, n)
		}
	}
}

func TestParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	rng := rand.New(rand.NewPCG(8, 8))
	for _, d := range []layout.DType{layout.F16, layout.Q4_0, layout.Q6_K} {
		blocks := (simd.ParallelMin + 3*simd.ParallelGrain + 5*maxBlock) / d.BlockElems()
		src := randomBytes(rng, blocks*d.BlockBytes())
		want := reference(d, src)
		got := make([]float32, len(want))
		if err := plain(d).Expand(got, src, 0, AllCores); err != nil {
			t.Fatal(err)
		}
		if i := differ(d, got, want); i >= 0 {
			t.Errorf("%v: element %d is %v, want %v", d, i, got[i], want[i])
		}
	}
}

func TestParallelFailures(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	n := simd.ParallelMin + 4*simd.ParallelGrain
	for _, at := range []int{0, 3 * simd.ParallelGrain, n - 1} {
		src := make([]byte, 8*n)
		src[8*at+7] = 0x80
		dst := make([]float32, n)
		err := integers(layout.I64, 1, 1).Expand(dst, src, 0, AllCores)
		if !errors.Is(err, ErrOverflow) {
			t.Errorf("overflow at %d: %v", at, err)
		}
		func() {
			defer func() {
				if p := recover(); p != "fault" {
					t.Errorf("panic at %d: recovered %v", at, p)
				}
			}()
			simd.InParallel(AllCores, n, simd.ParallelGrain, func(lo, hi int) error {
				if lo <= at && at < hi {
					panic("fault")
				}
				return nil
			})
		}()
	}
}

func TestScaledOverflow(t *testing.T) {
	one := make([]float32, 1)
	tests := []struct {
		q, zero int64
		ok      bool
	}{
		{math.MinInt64, 0, true}, {math.MinInt64, 1, false}, {math.MinInt64, -1, true}, {math.MaxInt64, -1, false},
		{math.MaxInt64, math.MaxInt64, true}, {0, math.MinInt64, false}, {-1, math.MinInt64, true}, {math.MinInt64, math.MaxInt64, false},
	}
	for _, tt := range tests {
		src := []byte{byte(tt.q), byte(tt.q >> 8), byte(tt.q >> 16), byte(tt.q >> 24), byte(tt.q >> 32), byte(tt.q >> 40), byte(tt.q >> 48), byte(tt.q >> 56)}
		err := integers(layout.I64, 1, tt.zero).Expand(one, src, 0, 1)
		if tt.ok && (err != nil || one[0] != float32(tt.q-tt.zero)) || !tt.ok && !errors.Is(err, ErrOverflow) {
			t.Errorf("%d - %d: %v, %v", tt.q, tt.zero, one[0], err)
		}
	}
	if err := integers(layout.I8, 1, math.MinInt64).Expand(one, []byte{0}, 0, 1); !errors.Is(err, ErrOverflow) {
		t.Error(err)
	}
	// One rounding: in float32, 16777217 would round before the product does.
	if err := integers(layout.I32, 3, 0).Expand(one, []byte{1, 0, 0, 1}, 0, 1); err != nil || one[0] != 50331652 {
		t.Errorf("3 × 16777217 = %v, %v", one[0], err)
	}
}
