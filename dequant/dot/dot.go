package dot

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// lanes is the number of partial sums of a row of floats. A row of more than segmentElems elements is multiplied in segments of
// segmentElems elements. Its product is the sum of the products of its segments.
const (
	lanes        = 32
	segmentElems = 8192
)

// Mat multiplies rows, which are stored as type d, by several activations. It sets dst[i][r] to the product of row r and
// as[i]. It reads the rows from memory once. The error wraps dequant.ErrLength unless all activations have one length, and
// each dst[i] has an element for each row. It wraps errors.ErrUnsupported if Type(d) is 0. An activation of another type than
// Type(d) is an error too.
func Mat(dst [][]float32, d layout.DType, rows []byte, as []*Activation) error {
	if len(dst) != len(as) {
		return fmt.Errorf("dot: %d vectors of products for %d activations: %w", len(dst), len(as), dequant.ErrLength)
	}
	if len(as) == 0 {
		return nil
	}
	for i, a := range as {
		if err := check(len(dst[i]), d, len(rows), a); err != nil {
			return err
		}
		if a.elems != as[0].elems || len(dst[i]) != len(dst[0]) {
			return fmt.Errorf("dot: vectors of %d and %d elements, for %d and %d products: %w", as[0].elems, a.elems, len(dst[0]), len(dst[i]), dequant.ErrLength)
		}
	}
	n, elems := len(dst[0]), as[0].elems
	switch kernels := active.quantized[d]; {
	case n == 0:
		return nil
	case elems == 0:
		for _, products := range dst {
			clear(products)
		}
		return nil
	case kernels.many != nil && len(as) > 1:
		multiplyMany(kernels.many, dst, d, rows, as)
		return nil
	case kernels.one == nil && (active.plain[d] == nil || elems%lanes != 0): // no kernel takes such rows
		multiplyExpanded(dst, d, rows, as)
		return nil
	}
	size := len(rows) / n
	step := max(1, tileBytes/size) // number of rows that stay in the first cache
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		for i, a := range as {
			multiply(dst[i][lo:hi], d, rows[lo*size:hi*size], a)
		}
	}
	return nil
}

// Floats sets dst to the products of len(dst) rows with a. rows has one row after the other, each with as many float32s as a
// has elements. Floats fails if a is not of type F32. The error wraps dequant.ErrLength if len(rows) is not len(dst)
// times the number of a's elements.
func Floats(dst, rows []float32, a *Activation) error {
	if a.dtype != layout.F32 {
		return fmt.Errorf("dot: rows of F32 take an activation of F32, not of %v", a.dtype)
	}
	if len(rows) != len(dst)*a.elems || len(dst) > 0 && len(rows)/len(dst) != a.elems { // the product may overflow
		return fmt.Errorf("dot: %d elements are not %d rows of %d: %w", len(rows), len(dst), a.elems, dequant.ErrLength)
	}
	if a.elems%lanes == 0 && a.elems > 0 {
		multiplyNumbers(active.floats, dst, rows, 1, a.floats)
		return nil
	}
	multiplyTiles([][]float32{dst}, []*Activation{a}, func(w []float32, r, first int) { copy(w, rows[r*a.elems+first:]) })
	return nil
}

// tileBytes is the size of the rows that Mat multiplies with all activations before it reads
// further ones. They stay in the first cache, next to one activation.
const tileBytes = 16 << 10

// check returns an error unless size bytes are n rows of type d that can be multiplied with a. Mat says what the errors wrap.
func check(n int, d layout.DType, size int, a *Activation) error {
	switch kind := Type(d); {
	case kind == 0: // rows of type d have no products
		return unsupported(d)
	case kind != a.dtype:
		return fmt.Errorf("dot: rows of %v take an activation of %v, not of %v", d, kind, a.dtype)
	case a.elems%d.BlockElems() != 0:
		return fmt.Errorf("dot: rows of %d elements are not in blocks of %d, as %v is: %w", a.elems, d.BlockElems(), d, dequant.ErrLength)
	}
	row := rowBytes(d, a.elems)
	if n > 0 && (size%n != 0 || uint64(size/n) != row) || n == 0 && size != 0 {
		return fmt.Errorf("dot: %d bytes are not %d rows of %d bytes: %w", size, n, row, dequant.ErrLength)
	}
	return nil
}

