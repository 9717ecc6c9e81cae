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

	"github.com/tensormap/tensormap/loader"
)

// matrix is a tensor as rows and columns: its first dimension by all others. A tensor of one dimension is one row.
type matrix struct {
	loader.Tensor
	rows, columns uint64
	isPolite      bool // see handler
}

// matrixOf returns t as a matrix. Reading it pauses if isPolite is true: see handler.
func matrixOf(t loader.Tensor, isPolite bool) matrix {
	m := matrix{Tensor: t, isPolite: isPolite}
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

// walk reads a region, and hands runs of values to visit: row by row, each by ascending column. It fails if a value cannot be
// read, or ctx ends.
func (m matrix) walk(ctx context.Context, g region, visit func(row, column uint64, values []float32)) error {
	whole := g.columns.len() == m.columns // rows that follow each other are read at once
	atOnce := uint64(1)
	if whole {
		atOnce = max(1, chunkValues/max(1, m.columns))
	}
	buf, last := make([]float32, min(chunkValues, g.rows.len()*g.columns.len())), time.Now()
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
			if err := m.DequantizeRange(values, row*m.columns+column); err != nil {
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

// Bounds of a picture in tiles.
const (
	maxTileRows    = 192
	maxTileColumns = 768
)

// picture answers data/picture.
func (h *handler) picture(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	as := query.Get("as")
	if as != "max" && as != "mean" {
		return failed(http.StatusBadRequest, "A picture is as=max or as=mean.")
	}
	t, err := h.tensorFor(w, r)
	if err != nil {
		return err
	}
	defer t.lease.Release()
	m := matrixOf(t.Tensor, h.isPolite)
	var g region
	if g.rows, err = extentOf(query, "rows", m.rows); err != nil {
		return err
	}
	if g.columns, err = extentOf(query, "columns", m.columns); err != nil {
		return err
	}
	var p *tiles
	join, isMean := farther, as == "mean"
	if isMean {
		join = sum
	}
	err = h.tensors.do(r, func() error {
		figures, err := h.figuresOf(r.Context(), t)
		if err != nil {
			return err
		}
		if figures.Err != nil {
			return figures.Err
		}
		p = newTiles(g, figures.Mean, figures.Std)
		return m.walk(r.Context(), g, func(row, column uint64, values []float32) { p.add(row, column, values, join) })
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Tiles", p.header())
	return send(w, p.bytes(isMean))
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

// tiles is a picture of a region: what is known of each tile, which has so many rows by columns.
type tiles struct {
	region
	mean, std           float64
	tileRows, tileWidth uint64    // values of a tile
	rows, columns       uint64    // tiles
	sums                []float64 // of each tile's distances from the mean, or the largest
	counts              []uint64  // of each tile's finite values
	bad                 []bool    // tiles with NaN or an infinity
}

// newTiles returns an empty picture of g, for values of this mean and standard deviation.
func newTiles(g region, mean, std float64) *tiles {
	p := &tiles{region: g, mean: mean, std: std}
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

// add adds a run of values of one row. join adds a distance from the mean to what is known of a tile.
func (p *tiles) add(row, column uint64, values []float32, join func(sum, distance float64) float64) {
	first := (row - p.region.rows.first) / p.tileRows * p.columns
	column -= p.region.columns.first
	for len(values) > 0 {
		tile := first + column/p.tileWidth
		n := min(uint64(len(values)), p.tileWidth-column%p.tileWidth)
		sum := p.sums[tile]
		for _, v := range values[:n] {
			x := float64(v)
			if math.IsNaN(x) || math.IsInf(x, 0) {
				p.bad[tile] = true
				continue
			}
			sum = join(sum, x-p.mean)
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

// bytes returns a level for each tile: of the largest distance from the mean, or of the mean distance.
func (p *tiles) bytes(isMean bool) []byte {
	out := make([]byte, len(p.sums))
	for i, sum := range p.sums {
		level := 0.0
		switch {
		case p.bad[i]:
			out[i] = badLevel
			continue
		case isMean && p.std > 0:
			level = (sum/float64(p.counts[i])/p.std + mostMean) / (2 * mostMean)
		case isMean:
			level = 0.5
		case p.std > 0:
			level = math.Log(sum/p.std/leastFar) / math.Log(mostFar/leastFar)
		}
		out[i] = byte(math.Round(levels * min(max(level, 0), 1)))
	}
	return out
}

// header says how many tiles there are, and how many values each has: rows and columns of both.
func (p *tiles) header() string { return fmt.Sprint(p.rows, p.columns, p.tileRows, p.tileWidth) }

// farther returns the larger of two distances from the mean.
func farther(most, distance float64) float64 { return max(most, math.Abs(distance)) }

// sum returns the sum of two distances.
func sum(sum, distance float64) float64 { return sum + distance }

// maxWindow bounds rows and columns of the values that one request asks for.
const maxWindow = 64

// values answers data/values.
func (h *handler) values(w http.ResponseWriter, r *http.Request) error {
	t, err := h.tensorFor(w, r)
	if err != nil {
		return err
	}
	defer t.lease.Release()
	m := matrixOf(t.Tensor, h.isPolite)
	query := r.URL.Query()
	var g region
	if g.rows, err = around(query.Get("row"), query.Get("rows"), m.rows); err != nil {
		return err
	}
	if g.columns, err = around(query.Get("column"), query.Get("columns"), m.columns); err != nil {
		return err
	}
	a := ValuesAnswer{Row: g.rows.first, Column: g.columns.first, Values: [][]Real{}}
	err = m.walk(r.Context(), g, func(_, _ uint64, values []float32) {
		row := make([]Real, len(values))
		for i, v := range values {
			row[i] = Real(v)
		}
		a.Values = append(a.Values, row)
	})
	if err != nil {
		return err
	}
	return writeJSON(w, &a)
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
func (h *handler) norms(w http.ResponseWriter, r *http.Request) error {
	t, err := h.tensorFor(w, r)
	if err != nil {
		return err
	}
	defer t.lease.Release()
	var a NormsAnswer
	err = h.tensors.do(r, func() (err error) {
		a, err = matrixOf(t.Tensor, h.isPolite).norms(r.Context())
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, &a)
}

// norms returns the norms of the rows and columns of m: none of too many, and none of one row. It fails as walk does.
func (m matrix) norms(ctx context.Context) (a NormsAnswer, err error) {
	var rows, columns []float64 // sums of squares
	if m.rows > 1 && m.rows <= maxNorms {
		rows = make([]float64, m.rows)
	}
	if m.rows > 1 && m.columns <= maxNorms {
		columns = make([]float64, m.columns)
	}
	if rows != nil || columns != nil {
		err = m.walk(ctx, m.all(), func(row, column uint64, values []float32) {
			sum := addSquares(columns, column, values)
			if rows != nil {
				rows[row] += sum
			}
		})
	}
	return NormsAnswer{Rows: normsOf(rows), Columns: normsOf(columns)}, err
}

// addSquares adds the squares of values to those of their columns, unless columns is nil, and returns their sum. It leaves out
// NaN and infinities.
func addSquares(columns []float64, column uint64, values []float32) (sum float64) {
	if columns != nil {
		columns = columns[column:]
	}
	for i, v := range values {
		square := float64(v) * float64(v)
		if math.IsNaN(square) || math.IsInf(square, 0) {
			continue
		}
		sum += square
		if columns != nil {
			columns[i] += square
		}
	}
	return sum
}

// normsOf returns the roots of sums of squares, as they are drawn, with their median and the largest two.
func normsOf(squares []float64) Norms {
	n := Norms{Norms: []Real{}, Largest: []Norm{}, Median: Real(math.NaN()), Step: 1}
	if len(squares) == 0 {
		return n
	}
	for i, square := range squares {
		norm := math.Sqrt(square)
		squares[i] = norm
		if norm == 0 {
			n.Zeros++
		}
		n.Largest = append(n.Largest, Norm{At: uint64(i), Norm: Real(norm)})
		slices.SortStableFunc(n.Largest, func(a, b Norm) int { return cmp.Compare(b.Norm, a.Norm) })
		n.Largest = n.Largest[:min(2, len(n.Largest))]
	}
	n.Step, _ = divide(uint64(len(squares)), maxDrawnNorms)
	for group := range slices.Chunk(squares, int(n.Step)) {
		n.Norms = append(n.Norms, Real(slices.Max(group)))
	}
	slices.Sort(squares)
	n.Median = Real((squares[(len(squares)-1)/2] + squares[len(squares)/2]) / 2)
	return n
}
