package apr2

import (
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// A numbering is an enum of dtypes. Files with the 64-byte header were written with three of
// them, and nothing in the file says which: the sizes of the tensors do.
type numbering struct {
	whose  string
	dtypes [256]layout.DType
}

// The numberings, the most frequent first.
const (
	byAprender = iota
	byOldRealizar
	byRealizar
	numNumberings
)

var numberings = [numNumberings]numbering{
	// Its first versions wrote BF16, APR_Q4 and APR_Q8 as 2, 8 and 9. No id ever went from one
	// type to another.
	byAprender: {"aprender's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.BF16, 3: layout.F64, 4: layout.I32, 5: layout.I64, 6: layout.I8, 7: layout.U8,
		8: layout.APR_Q4, 9: layout.APR_Q8, 12: layout.Q4_K, 14: layout.Q6_K,
		30: layout.BF16, 128: layout.APR_Q4, 129: layout.APR_Q8,
	}},
	// The draft's, less its block types, and three more.
	byOldRealizar: {"realizar 0.6's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.BF16, 3: layout.I8, 4: layout.I16, 5: layout.I32, 6: layout.I64, 7: layout.U8,
		8: layout.Q4_K, 9: layout.Q6_K, 10: layout.Q8_0,
	}},
	// ggml's, as far as it is written.
	byRealizar: {"realizar 0.8's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.Q4_0, 3: layout.Q4_1, 6: layout.Q5_0, 7: layout.Q5_1, 8: layout.Q8_0,
		12: layout.Q4_K, 13: layout.Q5_K, 14: layout.Q6_K,
	}},
}

// numberingSet is a set of numberings, a bit each.
type numberingSet uint8

const allNumberings numberingSet = 1<<numNumberings - 1

func (s numberingSet) has(i int) bool { return s&(1<<i) != 0 }

// first is the type that the first numbering of s gives id.
func (s numberingSet) first(id uint8) layout.DType {
	for i := range numberings {
		if s.has(i) {
			return numberings[i].dtypes[id]
		}
	}
	return layout.Invalid
}

// readings are the types that the numberings of s give id, each once.
func (s numberingSet) readings(id uint8) []layout.DType {
	var all []layout.DType
	for i := range numberings {
		if d := numberings[i].dtypes[id]; s.has(i) && d != layout.Invalid && (len(all) == 0 || all[len(all)-1] != d) {
			all = append(all, d)
		}
	}
	return all
}

func (s numberingSet) String() string {
	var names []string
	for i := range numberings {
		if s.has(i) {
			names = append(names, numberings[i].whose)
		}
	}
	return strings.Join(names, " or ")
}

// agreed are the types of the ids that mean the same in every numbering.
var agreed = func() (dtypes [256]layout.DType) {
	for id := range dtypes {
		if all := allNumberings.readings(uint8(id)); len(all) == 1 && numberingsWith(uint8(id)) == allNumberings {
			dtypes[id] = all[0]
		}
	}
	return dtypes
}()

// numberingsWith are those that know id.
func numberingsWith(id uint8) (s numberingSet) {
	for i := range numberings {
		if numberings[i].dtypes[id] != layout.Invalid {
			s |= 1 << i
		}
	}
	return s
}

// numberingsFor are those whose type for id makes a tensor of this shape size bytes long.
func numberingsFor(id uint8, shape []uint64, size uint64) (s numberingSet) {
	for i := range numberings {
		d := numberings[i].dtypes[id]
		if d == layout.Invalid {
			continue
		}
		if n, err := d.Size(shape); err == nil && n == size {
			s |= 1 << i
		}
	}
	return s
}

// sizes says how many bytes a tensor of this shape takes in each reading of id.
func sizes(id uint8, shape []uint64) string {
	var list []string
	for _, d := range allNumberings.readings(id) {
		if n, err := d.Size(shape); err != nil {
			list = append(list, fmt.Sprintf("%v does not fit (%v)", d, err))
		} else {
			list = append(list, fmt.Sprintf("%v takes %d", d, n))
		}
	}
	return strings.Join(list, ", ")
}

// unsure is a tensor whose id has several readings of its size.
type unsure struct {
	at     uint64
	tensor uint32
	id     uint8
}

// chooser finds the one numbering of a file.
type chooser struct {
	left   numberingSet
	unsure []unsure
}

// dtype is the type of the tensor that comes next, for now: finish may change it. Where id
// means the same to all, it is for the caller to compare the size.
func (c *chooser) dtype(t *layout.Tensor, id uint8, at uint64, tensor int) (layout.DType, error) {
	if d := agreed[id]; d != layout.Invalid {
		return d, nil
	}
	if numberingsWith(id) == 0 {
		return 0, errorf(at, "dtype", layout.ErrUnsupported, "tensor %s: %d is no dtype of a file with a 64-byte header", layout.Quote(t.Name), id)
	}
	fit := numberingsFor(id, t.Shape, t.Stored)
	if fit == 0 {
		return 0, errorf(at, "dtype", layout.ErrInvalid, "tensor %s: %d bytes stored for id %d and shape %v: %s",
			layout.Quote(t.Name), t.Stored, id, t.Shape, sizes(id, t.Shape))
	}
	if c.left&fit == 0 {
		return 0, errorf(at, "dtype", layout.ErrInvalid, "tensor %s: %d is %v by the size, in %v numbering; the tensors before it have %v",
			layout.Quote(t.Name), id, fit.first(id), fit, c.left)
	}
	c.left &= fit
	if len(fit.readings(id)) > 1 {
		c.unsure = append(c.unsure, unsure{at, uint32(tensor), id})
	}
	return c.left.first(id), nil
}

// finish gives the tensors that had several readings the one that the others leave; a file
// that leaves two is refused, for to take one would be a guess. unsummed says that the header
// has no checksum.
func (c *chooser) finish(tensors []layout.Tensor, unsummed bool) error {
	if unsummed && c.left.has(byOldRealizar) {
		c.left = 1 << byOldRealizar // which alone left it out
	}
	for _, u := range c.unsure {
		t := &tensors[u.tensor]
		if all := c.left.readings(u.id); len(all) > 1 && t.Stored > 0 {
			return errorf(u.at, "dtype", layout.ErrInvalid, "tensor %s: %d may be %v or %v, which take as many bytes, and no other tensor decides",
				layout.Quote(t.Name), u.id, all[0], all[1])
		}
		t.DType = c.left.first(u.id)
	}
	return nil
}
