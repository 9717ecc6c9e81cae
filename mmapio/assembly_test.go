package mmapio

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// callers are the packages that a fault below one of their functions in assembly would end the
// process, each with the reason for which none of them reads a mapping.
var callers = map[string]string{
	"runtime":                        "its own memory",
	"internal/runtime/gc/scan":       "its own memory",
	"crypto/internal/fips140/nistec": "points of a curve",
	"crypto/md5":                     "on 32-bit ARM; nothing here computes it",
	"vendor/golang.org/x/crypto/chacha20poly1305": "calls only to hash associated data",
	"github.com/pierrec/lz4/v4/internal/lz4block": "lz4block.Decoder copies what it is given",
}

// TestNoAssemblyCallsOverMappings reads all assembly that this module links, for every
// architecture. A function that calls others from a frame of which the runtime has no map, or that
// moves the stack pointer by itself, must not read a mapping: the package is then in callers.
func TestNoAssemblyCallsOverMappings(t *testing.T) {
	if testmode.Brief() {
		t.Skip("runs the go command")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	found := make(map[string]bool)
	for _, arch := range []string{"386", "amd64", "arm", "arm64", "loong64", "ppc64le", "riscv64", "s390x"} {
		cmd := exec.Command(goTool, "list", "-deps", "-json=ImportPath,Dir,SFiles,HFiles", "github.com/tensormap/tensormap/...")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(arch, err)
		}
		var pkg struct {
			ImportPath, Dir string
			SFiles, HFiles  []string
		}
		list := json.NewDecoder(strings.NewReader(string(out)))
		for err = list.Decode(&pkg); err == nil; err = list.Decode(&pkg) {
			for _, name := range slices.Concat(pkg.SFiles, pkg.HFiles) {
				source, err := os.ReadFile(filepath.Join(pkg.Dir, name))
				if err != nil {
					t.Fatal(err)
				}
				for _, function := range fatalFunctions(string(source)) {
					found[pkg.ImportPath] = true
					if callers[pkg.ImportPath] == "" {
						t.Errorf("%s, %s: a fault below %s in %s ends the process", arch, pkg.ImportPath, function, name)
					}
				}
			}
			pkg.SFiles, pkg.HFiles = nil, nil
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(arch, err)
		}
	}
	if want := slices.Sorted(maps.Keys(callers)); !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Errorf("found some in %v, want %v", found, want)
	}
}

var (
	textLine = regexp.MustCompile(`^\s*TEXT\s+([^,\s]+)\s*,.*\$(-?\w+)`)
	callLine = regexp.MustCompile(`(^|[\s;:])(CALL|BL|JAL)\s`)
	moveLine = regexp.MustCompile(`,\s*(SP|RSP)\s*(;|\\|$)`)
)

// fatalFunctions returns the functions of an assembly file in which, or below which, a fault
// cannot be recovered from, and "macros" if those in front of the first function could make one.
func fatalFunctions(source string) (list []string) {
	name, frame, calls, moves, mapped := "macros", true, false, false, false
	end := func() {
		if moves || calls && frame && !mapped {
			list = append(list, name)
		}
	}
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		if m := textLine.FindStringSubmatch(line); m != nil {
			end()
			name, frame, calls, moves, mapped = m[1], m[2] != "0" && m[2] != "-4" && m[2] != "-8", false, false, false
		}
		mapped = mapped || strings.Contains(line, "NO_LOCAL_POINTERS")
		calls = calls || callLine.MatchString(line)
		moves = moves || moveLine.MatchString(line)
	}
	end()
	return list
}

func TestFatalFunctions(t *testing.T) {
	for source, want := range map[string]string{
		"TEXT ·f(SB), NOSPLIT, $48-80\n\tMOVQ AX, (SP)\n\tCALL runtime·memmove(SB)\n\tRET\n":     "·f(SB)",
		"TEXT ·f(SB), NOSPLIT, $48-80\n\tNO_LOCAL_POINTERS\n\tCALL runtime·memmove(SB)\n\tRET\n": "",
		"TEXT ·f(SB), NOSPLIT, $48-80\n\tMOVQ (SI), AX // CALL no one\n\tRET\n":                  "",
		"TEXT ·f(SB), NOSPLIT, $0-80\n\tCALL body<>(SB)\n\tRET\nTEXT ·g(SB), 0, $8\n\tBL (R3)\n": "·g(SB)",
		"#define COPY CALL runtime·memmove(SB)\nTEXT ·f(SB), NOSPLIT, $8-0\n\tCOPY\n":            "macros",
		"TEXT ·f(SB), NOSPLIT, $64-80\n\tANDQ $~63, SP\n\tRET\n":                                 "·f(SB)",
	} {
		if got := strings.Join(fatalFunctions(source), " "); got != want {
			t.Errorf("%q of %q, want %q", got, source, want)
		}
	}
}
