package explore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/elements"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// matrix is a tensor as rows and columns: its first dimension by all others. A tensor of one dimension is one row.
type matrix struct {
	loader.Tensor
	rows, columns uint64
	isPolite      bool // see handler
	isPlain       bool // its elements are the values: no scheme or scale makes them
}

// matrixOf returns t as a matrix. Reading it pauses if isPolite is true: see handler.
func matrixOf(t loader.Tensor, isPolite bool) matrix {
	_, isScaled, err := t.Scale() // without it no value can be read
	m := matrix{Tensor: t, isPolite: isPolite, isPlain: t.Scheme() == nil && !isScaled && err == nil}
	switch shape := t.Shape(); {
	case t.Elements() == 0:
	case len(shape) < 2:
		m.rows, m.columns = 1, t.Elements()
	default:
		m.rows, m.columns = uint64(shape[0]), t.Elements()/uint64(shape[0])
	}
	return m
}

// region is a part of a matrix: rows and columns from first on, up to the one before end.
type region struct{ rows, columns extent }

// all returns the region of all values.
func (m matrix) all() region { return region{extent{0, m.rows}, extent{0, m.columns}} }

type extent struct{ first, end uint64 }

func (e extent) len() uint64 { return e.end - e.first }

// chunkValues is how many values of a matrix are read at once.
const chunkValues = 1 << 17

// walk reads a region, and hands runs of values to visit: row by row, each by ascending column. Integers of 64 bits are rounded to
// float64. It fails if a value cannot be read, or ctx ends.
func (m matrix) walk(ctx context.Context, g region, visit func(row, column uint64, values []float64)) error {
	whole := g.columns.len() == m.columns // rows that follow each other are read at once
	atOnce := uint64(1)
	if whole {
		atOnce = max(1, chunkValues/max(1, m.columns))
	}
	buf, last := make([]float64, min(chunkValues, g.rows.len()*g.columns.len())), time.Now()
	read := m.reader()
	for row := g.rows.first; row < g.rows.end; row += atOnce {
		rows := min(atOnce, g.rows.end-row)
		for column := g.columns.first; column < g.columns.end; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if m.isPolite {
				last = pause(last)
			}
			n := min(g.columns.end-column, uint64(len(buf))/rows)
			values := buf[:rows*n]
			if err := read(values, row*m.columns+column); err != nil {
				return err
			}
			for i := range rows {
				visit(row+i, column, values[i*n:(i+1)*n])
			}
			column += n
		}
	}
	return nil
}

// reader returns a function that reads values from element first on, as stats takes them.
func (m matrix) reader() func(dst []float64, first uint64) error {
	if m.isPlain && elements.IsWide(m.DType()) {
		var buf []byte
		size := m.DType().BlockBytes()
		return func(dst []float64, first uint64) error {
			buf = slices.Grow(buf[:0], len(dst)*size)[:len(dst)*size]
			_, err := m.ReadAt(buf, int64(first)*int64(size))
			elements.Float64s(m.DType(), dst, buf)
			return err
		}
	}
	var buf []float32
	return func(dst []float64, first uint64) error {
		buf = slices.Grow(buf[:0], len(dst))[:len(dst)]
		err := m.DequantizeRange(buf, first)
		for i, v := range buf {
			dst[i] = float64(v)
		}
		return err
	}
}

// texts returns the values of a region of at least one column as dump prints them. It fails as walk does.
func (m matrix) texts(ctx context.Context, g region) ([][]answer.Value, error) {
	all := [][]answer.Value{}
	text := elements.Texts[m.DType()]
	if text == nil || !m.isPlain {
		err := m.walk(ctx, g, func(_, _ uint64, values []float64) {
			row := make([]answer.Value, len(values))
			for i, v := range values {
				row[i] = answer.Value(strconv.FormatFloat(v, 'g', -1, 32))
			}
			all = append(all, row)
		})
		return all, err
	}
	size := uint64(m.DType().BlockBytes())
	buf := make([]byte, g.columns.len()*size)
	for row := g.rows.first; row < g.rows.end; row++ {
		if _, err := m.ReadAt(buf, int64((row*m.columns+g.columns.first)*size)); err != nil {
			return nil, err
		}
		var texts []answer.Value
		for b := range slices.Chunk(buf, int(size)) {
			texts = append(texts, answer.Value(text(b)))
		}
		all = append(all, texts)
	}
	return all, nil
}

// Bounds of a picture in tiles.
const (
	maxTileRows    = 192
	maxTileColumns = 768
)

// picture is a tensor's matrix as a picture: a byte for each tile, and what tiles.header says.
type picture struct {
	Bytes []byte `json:"bytes"`
	Tiles string `json:"tiles"`
}

