//go:build !purego

package dot

// Each function does what the portable loop of its type does, in assembly. x is the activation's first code.

//go:noescape
func q4_0NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q4_1NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q5_0NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q5_1NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q8_0NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func iq4_NLNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func mxfp4NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func nvfp4NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q2_KNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q3_KNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q4_KNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q5_KNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func q6_KNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func iq4_XSNEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func tq1_0NEON(dst []float32, rows []byte, x *int8, blocks int)

//go:noescape
func tq2_0NEON(dst []float32, rows []byte, x *int8, blocks int)

// Each of these does so for several activations: it is a manyKernel.

//go:noescape
func q4_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q4_1ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q5_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q5_1ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q8_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func iq4_NLManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func mxfp4ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func nvfp4ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q2_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q3_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q4_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q5_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func q6_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func iq4_XSManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func tq1_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

//go:noescape
func tq2_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

// Each of these does what floatsGeneric does, with rows of a type.

//go:noescape
func floatsNEON(dst []float32, rows []float32, x []float32)

//go:noescape
func f32NEON(dst []float32, rows []byte, x []float32)

//go:noescape
func f16NEON(dst []float32, rows []byte, x []float32)

//go:noescape
func bf16NEON(dst []float32, rows []byte, x []float32)

//go:noescape
func i8NEON(dst []float32, rows []byte, x []float32)

//go:noescape
func f8e4m3NEON(dst []float32, rows []byte, x []float32)

//go:noescape
func f8e5m2NEON(dst []float32, rows []byte, x []float32)
