// Avx2 generates the kernels of package dequant for AVX2 and F16C. Run it with
// go generate in the package's folder.
//
// Operands stand in the order of Go's assembler: sources first, the last of Intel's
// first, and the destination last.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego,amd64")
	floats()
	integers()
	scaledIntegers()
	blocks()
	superBlocks()
	lowBits()
	grids()
	groups()
	transposers()
	permuted()
	Generate()
}
