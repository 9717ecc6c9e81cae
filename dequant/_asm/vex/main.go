// Vex rewrites VPDPBUSD and VPDPWSSD in a file of assembly to the bytes of AVX-VNNI's encoding, because Go's
// assembler knows AVX-512's alone.
//
// Without this step the same kernels run where there is AVX-512 VNNI and no AVX-VNNI. To test them there, generate
// the file without it, and let archLevels in dot_amd64.go return their level.
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	instruction = regexp.MustCompile(`(?m)^\tVPDP(BUSD|WSSD) .*$`)
	operands    = regexp.MustCompile(`^\tVPDP(?:BUSD|WSSD) +(?:Y(\d+)|(-?\d*)\((\w+)\)), Y(\d+), Y(\d+)$`)
	opcodes     = map[string]byte{"BUSD": 0x50, "WSSD": 0x52}
	registers   = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("vex: want one file")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	text = instruction.ReplaceAllFunc(text, func(line []byte) []byte {
		m := operands.FindStringSubmatch(string(line))
		if m == nil {
			log.Fatalf("vex: %s: not understood", line)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "\t// %s\n\t", strings.TrimSpace(string(line)))
		for i, c := range encode(opcodes[string(line[5:9])], m) {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "BYTE $0x%02x", c)
		}
		return []byte(b.String())
	})
	if err := os.WriteFile(os.Args[1], text, 0o644); err != nil {
		log.Fatal(err)
	}
}

// encode returns VEX.256.66.0F38.W0 opcode /r (Intel's manual, volume 2, VPDPBUSD and VPDPWSSD). m has the first operand as
// a register, or as displacement and base, then the second and the third.
func encode(opcode byte, m []string) []byte {
	codes, sum := number(m[4]), number(m[5])
	first, modrm, rest := 0, 0xc0, []byte(nil)
	if m[1] != "" {
		first = number(m[1])
	} else {
		if first = slices.Index(registers, m[3]); first < 0 {
			log.Fatalf("vex: no register %s", m[3])
		}
		at, _ := strconv.Atoi(m[2])
		if first&7 == 4 {
			rest = append(rest, 0x24)
		}
		switch {
		case at == 0 && first&7 != 5:
			modrm = 0
		case at == int(int8(at)):
			modrm, rest = 0x40, append(rest, byte(at))
		default:
			modrm, rest = 0x80, append(rest, byte(at), byte(at>>8), byte(at>>16), byte(at>>24))
		}
	}
	modrm |= sum&7<<3 | first&7
	return append([]byte{
		0xc4,
		byte(^sum>>3&1<<7 | 1<<6 | ^first>>3&1<<5 | 2),
		byte(^codes&15<<3 | 1<<2 | 1),
		opcode, byte(modrm),
	}, rest...)
}

// number returns the number of a register that VEX can encode.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 15 {
		log.Fatalf("vex: no register Y%s", s)
	}
	return n
}
