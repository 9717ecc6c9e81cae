// Package values has the numbers of one tensor as float32. A [Values] is made once, when a tensor is first
// touched, of the [content.Content] that holds its elements or codes. Values of another kind are made of such values:
// [Scaled] and [Rows] are examples.
//
// Methods touch mapped memory: their callers run them under mmapio.Guard.
package values

import (
	"context"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Values is numbers of known count. Its methods may be called concurrently. Callers check that Err is nil and that a range lies
// within Elements, so kinds do not. valuestest.Run tests a kind.
type Values interface {
	// Err returns why there are none, or nil.
	Err() error
	Elements() uint64
	// Read fills dst, which may be empty, with the values from element first on. It allocates nothing if the content is in place.
	Read(ctx context.Context, env content.Env, dst []float32, first uint64) error
	// Blocks returns the stored rows if package dot multiplies them as they are. Otherwise ok is false, and Read has the values.
	Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error)
	// Source returns the content that the values are read from, apart from scales.
	Source() content.Content
}

// Blocks is the rows of a matrix as they are stored, one behind the other.
type Blocks struct {
	Content content.Content
	DType   layout.DType
	From    uint64   // where the first row begins
	Scale   float32  // of each product; 1 for types that have their scales in blocks
	Order   []uint32 // the position of each row among the stored ones; nil if they are in order
}

// Refused is a tensor without values.
type Refused struct {
	Reason  error
	Content content.Content
}

// Err returns why there are no values.
func (r Refused) Err() error { return r.Reason }

// Elements returns 0.
func (r Refused) Elements() uint64 { return 0 }

// Read always fails, with the reason why there are no values.
func (r Refused) Read(context.Context, content.Env, []float32, uint64) error { return r.Reason }

// Blocks always fails, with the reason why there are no values.
func (r Refused) Blocks(context.Context, content.Env) (b Blocks, ok bool, err error) {
	return b, false, r.Reason
}

// Source returns the content of the tensor.
func (r Refused) Source() content.Content { return r.Content }
