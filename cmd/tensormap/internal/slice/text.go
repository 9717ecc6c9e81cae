package slice

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/elements"
	"github.com/tensormap/tensormap/internal/report"
)

// textPage is the number of numbers that are aligned with each other.
const textPage = 4096

// writeText writes numbers for people and numpy.loadtxt: a line a row, lines with a # say what follows. Numbers are as short as they can
// be without being others. Integers stay integers, unless the file gives them a scale.
func writeText(w io.Writer, r *Region) error {
	if err := r.Tensor.DequantizeRange(nil, 0); err != nil {
		return err
	}
	_, scaled, err := r.Tensor.Scale()
	if err != nil {
		return err
	}
	out := newTextWriter(w, r)
	d := r.Tensor.DType()
	if number := elements.Texts[d]; number != nil && !scaled {
		err = r.eachElements(func(b []byte) error {
			for one := range slices.Chunk(b, d.BlockBytes()) {
				out.add(number(one))
			}
			return out.err()
		})
	} else {
		err = r.eachValues(func(values []float32) error {
			for _, v := range values {
				out.add(strconv.FormatFloat(float64(v), 'g', -1, 32))
			}
			return out.err()
		})
	}
	if err != nil {
		return err
	}
	out.flush()
	return out.w.Flush()
}

// textWriter lays numbers out in lines.
type textWriter struct {
	w      *bufio.Writer
	r      *Region
	row    uint64 // numbers in a row
	matrix uint64 // numbers in each of several matrices; 0 if there is one
	page   []string
	at     uint64 // numbers written
}

// newTextWriter returns a writer of the numbers of r to w. It has written a line with name, dtype and shape of what follows.
func newTextWriter(w io.Writer, r *Region) *textWriter {
	o := &textWriter{w: bufio.NewWriter(w), r: r, row: 1}
	shape := r.shape()
	dims, whole := len(shape), report.ShapeText(r.Tensor.Shape())
	if dims > 0 {
		o.row = max(1, uint64(shape[dims-1]))
	}
	if dims > 2 {
		o.matrix = o.row * uint64(shape[dims-2])
	}
	title := report.ShapeText(shape)
	if title != whole {
		title += " of " + whole
	}
	fmt.Fprintf(o.w, "# %s  %s  %s\n", report.Name(r.Tensor.Name()), report.Kind(r.Tensor), title)
	return o
}

// err returns the first error of writing.
func (o *textWriter) err() error {
	_, err := o.w.Write(nil)
	return err
}

// add adds a number, as text, to the page, and writes the page once it is full.
func (o *textWriter) add(number string) {
	if o.page = append(o.page, number); len(o.page) == textPage {
		o.flush()
	}
}

// flush writes the numbers of the page in lines, with equal widths, and empties the page. Where one of several matrices begins, it writes
// a line that says which.
func (o *textWriter) flush() {
	width := 0
	for _, number := range o.page {
		width = max(width, len(number))
	}
	inLine := o.row
	if o.r.Width > 0 {
		inLine = uint64(max(1, (o.r.Width-len(Continued))/(width+len(report.Gap))))
	}
	for _, number := range o.page {
		if o.matrix > 0 && o.at%o.matrix == 0 {
			if o.at > 0 {
				o.w.WriteByte('\n')
			}
			fmt.Fprintf(o.w, "# [%s]\n", o.sliceOfMatrix(o.at/o.matrix))
		}
		switch column := o.at % o.row; {
		case column == 0:
		case column%inLine == 0:
			o.w.WriteString("\n" + Continued)
		default:
			o.w.WriteString(report.Gap)
		}
		fmt.Fprintf(o.w, "%*s", width, number)
		if o.at++; o.at%o.row == 0 {
			o.w.WriteByte('\n')
		}
	}
	o.page = o.page[:0]
}

// Continued begins a line with the rest of a row.
const Continued = "    "

// sliceOfMatrix returns the inside of the brackets by which dump writes matrix number n of the result alone: "3, 0:4, 0:8".
func (o *textWriter) sliceOfMatrix(n uint64) string {
	items := make([]string, len(o.r.extents))
	inner := 2 // dimensions of the matrix that are to come
	for d := len(items) - 1; d >= 0; d-- {
		e := o.r.extents[d]
		switch {
		case e.single:
			items[d] = strconv.Itoa(e.First)
		case inner > 0:
			inner--
			items[d] = fmt.Sprintf("%d:%d", e.First, e.First+e.N)
		default:
			items[d] = strconv.Itoa(e.First + int(n%uint64(e.N)))
			n /= uint64(e.N)
		}
	}
	return strings.Join(items, ", ")
}