// picture answers data/picture.
func (h *handler) picture(r *request, t *single) (any, error) {
	as := r.query.Get("as")
	if as != "max" && as != "mean" {
		return nil, failed(http.StatusBadRequest, "A picture is as=max or as=mean.")
	}
	rows, err := extentOf(r.query, "rows", t.matrix.rows)
	if err != nil {
		return nil, err
	}
	columns, err := extentOf(r.query, "columns", t.matrix.columns)
	if err != nil {
		return nil, err
	}
	return inTurn(r.ctx, h.tensors, func() (any, error) {
		figures, err := h.figuresOf(r.ctx, t)
		if err != nil {
			return nil, err
		}
		if figures.Err != nil {
			return nil, figures.Err
		}
		p := newTiles(region{rows, columns}, figures.Mean, figures.Std, as == "mean")
		err = t.matrix.walk(r.ctx, p.region, p.add)
		return &picture{p.bytes(), p.header()}, err
	})
}

// extentOf returns the extent FROM:TO that a query names, or all of n. It fails if that is empty or goes beyond n.
func extentOf(query url.Values, name string, n uint64) (e extent, err error) {
	text := query.Get(name)
	if text == "" {
		return extent{0, n}, nil
	}
	from, to, ok := strings.Cut(text, ":")
	first, err1 := strconv.ParseUint(from, 10, 64)
	end, err2 := strconv.ParseUint(to, 10, 64)
	if !ok || err1 != nil || err2 != nil || first >= end || end > n {
		return e, failed(http.StatusBadRequest, "The tensor has no %s %q: it has %d.", name, text, n)
	}
	return extent{first, end}, nil
}

// tiles is a picture of a region: what is known of each tile of tileRows × tileWidth values.
type tiles struct {
	region
	mean, std           float64
	isMean              bool      // shows the mean distance of each tile's values from the mean, else the largest
	tileRows, tileWidth uint64    // rows and columns of a tile
	rows, columns       uint64    // tiles
	sums                []float64 // of each tile's distances from the mean, or the largest, as isMean says
	counts              []uint64  // of each tile's finite values
	bad                 []bool    // tiles with NaN or an infinity
}

// newTiles returns an empty picture of g, for values of this mean and standard deviation. isMean is as in tiles.
func newTiles(g region, mean, std float64, isMean bool) *tiles {
	p := &tiles{region: g, mean: mean, std: std, isMean: isMean}
	p.tileRows, p.rows = divide(g.rows.len(), maxTileRows)
	p.tileWidth, p.columns = divide(g.columns.len(), maxTileColumns)
	n := p.rows * p.columns
	p.sums, p.counts, p.bad = make([]float64, n), make([]uint64, n), make([]bool, n)
	return p
}

// divide divides n among at most most parts of one size. The last may be smaller.
func divide(n, most uint64) (size, parts uint64) {
	size = max(1, (n+most-1)/most)
	return size, (n + size - 1) / size
}

// add adds a run of values of one row.
func (p *tiles) add(row, column uint64, values []float64) {
	first := (row - p.region.rows.first) / p.tileRows * p.columns
	column -= p.region.columns.first
	for len(values) > 0 {
		tile := first + column/p.tileWidth
		n := min(uint64(len(values)), p.tileWidth-column%p.tileWidth)
		sum := p.sums[tile]
		for _, x := range values[:n] {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				p.bad[tile] = true
				continue
			}
			if p.isMean {
				sum += x - p.mean
			} else {
				sum = max(sum, math.Abs(x-p.mean))
			}
			p.counts[tile]++
		}
		p.sums[tile] = sum
		values, column = values[n:], column+n
	}
}

// Scales of pictures, in standard deviations.
const (
	leastFar, mostFar = 2, 256 // logarithmic
	mostMean          = 4      // linear, from minus this
	levels            = 254
	badLevel          = 255
)

// bytes returns a level for each tile.
func (p *tiles) bytes() []byte {
	out := make([]byte, len(p.sums))
	for i, sum := range p.sums {
		level := 0.0
		switch {
		case p.bad[i]:
			out[i] = badLevel
			continue
		case p.isMean && p.std > 0:
			level = (sum/float64(p.counts[i])/p.std + mostMean) / (2 * mostMean)
		case p.isMean:
			level = 0.5
		case p.std > 0:
			level = math.Log(sum/p.std/leastFar) / math.Log(mostFar/leastFar)
		}
		if level > 0 { // NaN is not, as of a standard deviation beyond float64
			out[i] = byte(math.Round(levels * min(level, 1)))
		}
	}
	return out
}

// header says how many tiles there are, and how many values each has: rows and columns of both.
func (p *tiles) header() string { return fmt.Sprint(p.rows, p.columns, p.tileRows, p.tileWidth) }

// maxWindow bounds rows and columns of the values that one request asks for.
const maxWindow = 64

