package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Importance has for each tensor, by name, how much an error in each of its columns counts: finite numbers
// that are not negative. A tensor of several matrices, as of experts, has the columns of each matrix in turn, or
// the columns of all matrices once.
type Importance map[string][]float32

// Suffixes of the names of an importance matrix's tensors.
const (
	sumsSuffix   = ".in_sum2"
	countsSuffix = ".counts"
)

// ReadImportance reads an importance matrix from the GGUF file at path, in the form that llama.cpp's llama-imatrix writes. For each column of
// a matrix the file has the sum of the squares of the activations that the column was multiplied with. For the matrix it has the number of
// inputs. The importance of a column is the sum, divided by that number. All columns of a matrix get 1 if it saw no input, or only zeros.
//
// It fails with layout.ErrFormat for a file that is not GGUF. It fails with layout.ErrInvalid if no tensor has sums, or if a
// sum or count is negative or not finite.
func ReadImportance(path string) (Importance, error) {
	m, err := loader.Open(path, nil)
	if err == nil {
		defer m.Close()
	}
	if errors.Is(err, layout.ErrFormat) || err == nil && m.Format() != layout.GGUF {
		return nil, fmt.Errorf("%s: %w for an importance matrix, which is GGUF; llama-imatrix --in-file OLD -o NEW.gguf converts older ones", path, layout.ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	all := make(Importance)
	for t := range m.Tensors() {
		name, ok := strings.CutSuffix(t.Name(), sumsSuffix)
		if !ok {
			continue
		}
		if all[name], err = meansOf(m, t, name); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w: no importance matrix: no tensor is called *%s", path, layout.ErrInvalid, sumsSuffix)
	}
	return all, nil
}

// meansOf returns the importance of the columns of the tensor called name. sums has the sums of each matrix; another tensor of
// m has the matrix's count. The importance is sum divided by count. A matrix whose count is 0, or whose sums are all 0, gets 1
// for each column. It fails with layout.ErrInvalid if the number of sums is no multiple of the number of counts, or if a mean is no
// float32. It also fails if the counts are missing, or if magnitudes fails.
func meansOf(m *loader.Model, sums loader.Tensor, name string) ([]float32, error) {
	counts, err := m.Tensor(name + countsSuffix)
	if err != nil {
		return nil, err
	}
	means, err := magnitudes(m, sums)
	if err != nil {
		return nil, err
	}
	inputs, err := magnitudes(m, counts)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 || len(means)%len(inputs) != 0 {
		return nil, fmt.Errorf("%s: importance of %q: %w: %d sums, but %d counts", m.Path(), name, layout.ErrInvalid, len(means), len(inputs))
	}
	columns := len(means) / len(inputs)
	for i, count := range inputs {
		matrix := means[i*columns:][:columns] // sums, which become means
		isUnknown := count == 0 || len(matrix) > 0 && slices.Max(matrix) == 0
		for c := range matrix {
			if isUnknown {
				matrix[c] = 1
			} else if matrix[c] /= count; matrix[c] > math.MaxFloat32 {
				return nil, fmt.Errorf("%s: importance of %q: %w: the mean of column %d is no float32", m.Path(), name, layout.ErrInvalid, c)
			}
		}
	}
	return means, nil
}

// magnitudes returns the values of t, a tensor of m. It fails if t cannot be read. It fails with layout.ErrInvalid if a value
// is negative or not finite, or if t is not F32: values of other types could take twenty times the memory of what is stored.
func magnitudes(m *loader.Model, t loader.Tensor) ([]float32, error) {
	if t.DType() != layout.F32 {
		return nil, fmt.Errorf("%s: tensor %q: %w: %v, where an importance matrix has F32", m.Path(), t.Name(), layout.ErrInvalid, t.DType())
	}
	values := make([]float32, t.Elements())
	if err := t.Dequantize(values); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(values, isNoMagnitude); i >= 0 {
		return nil, fmt.Errorf("%s: tensor %q: %w: element %d is %v", m.Path(), t.Name(), layout.ErrInvalid, i, values[i])
	}
	return values, nil
}

// isNoMagnitude reports whether x is negative, infinite or NaN.
func isNoMagnitude(x float32) bool { return !(x >= 0 && x <= math.MaxFloat32) }

// checkNames fails with layout.ErrInvalid if imp has names, and none of them is the name of a tensor of m.
func (imp Importance) checkNames(m *loader.Model) error {
	for t := range m.Tensors() {
		if _, isNamed := imp[t.Name()]; isNamed {
			return nil
		}
	}
	if len(imp) == 0 {
		return nil
	}
	return fmt.Errorf("importance matrix: %w: none of its %d names is a tensor of the model", layout.ErrInvalid, len(imp))
}

// check reports whether imp has importance for the tensor called name, of the given shape. It fails with layout.ErrInvalid if imp has another
// number of columns for it, or if the importance of a column is negative or not finite.
func (imp Importance) check(name string, shape []int) (found bool, err error) {
	weights, found := imp[name]
	if !found {
		return false, nil
	}
	n, columns := matrices(shape)
	if len(weights) != columns && len(weights) != n*columns {
		return true, fmt.Errorf("importance of %q: %w: %d columns, but the tensor has %v", name, layout.ErrInvalid, len(weights), shape)
	}
	if i := slices.IndexFunc(weights, isNoMagnitude); i >= 0 {
		return true, fmt.Errorf("importance of %q: %w: column %d has %v", name, layout.ErrInvalid, i%columns, weights[i])
	}
	return true, nil
}

// matrices returns how many matrices a tensor of the given shape has, and how many columns each has. A tensor with one
// dimension is one matrix of one row, and a scalar has one column.
func matrices(shape []int) (n, columns int) {
	n = 1
	if len(shape) == 0 {
		return 1, 1
	}
	for _, dim := range shape[:max(0, len(shape)-2)] {
		n *= dim
	}
	return n, shape[len(shape)-1]
}
