// Command _asm generates the kernels of package quantize, internal/narrow or internal/moments for one level: AVX2 or AVX-512. Run it with
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
	flag.StringVar(&level, "level", level, "AVX2 or AVX512")
	narrow := flag.Bool("narrow", false, "generate what package narrow has")
	sums := flag.Bool("moments", false, "generate what package moments has")
	flag.Parse()
	ConstraintExpr("!purego,amd64")
	if *narrow {
		numbers()
		Generate()
		return
	}
	if *sums {
		moments()
		Generate()
		return
	}
	if !wide() {
		blocks()
	}
	affine()
	symmetric()
	byTurns()
	levels()
	round()
	Generate()
}