// values answers data/values.
func (h *handler) values(r *request, t *single) (any, error) {
	rows, err := around(r.query.Get("row"), r.query.Get("rows"), t.matrix.rows)
	if err != nil {
		return nil, err
	}
	columns, err := around(r.query.Get("column"), r.query.Get("columns"), t.matrix.columns)
	if err != nil {
		return nil, err
	}
	values, err := t.matrix.texts(r.ctx, region{rows, columns})
	return &answer.ValuesAnswer{Row: rows.first, Column: columns.first, Values: values}, err
}

// around returns the extent of count positions, 7 if that is empty, around a position of n. Near an end it is moved, not cut.
func around(position, count string, n uint64) (extent, error) {
	at, err := strconv.ParseUint(position, 10, 64)
	if err != nil || at >= n {
		return extent{}, failed(http.StatusBadRequest, "The tensor has no position %q: it has %d.", position, n)
	}
	c, err := strconv.ParseUint(cmp.Or(count, "7"), 10, 64)
	if err != nil || c == 0 || c > maxWindow {
		return extent{}, failed(http.StatusBadRequest, "A window has 1 to %d positions, not %q.", maxWindow, count)
	}
	c = min(c, n)
	first := min(at-min(at, c/2), n-c)
	return extent{first, first + c}, nil
}

// Bounds of norms: rows or columns beyond the first have none, and neighbours beyond the second are drawn as one.
const (
	maxNorms      = 4 << 20
	maxDrawnNorms = 768
)

// norms answers data/norms.
func (h *handler) norms(r *request, t *single) (any, error) {
	return inTurn(r.ctx, h.tensors, func() (any, error) { return t.matrix.norms(r.ctx) })
}

// norms returns the norms of the rows and columns of m: none of too many, and none of one row. It fails as walk does.
func (m matrix) norms(ctx context.Context) (a answer.NormsAnswer, err error) {
	var rows, columns []float64
	if m.rows > 1 && m.rows <= maxNorms {
		rows = make([]float64, m.rows)
	}
	if m.rows > 1 && m.columns <= maxNorms {
		columns = make([]float64, m.columns)
	}
	if rows != nil || columns != nil {
		add := addSquares
		if m.DType() == layout.F64 { // whose squares may be infinite, or 0
			add = addLengths
		}
		err = m.walk(ctx, m.all(), func(row, column uint64, values []float64) {
			norm := new(float64)
			if rows != nil {
				norm = &rows[row]
			}
			if columns != nil {
				add(norm, columns[column:], values)
			} else {
				add(norm, nil, values)
			}
		})
		if m.DType() != layout.F64 {
			for _, squares := range [][]float64{rows, columns} {
				for i, square := range squares {
					squares[i] = math.Sqrt(square)
				}
			}
		}
	}
	return answer.NormsAnswer{Rows: normsOf(rows), Columns: normsOf(columns)}, err
}

// addSquares adds the squares of values to the squares of their row, and of their columns unless that is nil. It leaves out NaN and
// infinities.
func addSquares(row *float64, columns, values []float64) {
	sum := 0.0
	for i, x := range values {
		square := x * x
		if math.IsNaN(square) || math.IsInf(square, 0) {
			continue
		}
		sum += square
		if columns != nil {
			columns[i] += square
		}
	}
	*row += sum
}

// addLengths does what addSquares does, but to norms, which it adds values to as further dimensions.
func addLengths(row *float64, columns, values []float64) {
	for i, x := range values {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		*row = math.Hypot(*row, x)
		if columns != nil {
			columns[i] = math.Hypot(columns[i], x)
		}
	}
}

// normsOf returns norms as they are drawn, with their median and the largest two. It sorts them.
func normsOf(norms []float64) answer.Norms {
	n := answer.Norms{Norms: []answer.Real{}, Largest: []answer.Norm{}, Median: answer.Real(math.NaN()), Step: 1}
	if len(norms) == 0 {
		return n
	}
	for i, norm := range norms {
		if norm == 0 {
			n.Zeros++
		}
		n.Largest = append(n.Largest, answer.Norm{At: uint64(i), Norm: answer.Real(norm)})
		slices.SortStableFunc(n.Largest, func(a, b answer.Norm) int { return cmp.Compare(b.Norm, a.Norm) })
		n.Largest = n.Largest[:min(2, len(n.Largest))]
	}
	n.Step, _ = divide(uint64(len(norms)), maxDrawnNorms)
	for group := range slices.Chunk(norms, int(n.Step)) {
		n.Norms = append(n.Norms, answer.Real(slices.Max(group)))
	}
	slices.Sort(norms)
	n.Median = answer.Real(norms[(len(norms)-1)/2]/2 + norms[len(norms)/2]/2)
	return n
}
