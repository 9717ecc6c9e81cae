package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
)

func TestWrongUsage(t *testing.T) {
	file := modeltest.Small(t)
	for _, test := range []struct {
		args string
		says string
	}{
		{"cache", "missing VERB, one of: ls, prune, verify"},
		{"version", `unknown verb "version"; tensormap --version says the version`},
		{"quantize FILE out.gguf q4_0", `unknown verb "quantize"; tensormap convert IN OUT --dtype TYPE quantizes`},
		{"org/name --json", `unknown verb "org/name"; tensormap inspect hf://org/name shows`},
		{"show FILE", `unknown verb "show"; tensormap inspect FILE shows`},
		{"ls", `unknown verb "ls"; tensormap inspect FILE lists tensors, and tensormap cache ls`},
		{"download hf://a/b --force", `unknown verb "download"; tensormap pull ADDRESS downloads`},
		{"inspekt", `unknown verb "inspekt"; did you mean inspect?`},
		{"frobnicate FILE --json", `unknown verb "frobnicate", not one of: `},
		{"--frob", "unknown flag: --frob"},
		{"help frob", `unknown verb "frob"`},
		{"completion", "missing VERB, one of: bash, fish, powershell, zsh"},
		{"completion tcsh", `unknown verb "tcsh"`},
		{"inspect", "missing FILE"},
		{"inspect -", "models are not read from standard input"},
		{"convert - out.apr", "models are not read from standard input"},
		{"verify FILE more", `unexpected argument "more"`},
		{"inspect FILE --frob", "unknown flag: --frob"},
		{"inspect FILE --treee", `unknown flag: --treee; did you mean "--tree"?`},
		{"convert FILE out.apr --dytpe=q8_0", `unknown flag: --dytpe; did you mean "--type", "--dtype"?`},
		{"inspect FILE --json=perhaps", `invalid argument "perhaps" for "--json" flag: must be true or false`},
		{"inspect FILE --tree --depth deep", `invalid argument "deep" for "--depth" flag: must be a whole number`},
		{"stats FILE --bins -1", `invalid argument "-1" for "--bins" flag: must be a whole number, not negative`},
		{"stats FILE --bins 256", `invalid argument "256" for "--bins" flag: the number is too large`},
		{"inspect FILE --filter", "flag needs an argument: --filter"},
		{"inspect FILE --filter [a", "[ without ]"},
		{"inspect FILE --filter {a", "{ without }"},
		{`inspect FILE --filter a\`, `nothing after the last \`},
		{"inspect FILE --filter [z-a]", "[z-a] is the wrong way round"},
		{"inspect FILE --filter \xff", "the pattern is not UTF-8"},
		{"verify FILE -j some", `invalid argument "some" for "-j, --jobs" flag: must be a whole number, not negative`},
		{"verify FILE -j -1", `invalid argument "-1" for "-j, --jobs" flag: must be a whole number, not negative`},
		{"dump", "missing FILE and TENSOR"},
		{"dump FILE", "missing TENSOR"},
		{"dump FILE a --as xml", `must be one of f32, raw, npy`},
		{"convert FILE", "missing OUT"},
		{"convert FILE out.apr --align 48", "must be one of 32, 64"},
		{"convert FILE out.apr --align=", "must be one of 32, 64"},
		{"convert FILE out.apr --encrypt=", "--encrypt is empty"},
		{"verify FILE --key=", "--key is empty"},
		{"verify FILE --signature=x --certificate-chain=y --certificate-identity=", "--certificate-identity is empty"},
		{"verify FILE --header=", "--header is empty"},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := strings.Fields(test.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "FILE", file)
			}
			r := tensormap(args...)
			if r.status != exitUsage || r.stdout != "" {
				t.Errorf("status %d, stdout %q; want %d and nothing", r.status, r.stdout, exitUsage)
			}
			why, hint, _ := strings.Cut(r.stderr, "\n")
			if !strings.HasPrefix(why, "tensormap: ") || !strings.Contains(why, test.says) {
				t.Errorf("stderr says %q, want %q", why, test.says)
			}
			if !strings.HasPrefix(hint, "usage: tensormap") || strings.Count(hint, "\n") != 1 || len(hint) > 120 {
				t.Errorf("hint %q", hint)
			}
		})
	}
}

// TestFlagErrors: no flag of any verb complains in words of Go's library.
func TestFlagErrors(t *testing.T) {
	testmode.Sequential(t)
	t.Chdir(t.TempDir()) // keygen needs nothing but a name
	for _, cmd := range documented(rootCommand(io.Discard, io.Discard)) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"", "x", "-1", "1e99", "99999999999999999999", "\x00"} {
				r := tensormap(cmd.Name(), "--"+f.Name+"="+value)
				makes := cmd.Name() == "keygen" && f.Name == "output"
				if r.status != exitUsage && f.Name != "help" && !makes || strings.Contains(r.stderr, "strconv") || strings.Contains(r.stderr, "time:") {
					t.Errorf("%s --%s=%q: status %d, %s", cmd.Name(), f.Name, value, r.status, r.stderr)
				}
			}
		})
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestLostResults: no verb says that all is well when its results could not be written.
func TestLostResults(t *testing.T) {
	file := modeltest.Small(t)
	for _, args := range [][]string{{"help"}, {"--help"}, {"--version"}, {"help", "inspect"}, {"completion", "bash"},
		{"inspect", file}, {"inspect", "--json", file}, {"verify", file}, {"dump", file, "a.weight"}, {"stats", file}, {"hash", file}, {"map", file}} {
		var stderr strings.Builder
		if status := run(t.Context(), args, full{}, &stderr); status != exitFailed {
			t.Errorf("%q: status %d, %s", args, status, stderr.String())
		}
		oneLine(t, stderr.String(), syscall.ENOSPC.Error())
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"-h"}} {
		out := done(t, args...)
		for _, verb := range []string{"inspect", "verify", "dump", "map", "convert", "completion", "Exit status: 0 done"} {
			if !strings.Contains(out, verb) {
				t.Errorf("%q does not mention %s", args, verb)
			}
		}
	}
	for args, want := range map[string]string{"--help": "tensormap VERB …", "cache --help": "tensormap cache VERB …", "cache ls --help": "tensormap cache ls [--json]"} {
		out := done(t, strings.Fields(args)...)
		_, lines, _ := strings.Cut(out, "\nUsage:\n")
		if lines, _, _ = strings.Cut(lines, "\n\n"); strings.TrimSpace(lines) != want || strings.Contains(out, "[command]") {
			t.Errorf("%s: usage %q", args, lines)
		}
	}
	for _, verb := range []string{"inspect", "verify", "dump", "map", "convert"} {
		if a, b := done(t, verb, "--help"), done(t, "help", verb); a != b || !strings.Contains(a, "tensormap "+verb) {
			t.Errorf("help %s and %s --help:\n%s\n%s", verb, verb, b, a)
		}
	}
}

// TestBare: the command alone says what it is.
func TestBare(t *testing.T) {
	if bare, help := done(t), done(t, "help"); bare != help {
		t.Errorf("%s, want %s", bare, help)
	}
}

// TestExamples: every verb's help begins with examples, whose flags and arguments the verb takes.
func TestExamples(t *testing.T) {
	for _, cmd := range append(documented(rootCommand(io.Discard, io.Discard)), rootCommand(io.Discard, io.Discard)) {
		lines, _, _ := strings.Cut(done(t, append(strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "tensormap")), "--help")...), "\n\n")
		for line := range strings.SplitSeq(lines, "\n") {
			line, _, _ = strings.Cut(line, " | ")
			args, ok := strings.CutPrefix(strings.ReplaceAll(line, "'", ""), "  tensormap ")
			if !ok || cmd.HasParent() && !strings.HasPrefix(args, verbPath(cmd)+" ") && args != verbPath(cmd) {
				t.Errorf("%s: %q is no example", cmd.Name(), line)
				continue
			}
			verb, rest, err := rootCommand(io.Discard, io.Discard).Find(strings.Fields(strings.ReplaceAll(args, "[0:4, :8]", "")))
			if err == nil {
				err = verb.ParseFlags(rest)
			}
			if err == nil {
				err = verb.ValidateArgs(verb.Flags().Args())
			}
			if err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	if out := done(t, "--version"); !strings.HasPrefix(out, "tensormap ") || !strings.Contains(out, " go1.") {
		t.Errorf("version %q", out)
	}
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	if got := buildText(info); !strings.HasPrefix(got, "(devel) commit abc go1.26.0 ") {
		t.Errorf("buildText: %q", got)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := done(t, "completion", shell); !strings.Contains(out, "__complete") {
			t.Errorf("%s: %.100q", shell, out)
		}
	}
}

func TestComplete(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"b\n":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"b.2":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"b.1":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`)
	for _, test := range []struct {
		args []string
		want string // before the directive's line
	}{
		{[]string{"dump", file, "b"}, "b.1\nb.2\n"},
		{[]string{"dump", file, ""}, "a\nb.1\nb.2\n"},
		{[]string{"dump", "missing", ""}, ""},
		{[]string{"dump", ""}, ""},
		{[]string{"dump", file, "a", "--as", ""}, "f32\nraw\nnpy\ntext\n"},
		{[]string{"convert", file, "x", "--align", ""}, "32\n64\n"},
		{[]string{"help", "ver"}, "cache\ncompletion\nconvert\ndiff\ndump\nexplore\nhash\nhelp\ninspect\nkeygen\nmap\nmerge\npull\nsign\nsplit\nstats\nupgrade\nverify\n"},
	} {
		out := done(t, append([]string{"__complete"}, test.args...)...)
		names, _, _ := strings.Cut(out, ":")
		if names != test.want {
			t.Errorf("%q offers %q, want %q", test.args, names, test.want)
		}
	}
}

// Whatever is wrong with a file, every verb says so on one line.
func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(apr2Fixtures + "tiny.apr")
	if err != nil {
		t.Fatal(err)
	}
	hostile := filepath.Join(t.TempDir(), "evil\n\x1b[31mtensormap: fine\r\u202e\xff")
	for _, test := range []struct {
		name, path string
		says       []string
	}{
		{"missing", filepath.Join(dir, "missing.apr"), []string{"missing.apr: ", "no such file"}},
		{"directory", dir, []string{dir + ": ", "directory"}},
		{"empty", modeltest.Write(t, "empty.apr", nil), []string{"empty.apr: ", "offset 0", "the file is empty"}},
		{"text", modeltest.Write(t, "text.txt", []byte("hello, world")), []string{"text.txt: ", "unknown format"}},
		{"truncated", modeltest.Write(t, "cut.apr", whole[:300]), []string{"cut.apr: apr2: offset ", "truncated"}},
		{"cut header", modeltest.Write(t, "cut.apr", whole[:20]), []string{"cut.apr: apr2: offset ", "truncated"}},
		{"damaged", modeltest.WriteSafeTensors(t, `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 0, 0, 0, 0), []string{"safetensors: offset ", `"a"`}},
		{"hostile tensor", modeltest.WriteSafeTensors(t, `{"a\u001b[2J\nb":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 0, 0, 0, 0), []string{`\x1b[2J\nb`}},
		{"hostile path", hostile, []string{`evil\n\x1b[31mtensormap: fine\r\u202e\xff: `, "no such file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.apr")
			for _, args := range [][]string{
				{"inspect", test.path}, {"inspect", test.path, "--json"}, {"verify", test.path},
				{"dump", test.path, "a"}, {"dump", test.path, "a", "-o", out}, {"convert", test.path, out},
			} {
				tensormap(args...).failsWith(t, test.says...)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	file := modeltest.Small(t)
	for _, args := range [][]string{{"inspect", file}, {"verify", file}, {"dump", file, "a.weight"}, {"verify", "missing"}} {
		dir := t.TempDir()
		for _, name := range []string{"cpuprofile", "memprofile"} {
			args = append(args, "--"+name, filepath.Join(dir, name))
		}
		tensormap(args...)
		for _, name := range []string{"cpuprofile", "memprofile"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) < 20 || b[0] != 0x1f || b[1] != 0x8b {
				t.Errorf("%q: %s of %d bytes is no gzip file (%v)", args, name, len(b), err)
			}
		}
	}
	nowhere := filepath.Join(t.TempDir(), "no", "dir")
	tensormap("inspect", file, "--cpuprofile", nowhere).failsWith(t, "tensormap: open "+nowhere+": no such file or directory\n")
	r := tensormap("inspect", file, "--memprofile", nowhere)
	if r.status != exitFailed {
		t.Errorf("status %d", r.status)
	}
	oneLine(t, r.stderr, "tensormap: open "+nowhere+": no such file or directory\n")
}

// TestProfilesReplaceNoModel: only what a profile may have been is written over.
func TestProfilesReplaceNoModel(t *testing.T) {
	file := modeltest.Small(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--cpuprofile", "--memprofile"} {
		tensormap("inspect", file, flag, file).failsWith(t, file+": is there already, and is no profile")
		if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, whole) {
			t.Errorf("%s: the model has changed (%v)", flag, err)
		}
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap("convert", file, out, flag, out)
		if r.status != exitFailed || !strings.Contains(r.stderr, out+": is there already, and is no profile") {
			t.Errorf("%s: %+v", flag, r)
		}
		done(t, "verify", out)

		profile := modeltest.Write(t, "profile", nil)
		for range 2 {
			done(t, "inspect", file, flag, profile)
		}
	}
}

// As in `tensormap … | head`.
func TestBrokenPipe(t *testing.T) {
	file := modeltest.Small(t)
	for _, args := range [][]string{{"inspect", file}, {"inspect", file, "--json"}, {"verify", file}, {"verify", file, "--json"},
		{"dump", file, "a.weight"}, {"dump", file, "a.weight", "--as", "npy"}, {"dump", file, "b/bias", "--as", "raw"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var stderr strings.Builder
		if status := run(context.Background(), args, w, &stderr); status != exitDone || stderr.String() != "" {
			t.Errorf("%q: status %d, stderr %q", args, status, stderr.String())
		}
		w.Close()
	}
}

// What verify finds decides, whether or not somebody reads it.
func TestBrokenPipeHidesNoFailure(t *testing.T) {
	bad := apr2Fixtures + "badcrc.apr"
	missing := filepath.Join(t.TempDir(), "missing")
	for _, args := range [][]string{{"verify", bad}, {"verify", bad, "--json"}, {"verify", missing, "--json"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var stderr strings.Builder
		if status := run(context.Background(), args, w, &stderr); status != exitFailed {
			t.Errorf("%q: status %d", args, status)
		}
		oneLine(t, stderr.String(), args[1])
		w.Close()
	}
}

func TestNoRoomForResults(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, verb := range []string{"inspect", "verify"} {
		var stderr strings.Builder
		if status := run(context.Background(), []string{verb, modeltest.Small(t)}, full, &stderr); status != exitFailed {
			t.Errorf("%s: status %d", verb, status)
		}
		oneLine(t, stderr.String(), "/dev/full: no space left on device")
	}
}
