// Command avx512 writes the kernels of dequant's level of the same name. They use AVX-512 F,
// BW, VL and DQ and nothing newer.
//
// Every kernel has a run and a stream variant that differ in their stores only. The contract
// is the comment of kernel in dequant/impl.go.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego,amd64")
	numbers()
	scaledNumbers()
	blocks()
	superblocks()
	lowBits()
	grids()
	groups()
	Generate()
}