// rowBytes returns the size of a row of n elements of type d, in bytes.
func rowBytes(d layout.DType, n int) uint64 {
	return uint64(n) / uint64(d.BlockElems()) * uint64(d.BlockBytes())
}

// unsupported returns the error for rows of type d, which cannot be multiplied.
func unsupported(d layout.DType) error {
	return fmt.Errorf("dot: no products with %v: %w", d, errors.ErrUnsupported)
}

// multiply sets dst[r] to the product of row r, which is stored as type d, and a. It uses a kernel for one activation. The
// caller has checked sizes and types, and that there are rows, elements, and a kernel that takes such rows.
func multiply(dst []float32, d layout.DType, rows []byte, a *Activation) {
	kernel := active.quantized[d].one // the kernel for one activation
	if kernel == nil {
		multiplyNumbers(active.plain[d], dst, rows, d.BlockBytes(), a.floats)
		return
	}
	size := len(rows) / len(dst)
	step := max(1, simd.MaxCall/a.elems) // rows that one call takes
	for ; len(dst) > step; dst, rows = dst[step:], rows[step*size:] {
		kernel(dst[:step], rows[:step*size], a.groups, a.elems/d.BlockElems())
	}
	kernel(dst, rows, a.groups, a.elems/d.BlockElems())
}

// multiplyNumbers sets dst to the products of rows of numbers with x, by the given kernel. rows are bytes or float32s. perNumber
// is the number of elements of rows that one number takes: its size in bytes, or 1 for float32s. len(x) is a positive multiple
// of lanes. A row of more than segmentElems numbers is multiplied in segments, and the products of its segments are added.
func multiplyNumbers[T byte | float32](kernel func(dst []float32, rows []T, x []float32), dst []float32, rows []T, perNumber int, x []float32) {
	if len(x) <= segmentElems {
		rowSize := len(x) * perNumber
		for step := simd.MaxCall / len(x); len(dst) > step; dst, rows = dst[step:], rows[step*rowSize:] {
			kernel(dst[:step], rows[:step*rowSize], x)
		}
		kernel(dst, rows, x)
		return
	}
	for r := range dst {
		sum := float32(0)
		for first := 0; first < len(x); first += segmentElems {
			y := x[first:min(first+segmentElems, len(x))]
			kernel(dst[r:r+1], rows[:len(y)*perNumber], y) // of the segment, into dst[r]
			sum, rows = sum+dst[r], rows[len(y)*perNumber:]
		}
		dst[r] = sum
	}
}

// A bundle is memory for the multiplication with several activations.
type bundle struct {
	xs       []*int8   // the first codes of the activations
	products []float32 // of a row with all activations, then of the next
	acc      []float32 // eight partial sums for each activation, and spare floats for the kernel: see manyKernel
	padded   []byte    // rows, padded with zeros to whole groups
}

var bundles = sync.Pool{New: func() any { return new(bundle) }}

// nearGroups bounds the number of groups, of all activations together, that one call of a manyKernel takes. They stay in
// the first cache, next to a row. But a call takes up to four activations, whatever the number of their groups.
const nearGroups = 64

// padRows copies rows of size bytes to padded. It puts zeros behind each row, so that a row of padded has paddedSize bytes.
// len(padded) is a multiple of paddedSize.
func padRows(padded, rows []byte, size, paddedSize int) {
	for ; len(padded) > 0; padded, rows = padded[paddedSize:], rows[size:] {
		clear(padded[copy(padded, rows[:size]):paddedSize])
	}
}

