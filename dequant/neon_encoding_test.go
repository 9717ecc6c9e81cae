package dequant

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A wordMacro is an instruction that neon_arm64.h spells as a word.
type wordMacro struct{ definition, name, operands, mnemonic string }

// TestNEONEncodings has two assemblers make those instructions in every register: Go's from the
// macro, GNU's from the mnemonic in its comment.
func TestNEONEncodings(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	gnu, err := exec.LookPath("aarch64-linux-gnu-as")
	if err != nil {
		t.Skip("the GNU assembler is not installed (binutils-aarch64-linux-gnu)")
	}
	var definitions, calls, mnemonics strings.Builder
	macros := wordMacros(t)
	inVector := regexp.MustCompile(`\b[vh][mnd]\b`)
	for _, m := range macros {
		fmt.Fprintln(&definitions, m.definition)
		for r := range 32 {
			registers := strings.NewReplacer("m", fmt.Sprint((r+22)%32), "n", fmt.Sprint((r+11)%32), "d", fmt.Sprint(r))
			fmt.Fprintf(&calls, "\t%s(%s)\n", m.name, registers.Replace(m.operands))
			fmt.Fprintln(&mnemonics, inVector.ReplaceAllStringFunc(m.mnemonic, registers.Replace))
		}
	}
	dir := t.TempDir()
	writeText(t, dir, "go.s", definitions.String()+"TEXT ·f(SB), 4, $0\n"+calls.String()) // 4 is NOSPLIT
	writeText(t, dir, "gnu.s", mnemonics.String())
	runIn(t, dir, goTool, "tool", "asm", "-p", "p", "-o", "go.o", "go.s")
	runIn(t, dir, gnu, "-o", "gnu.o", "gnu.s")
	runIn(t, dir, strings.TrimSuffix(gnu, "as")+"objcopy", "-O", "binary", "-j", ".text", "gnu.o", "gnu.bin")

	got, want := readBytes(t, dir, "go.o"), readBytes(t, dir, "gnu.bin")
	if len(want) != 32*4*len(macros) {
		t.Fatalf("the GNU assembler made %d bytes of %d instructions", len(want), 32*len(macros))
	}
	for i, m := range macros {
		if !bytes.Contains(got, want[32*4*i:][:32*4]) {
			t.Errorf("%s is not %q", m.name, m.mnemonic)
		}
	}
}

func wordMacros(t *testing.T) (macros []wordMacro) {
	var source string
	for _, name := range []string{"neon_arm64.h", "neon_arm64.s", "neon_blocks_arm64.s", "neon_k_arm64.s", "neon_groups_arm64.s"} {
		source += string(readBytes(t, ".", name))
	}
	define := regexp.MustCompile(`(?m)^#define (\w+)\(((?:m, )?n, d)\) +WORD \$\(.*\) *// (.*)$`)
	for _, m := range define.FindAllStringSubmatch(source, -1) {
		macros = append(macros, wordMacro{m[0], m[1], m[2], m[3]})
	}
	if words := strings.Count(source, "WORD $"); len(macros) != words || words == 0 {
		t.Fatalf("%d of %d words are macros with a mnemonic", len(macros), words)
	}
	return macros
}

func runIn(t *testing.T, dir, name string, arg ...string) {
	t.Helper()
	cmd := exec.Command(name, arg...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func writeText(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readBytes(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
