package survey

import (
	"math"

	"github.com/tensormap/tensormap/layout"
)

// gaussian has, by dtype, the ratio of signal to error in decibels that Gaussian values keep in it: of 2,048 rows of
// 1,536 values of mean 0 and deviation 1, quantized by package quantize without importance. TestGaussianDB measures fewer.
var gaussian = map[layout.DType]float64{
	layout.F16:    73.7,
	layout.BF16:   55.6,
	layout.Q4_0:   21.3,
	layout.Q4_1:   22.1,
	layout.Q5_0:   27.4,
	layout.Q5_1:   28.4,
	layout.Q8_0:   45.4,
	layout.Q2_K:   10.6,
	layout.Q3_K:   16.4,
	layout.Q4_K:   22.9,
	layout.Q5_K:   28.9,
	layout.Q6_K:   35.0,
	layout.IQ4_NL: 22.4,
	layout.IQ4_XS: 22.3,
	layout.MXFP4:  18.8,
}

// GaussianDB returns the ratio of signal to error, in decibels, that Gaussian values keep when they are stored as d. It is
// NaN for other dtypes than F16, BF16 and blocks that this module quantizes to.
func GaussianDB(d layout.DType) float64 {
	if db, ok := gaussian[d]; ok {
		return db
	}
	return math.NaN()
}

// TypeDB returns GaussianDB of B's dtype if that dtype explains an error: B has no scheme, and A has a scheme or another dtype than B.
// Otherwise it returns NaN, also if A or B is nil.
func (p *Pair) TypeDB() float64 {
	if p.A == nil || p.B == nil || p.B.Scheme() != nil || p.A.Scheme() == nil && p.A.DType() == p.B.DType() {
		return math.NaN()
	}
	return GaussianDB(p.B.DType())
}