// multiplyMany sets dst[i] to the products of rows, of type d, with as[i]. kernel is the kernel of d for several activations. The
// caller has checked sizes and types: there are rows, elements and activations, all of one length. The kernel takes whole groups of
// groupElems elements. Rows that end within a group are copied and padded with zeros. The zeros add nothing, since the
// activations have zeros there too.
func multiplyMany(kernel manyKernel, dst [][]float32, d layout.DType, rows []byte, as []*Activation) {
	n := len(dst[0])
	groups := len(as[0].groups)
	size, whole := len(rows)/n, groups*int(rowBytes(d, groupElems))               // bytes of a stored row, and of a row padded to whole groups
	atOnce := min(len(as), max(4, nearGroups/groups))                             // activations that one call takes
	step := max(1, min(tileBytes/whole, simd.MaxCall/(atOnce*groups*groupElems))) // rows that one call takes
	b := bundles.Get().(*bundle)
	defer bundles.Put(b)
	b.acc = resize(b.acc, 8*atOnce+spare)
	b.products = resize(b.products, step*atOnce)
	b.xs = resize(b.xs, atOnce)
	defer clear(b.xs) // so that the pool holds no activation
	if size < whole {
		b.padded = resize(b.padded, step*whole)
	}
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		tile := rows[lo*size : hi*size]
		if size < whole {
			tile = b.padded[:(hi-lo)*whole]
			padRows(tile, rows[lo*size:], size, whole)
		}
		for first := 0; first < len(as); first += atOnce {
			xs := b.xs[:min(atOnce, len(as)-first)]
			for i := range xs {
				xs[i] = &as[first+i].groups[0].codes[0]
			}
			products := b.products[:(hi-lo)*len(xs)]
			kernel(products, tile, xs, b.acc[:8*len(xs)+spare], groups)
			for r := range hi - lo {
				for i := range xs {
					dst[first+i][lo+r] = products[r*len(xs)+i]
				}
			}
		}
	}
}

// A tile has memory for a segment of a row as floats, and for one product.
type tile struct {
	floats [segmentElems]float32
	one    [1]float32
}

var tiles = sync.Pool{New: func() any { return new(tile) }}

// multiplyTiles sets dst[i] to the products of rows of floats with as[i]. All activations are of type F32 and have one length. fill sets w
// to elements [first, first+len(w)) of row r. multiplyTiles takes up to segmentElems elements of a row at a time, multiplies them by all
// activations, and adds the products to dst.
func multiplyTiles(dst [][]float32, as []*Activation, fill func(w []float32, r, first int)) {
	t := tiles.Get().(*tile)
	defer tiles.Put(t)
	n := as[0].elems
	for r := range dst[0] {
		for i := range dst {
			dst[i][r] = 0
		}
		for first := 0; first < n; first += segmentElems {
			elems := min(segmentElems, n-first)
			w := t.floats[:(elems+lanes-1)/lanes*lanes] // padded with zeros, as activations are
			fill(w[:elems], r, first)
			clear(w[elems:])
			for i, a := range as {
				active.floats(t.one[:], w, a.floats[first:][:len(w)])
				dst[i][r] += t.one[0]
			}
		}
	}
}

// multiplyExpanded sets dst[i] to the products of rows, of type d, with as[i], which are of type F32. The caller has checked sizes and
// types. It expands rows to floats, and needs no kernel of d.
func multiplyExpanded(dst [][]float32, d layout.DType, rows []byte, as []*Activation) {
	size := len(rows) / len(dst[0])
	multiplyTiles(dst, as, func(w []float32, r, first int) {
		segment := rows[r*size:][rowBytes(d, first):] // whole blocks: segmentElems is a multiple of every block
		if err := dequant.Expand(d, w, segment[:rowBytes(d, len(w))]); err != nil {
			panic(err) // not possible for what check accepts
		}
	})
}
