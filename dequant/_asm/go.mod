module github.com/tensormap/tensormap/dequant/_asm

go 1.26.8

require github.com/mmcloughlin/avo v0.5.0 // indirect
