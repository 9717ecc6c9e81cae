package peers

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// edgeScales are zero, subnormal, negative, huge, infinite and NaN, in the order in which the
// blocks of a golden file have them. Blocks of the wide types take only the first ones.
var edgeScales = []uint16{
	0x0000, 0x83ff, 0x7bff, 0xbc00, 0x7c00, 0x7e00, 0x0001, 0xfbff, 0xfc00, 0x8000, 0x03ff, 0x0400, 0x8001, 0xfe00,
}

// writeGolden writes for every type a file of blocks with the floats that ggml expands them to. For
// every quantizer it writes a file of floats with the blocks that ggml makes of them. In another file the
// importance of a row stands before the floats. Layout: u32 n, n bytes of input, the output; all
// little-endian. The files of expanders are in dequant/testdata below dir, those of quantizers in quantize/testdata.
func writeGolden(dir string, types typeSet) error {
	if contracts() {
		return errors.New("golden quantizations need ISO C's rounding: build with -ffp-contract=off")
	}
	copy(importance, modelImportance()) // as it was before any weigh
	var err error
	write := func(p peer, pkg, suffix string, in, out []byte) {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(in)))
		err = cmp.Or(err, os.WriteFile(filepath.Join(dir, pkg, "testdata", p.d.String()+suffix), slices.Concat(b, in, out), 0o644))
	}
	for _, p := range chosen(types, firstOfEach(ggmlExpanders)) {
		blocks := goldenBlocks(p.d)
		floats := make([]float32, len(blocks)/p.d.BlockBytes()*p.d.BlockElems())
		p.run(floats, blocks, 1)
		write(p, "dequant", ".ggml", blocks, encode(floats))
	}
	quantize := func(p peer, suffix string, before, floats []float32) {
		blocks := make([]byte, sizeOf(p.d, len(floats)))
		p.run(floats, blocks, 1)
		write(p, "quantize", suffix, encode(slices.Concat(before, floats)), blocks)
	}
	for _, p := range chosen(types, firstOfEach(ggmlQuantizers)) {
		quantize(p, ".ggmlq", nil, goldenRows(p.d))
	}
	for _, p := range chosen(types, ggmlWeighted) {
		floats := make([]float32, weightedRow)
		fillRows(rand.New(rand.NewPCG(33, uint64(p.d))), floats)
		quantize(p, ".ggmlw", importance, floats)
	}
	return err
}

func firstOfEach(peers []peer) []peer {
	return slices.CompactFunc(slices.Clone(peers), func(a, b peer) bool { return a.d == b.d })
}

// goldenBlocks returns a few plain blocks, then random codes under edge scales. Types without a
// binary16 scale get random bits, among them every exponent that is a byte.
func goldenBlocks(d layout.DType) []byte {
	rng := rand.New(rand.NewPCG(31, uint64(d)))
	plain, edges := 4, len(edgeScales)
	if d.BlockElems() == 256 {
		plain, edges = 1, 6
	}
	if d.BlockElems() < 256 && kerneltest.Halves[d] == nil {
		plain, edges = 24, 24
	}
	size := d.BlockBytes()
	b := make([]byte, (plain+edges)*size)
	fillPlain(rng, d, b[:plain*size])
	fillRandom(rng, b[plain*size:])
	for i := range edges {
		block := b[(plain+i)*size:]
		for k, at := range kerneltest.Halves[d] {
			kerneltest.PutScale(d, block[at:], edgeScales[(i+5*k)%len(edgeScales)])
		}
		switch d {
		case layout.F16:
			binary.LittleEndian.PutUint16(block, edgeScales[i%len(edgeScales)])
		case layout.BF16:
			binary.LittleEndian.PutUint16(block, uint16(i)<<11|uint16(i))
		case layout.MXFP4:
			block[0] = []byte{0, 1, 2, 3, 127, 128, 250, 251, 252, 253, 254, 255}[i%12]
		case layout.Q8_K:
			edges := []uint32{0x00000001, 0x80000000, 0x7f7fffff, 0xff800000, 0x7fc00000, 0x00812345}
			binary.LittleEndian.PutUint32(block, edges[i%len(edges)])
		}
	}
	return b
}

// goldenRows returns every kind of row twice, or as often as fill whole blocks.
func goldenRows(d layout.DType) []float32 {
	rng := rand.New(rand.NewPCG(32, uint64(d)))
	var x []float32
	for range max(2, d.BlockElems()/rowElems) {
		for _, fill := range rowKinds {
			row := make([]float32, rowElems)
			fill(rng, row)
			x = append(x, row...)
		}
	}
	return x
}

func encode(f []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, f) // floats always can be
	return b
}
