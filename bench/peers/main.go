package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

func main() {
	var (
		types    typeSet
		sizes    = sizeList{16 << 10, 64 << 10, 64 << 20}
		rounds   = flag.Int("rounds", 31, "how often every contestant runs")
		quick    = flag.Bool("quick", false, "three rounds, and nothing beyond the caches")
		dots     = flag.Bool("dot", false, "race products of rows and vectors instead")
		library  = flag.String("lib", "", "also expand with the dequantize_row_* of this shared library `file`")
		quantize = flag.Bool("quantize", false, "race to quantize only, with and without importance")
	)
	flag.Func("type", "comma-separated `types` (default all)", types.set)
	flag.Func("sizes", "comma-separated `elements` of the buffers, multiples of 256 (default 16384,65536,67108864)", sizes.set)
	flag.Parse()
	if *quick {
		*rounds, sizes = 3, sizes[:min(2, len(sizes))]
	}

	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "peers: -rounds must be positive")
		os.Exit(2)
	}

	printSetting(os.Stdout)
	expanders, err := ggmlExpanders, error(nil)
	if *library != "" {
		var more []peer
		more, err = libraryExpanders(*library)
		expanders = slices.Concat(expanders, more)
	}
	switch {
	case err != nil:
	case *dots:
		runtime.LockOSThread()
		r := race{sizes: sizes, rounds: *rounds, wait: time.Millisecond}
		r.printDots(os.Stdout, chosen(types, dotPeers), !*quick)
	default:
		fmt.Print(unfair(setting))
		runtime.LockOSThread()
		r := race{sizes: sizes, rounds: *rounds, wait: time.Millisecond}
		if !*quantize {
			r.print(os.Stdout, "expand", matches(types, expanders, oursExpanding))
		}
		r.print(os.Stdout, "quantize", matches(types, slices.Concat(ggmlQuantizers, ggmlRacers), oursQuantizing))
		if *quantize {
			r.print(os.Stdout, "quantize by importance", matches(types, ggmlWeighted, oursWeighing))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

const ggmlModule = "github.com/ollama/ollama"

// printSetting prints what runs: without it a figure means nothing.
func printSetting(w io.Writer) {
	fmt.Fprintf(w, "%s %s/%s, GOMAXPROCS %d, GODEBUG=%q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), os.Getenv("GODEBUG"))
	fmt.Fprintf(w, "dequant: %s\n", strings.Join(dequant.Implementations(), ", "))
	fmt.Fprintf(w, "ggml: %s %s, compiler %s, CGO_CFLAGS=%q\n\n", ggmlModule, versionOf(ggmlModule), ggmlCompiler(), setting("CGO_CFLAGS"))
}

// versionOf returns the version of a module that this program is built with.
func versionOf(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return "of unknown version"
}

// setting returns a setting of this program's build, or "".
func setting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// unfair returns a line that says why figures may do ggml wrong, or "". setting returns settings of the build.
func unfair(setting func(key string) string) string {
	switch {
	case strings.Contains(setting("CGO_CFLAGS"), "-O3 -march=native"):
		return ""
	case setting("-trimpath") == "true": // cmd/go then leaves flags of C out, which may have paths
		return "note: built with -trimpath, which records no CGO_CFLAGS: nobody knows if the race is fair; build with GOFLAGS=-trimpath=false\n"
	}
	return "note: not a fair race; ggml wants CGO_CFLAGS=\"-O3 -march=native\"\n"
}

// A typeSet is a flag that names types; none means all.
type typeSet []layout.DType

// of returns the type that p works on.
func (p peer) of() layout.DType { return p.d }

// chosen returns the peers of the types in the set.
func chosen[P interface{ of() layout.DType }](types typeSet, peers []P) []P {
	return slices.DeleteFunc(slices.Clone(peers), func(p P) bool { return len(types) > 0 && !slices.Contains(types, p.of()) })
}

// set adds the types in a comma-separated list.
func (s *typeSet) set(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		d, ok := layout.ParseDType(name)
		if !ok {
			return fmt.Errorf("no type %q", name)
		}
		*s = append(*s, d)
	}
	return nil
}

// A sizeList is a flag that names numbers of elements.
type sizeList []int

// set replaces the sizes by those in a comma-separated list.
func (s *sizeList) set(list string) error {
	*s = nil
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n <= 0 || n%maxBlock != 0 {
			return fmt.Errorf("%q is no positive multiple of %d", field, maxBlock)
		}
		*s = append(*s, n)
	}
	return nil
}
