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

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// A wordMacro is an instruction that neon_arm64.h spells as a word.
type wordMacro struct{ name, operands, word, mnemonic string }

// TestNEONEncodings has two assemblers make those instructions in every register: Go's from the
// macro, GNU's or LLVM's from the mnemonic in its comment.
func TestNEONEncodings(t *testing.T) {
	testmode.Sequential(t)
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	other, copier := []string{"aarch64-linux-gnu-as", "-march=armv8.2-a+dotprod"}, "aarch64-linux-gnu-objcopy"
	if _, err := exec.LookPath(other[0]); err != nil {
		other, copier = []string{"llvm-mc", "-triple=aarch64", "-mattr=+dotprod", "-filetype=obj"}, "llvm-objcopy"
	}
	for _, program := range []string{other[0], copier} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("neither GNU's assembler nor LLVM's is installed (binutils-aarch64-linux-gnu, llvm)")
		}
	}
	var definitions, calls, mnemonics strings.Builder
	macros := wordMacros(t)
	inVector := regexp.MustCompile(`\b[vh][mnd]\b`)
	for _, m := range macros {
		fmt.Fprintf(&definitions, "#define %s(%s) %s\n", m.name, m.operands, m.word)
		for r := range 32 {
			registers := strings.NewReplacer("m", fmt.Sprint((r+22)%32), "n", fmt.Sprint((r+11)%32), "d", fmt.Sprint(r))
			fmt.Fprintf(&calls, "\t%s(%s)\n", m.name, registers.Replace(m.operands))
			fmt.Fprintln(&mnemonics, inVector.ReplaceAllStringFunc(m.mnemonic, registers.Replace))
		}
	}
	dir := t.TempDir()
	writeText(t, dir, "go.s", definitions.String()+"TEXT ·f(SB), 4, $0\n"+calls.String()) // 4 is NOSPLIT
	writeText(t, dir, "other.s", mnemonics.String())
	runIn(t, dir, goTool, "tool", "asm", "-p", "p", "-o", "go.o", "go.s")
	runIn(t, dir, other[0], append(other[1:], "-o", "other.o", "other.s")...)
	runIn(t, dir, copier, "-O", "binary", "-j", ".text", "other.o", "other.bin")

	got, want := readBytes(t, dir, "go.o"), readBytes(t, dir, "other.bin")
	if len(want) != 32*4*len(macros) {
		t.Fatalf("%s made %d bytes of %d instructions", other[0], len(want), 32*len(macros))
	}
	for i, m := range macros {
		if !bytes.Contains(got, want[32*4*i:][:32*4]) {
			t.Errorf("%s is not %q", m.name, m.mnemonic)
		}
	}
}

// wordMacros returns the macros of the kernels of this package, of dot and of narrow. Those of several are the same.
func wordMacros(t *testing.T) (macros []wordMacro) {
	var files []string
	for _, dir := range []string{".", "dot", "../internal/narrow"} {
		found, err := filepath.Glob(dir + "/neon*_arm64.[hs]")
		if err != nil || len(found) == 0 {
			t.Fatal(dir, found, err)
		}
		files = append(files, found...)
	}
	define := regexp.MustCompile(`(?m)^#define (\w+)\(((?:m, )?n, d)\) +(WORD \$\(.*\)) *// (.*)$`)
	seen := map[string]wordMacro{}
	for _, name := range files {
		source := string(readBytes(t, ".", name))
		found := define.FindAllStringSubmatch(source, -1)
		if words := strings.Count(source, "WORD $"); len(found) != words {
			t.Fatalf("%s: %d of %d words are macros with a mnemonic", name, len(found), words)
		}
		for _, m := range found {
			macro := wordMacro{m[1], m[2], m[3], m[4]}
			if old, ok := seen[macro.name]; !ok {
				seen[macro.name] = macro
				macros = append(macros, macro)
			} else if old != macro {
				t.Errorf("%s: %s is %s, elsewhere %s", name, macro.name, macro.word, old.word)
			}
		}
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
