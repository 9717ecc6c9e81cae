// Dot generates the kernels of package dot for one level: AVX2 with F16C, alone or with VPDPBUSD. Run it with
// go generate in the package's folder.
//
// Operands stand in the order of Go's assembler: sources first, the last of Intel's
// first, and the destination last.
package main

import (
	"flag"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	flag.StringVar(&level, "level", level, "AVX2, AVXVNNI or AVX512")
	flag.Parse()
	ConstraintExpr("!purego,amd64")
	smallBlocks()
	nvfp4()
	if level == avx2 {
		quantizers()
		superBlocks()
		tq1(func() reduction { return unsigned(4) })
		floats()
	} else {
		dottedSuperBlocks()
		tq1(dots)
		if level == avx512 {
			wideFloats()
		}
	}
	Generate()
}
