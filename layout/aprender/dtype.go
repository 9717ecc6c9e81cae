package aprender

import (
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// An enum numbers dtypes. Writers used three enums, and no field of a file names its own: only the
// sizes of the tensors tell.
type enum struct {
	whose  string
	dtypes [256]layout.DType
}

// Positions in enums, the most frequent first.
const (
	byAprender = iota
	byOldRealizar
	byRealizar
	numEnums
)

var enums = [numEnums]enum{
	// Its first versions wrote BF16, APR_Q4 and APR_Q8 as 2, 8 and 9. No id ever went from one
	// type to another.
	byAprender: {"aprender's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.BF16, 3: layout.F64, 4: layout.I32, 5: layout.I64, 6: layout.I8, 7: layout.U8,
		8: layout.APR_Q4, 9: layout.APR_Q8, 12: layout.Q4_K, 14: layout.Q6_K,
		30: layout.BF16, 128: layout.APR_Q4, 129: layout.APR_Q8,
	}},
	// The draft's without its block types, and three more.
	byOldRealizar: {"realizar 0.6's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.BF16, 3: layout.I8, 4: layout.I16, 5: layout.I32, 6: layout.I64, 7: layout.U8,
		8: layout.Q4_K, 9: layout.Q6_K, 10: layout.Q8_0,
	}},
	// The part of ggml's that is written.
	byRealizar: {"realizar 0.8's", [256]layout.DType{
		0: layout.F32, 1: layout.F16, 2: layout.Q4_0, 3: layout.Q4_1, 6: layout.Q5_0, 7: layout.Q5_1, 8: layout.Q8_0,
		12: layout.Q4_K, 13: layout.Q5_K, 14: layout.Q6_K,
	}},
}

// enumSet has a bit for each of enums.
type enumSet uint8

const allEnums enumSet = 1<<numEnums - 1

// has reports whether s has the enum at position i of enums.
func (s enumSet) has(i int) bool { return s&(1<<i) != 0 }

// dtypes returns the types that the enums of s give id, each once.
func (s enumSet) dtypes(id uint8) []layout.DType {
	var all []layout.DType
	for i := range enums {
		if d := enums[i].dtypes[id]; s.has(i) && d != layout.Invalid && (len(all) == 0 || all[len(all)-1] != d) {
			all = append(all, d)
		}
	}
	return all
}

// String names the enums, such as "aprender's or realizar 0.8's".
func (s enumSet) String() string {
	var names []string
	for i := range enums {
		if s.has(i) {
			names = append(names, enums[i].whose)
		}
	}
	return strings.Join(names, " or ")
}

// sizes lists how many bytes a tensor of this shape takes in each reading of id.
func sizes(id uint8, shape []int) string {
	var list []string
	for _, d := range allEnums.dtypes(id) {
		if n, err := d.Size(shape); err != nil {
			list = append(list, fmt.Sprintf("%v does not fit (%v)", d, err))
		} else {
			list = append(list, fmt.Sprintf("%v takes %d", d, n))
		}
	}
	return strings.Join(list, ", ")
}

// ambiguous is a tensor whose id has several readings of its size.
type ambiguous struct {
	at     uint64
	tensor uint32
	id     uint8
}

// resolver finds the one enum of a file.
type resolver struct {
	left      enumSet
	ambiguous []ambiguous
}

// resolve returns the type that id, at offset at, means for t, the tensor of this number. finish may change it. It drops the enums by which
// t has another size, and fails if none is left.
func (r *resolver) resolve(t *layout.Tensor, id uint8, at uint64, tensor int) (layout.DType, error) {
	if len(allEnums.dtypes(id)) == 0 {
		return 0, errorf(at, "dtype", layout.ErrUnsupported, "%d is no dtype of a file with a 64-byte header", id).OfTensor(t.Name)
	}
	fit := enumSet(0) // the enums by which t has the size
	for i := range enums {
		if d := enums[i].dtypes[id]; d != layout.Invalid {
			if n, err := d.Size(t.Shape); err == nil && n == t.Stored {
				fit |= 1 << i
			}
		}
	}
	if fit == 0 {
		return 0, errorf(at, "dtype", layout.ErrInvalid, "%d bytes stored for id %d and shape %v: %s", t.Stored, id, t.Shape, sizes(id, t.Shape)).OfTensor(t.Name)
	}
	if r.left&fit == 0 {
		return 0, errorf(at, "dtype", layout.ErrInvalid, "%d is %v by the size, in %v enum; the tensors before it have %v",
			id, fit.dtypes(id)[0], fit, r.left).OfTensor(t.Name)
	}
	r.left &= fit
	all := r.left.dtypes(id)
	if len(all) > 1 {
		r.ambiguous = append(r.ambiguous, ambiguous{at, uint32(tensor), id})
	}
	return all[0], nil
}

// finish sets the types of ambiguous tensors by the enums that the sizes of all tensors leave. It fails if two types are left for one,
// because choosing would be a guess. hasChecksum says that the header has a checksum: only one of the enums occurs without.
func (r *resolver) finish(tensors []layout.Tensor, hasChecksum bool) error {
	if !hasChecksum && r.left.has(byOldRealizar) {
		r.left = 1 << byOldRealizar // which alone left it out
	}
	for _, u := range r.ambiguous {
		t, all := &tensors[u.tensor], r.left.dtypes(u.id)
		if len(all) > 1 && t.Stored > 0 {
			return errorf(u.at, "dtype", layout.ErrInvalid, "%d may be %v or %v, which take as many bytes, and no other tensor decides", u.id, all[0], all[1]).OfTensor(t.Name)
		}
		t.DType = all[0]
	}
	return nil
}
