//go:build 386 || amd64 || arm || arm64 || loong64 || mipsle || mips64le || ppc64le || riscv64 || wasm

package mmapio

// Machines named in neither this file nor its twin do not build, which is
// better than guessing.
const littleEndian = true
