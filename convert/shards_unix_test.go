//go:build unix

package convert_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// generation is a model whose bytes tell it from others of the same shape, which give their
// shards the same names.
func generation(t testing.TB, n byte) *loader.Model {
	var list []content
	for i := range 24 {
		c := counting(fmt.Sprint(i), layout.I8, 500) // which all targets have
		for j := range c.data {
			c.data[j] += n
		}
		list = append(list, c)
	}
	return openBytes(t, safeTensors(0, "{}", list...))
}

const (
	generations = 3
	killBytes   = 1200 // two tensors a shard
)

// inProcess is the environment that makes a test do something in a process of its own.
const inProcess = "CONVERT_TEST_PROCESS"

// process runs the calling test in a process of its own, with value in the environment.
func process(t testing.TB, value string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), inProcess+"="+value)
	return cmd
}

// TestShardsKilled kills a process that replaces one model by the next, over and over. What
// it leaves is a whole model or none, whenever that is.
func TestShardsKilled(t *testing.T) {
	if path := os.Getenv(inProcess); path != "" {
		fmt.Println("ready")
		for n := byte(0); ; n = (n + 1) % generations {
			if _, err := convert.Write(context.Background(), generation(t, n), path, &convert.Options{ShardBytes: killBytes}); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "out.apr")
	rounds := 20
	if testmode.Brief() {
		rounds = 6
	}
	none, round := 0, 0
	// On a machine with much else to do, a few more until there was one moment of either kind.
	for ; round < rounds || (none == 0 || none == round) && round < 10*rounds; round++ {
		killedOnce(t, path, round)
		if !wholeOrNone(t, path) {
			none++
		}
	}
	t.Logf("killed %d times: %d times no manifest was left, else a whole model", round, none)
	// What all of these have left goes when the model is written again, in one file.
	if _, err := convert.Write(context.Background(), generation(t, 0), path, nil); err != nil {
		t.Fatal(err)
	}
	for name := range snapshot(t, filepath.Dir(path)) {
		if name[0] == '.' {
			t.Errorf("%s is left", name)
		}
	}
	if none == 0 || none == round {
		t.Errorf("of %d times, %d times no manifest was left: the interesting moments were missed", round, none)
	}
}

// killedOnce kills a process after a while or, two times of three, soon after a manifest has
// come or, every other of these, gone.
func killedOnce(t *testing.T, path string, round int) {
	t.Helper()
	cmd := process(t, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	if round%3 > 0 {
		until(t, func() bool { _, err := os.Lstat(path); return err == nil })
		if round%3 == 1 {
			until(t, func() bool { _, err := os.Lstat(path); return err != nil })
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

func until(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); {
		if time.Now().After(end) {
			t.Error("waited in vain")
			return
		}
	}
}

// wholeOrNone reports whether there is a model, which must then be one of the generations.
func wholeOrNone(t *testing.T, path string) bool {
	t.Helper()
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false
	}
	m := clean(t, path)
	first, err := tensor(t, m, "0").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	n := first[0] - counting("0", layout.I8, 1).data[0]
	sameTensors(t, m, generation(t, n))
	return true
}

// TestTwoProcesses lets two processes convert different models to the same path at the same time.
// Afterwards there is one of the two, and whole: shards with their manifest, or one file.
func TestTwoProcesses(t *testing.T) {
	if n := os.Getenv(inProcess); n != "" {
		m := generation(t, n[0]-'0')
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			shardBytes, path, _ := strings.Cut(lines.Text(), " ")
			most, err := strconv.ParseUint(shardBytes, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			_, err = convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: most})
			fmt.Println(err)
		}
		return
	}
	var in [2]io.Writer
	var out [2]*bufio.Reader
	for i := range in {
		cmd := process(t, strconv.Itoa(i))
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		in[i], out[i] = stdin, bufio.NewReader(stdout)
	}
	models := [2]*loader.Model{generation(t, 0), generation(t, 1)}
	for _, c := range []struct {
		name   string
		most   [2]int // bytes a file, of either process; 0 for one file
		rounds int
	}{
		{"same.apr", [2]int{3000, 3000}, 40},
		{"same.safetensors", [2]int{3000, 3000}, 40},
		{"same.gguf", [2]int{3000, 3000}, 10},
		{"fewer.apr", [2]int{3000, 5000}, 10},
		{"fewer.safetensors", [2]int{3000, 5000}, 10},
		{"single.apr", [2]int{3000, 0}, 10},
		{"single.safetensors", [2]int{3000, 0}, 10},
	} {
		won := 0
		for range c.rounds {
			dir := t.TempDir()
			path := filepath.Join(dir, c.name)
			for i := range in {
				if _, err := fmt.Fprintln(in[i], c.most[i], path); err != nil {
					t.Fatal(err)
				}
			}
			for i := range out {
				if line, err := out[i].ReadString('\n'); line != "<nil>\n" {
					t.Fatalf("%s: %s, %v", c.name, line, err)
				}
			}
			m := clean(t, dir) // what any reader of the directory takes for the model
			first, err := tensor(t, m, "0").Bytes()
			if err != nil {
				t.Fatal(err)
			}
			n := first[0] - counting("0", layout.I8, 1).data[0]
			sameTensors(t, m, models[n])
			if whole := len(m.Files()) == 1; whole != (c.most[n] == 0) {
				t.Errorf("%s: %d files are what process %d has written", c.name, len(m.Files()), n)
			}
			won += int(n)
			if exists(path) && exists(path+".index.json") {
				t.Errorf("%s: both a file and an index", c.name)
			}
			for name := range snapshot(t, dir) {
				if name[0] == '.' {
					t.Errorf("%s: %s is left", c.name, name)
				}
			}
		}
		t.Logf("%s: %d of %d times the second process", c.name, won, c.rounds)
	}
}

// TestShardsFileTooLarge lets writing fail at every size that a file may reach, as on a disk
// that is full.
func TestShardsFileTooLarge(t *testing.T) {
	if arg := os.Getenv(inProcess); arg != "" {
		limit, path, _ := strings.Cut(arg, ":")
		n, err := strconv.ParseUint(limit, 10, 63)
		if err != nil {
			t.Fatal(err)
		}
		signal.Ignore(syscall.SIGXFSZ)
		var was syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		now := was
		now.Cur = 0
		for range n { // whatever integer the system has for it
			now.Cur++
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now); err != nil {
			t.Fatal(err)
		}
		_, err = convert.Write(context.Background(), generation(t, 1), path, &convert.Options{ShardBytes: killBytes})
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("%v", err)
		}
		return
	}
	path, _ := toShards(t, generation(t, 0), convert.Options{ShardBytes: killBytes})
	before := snapshot(t, filepath.Dir(path))
	manifest, shard := len(before["out.apr"]), 0
	for name, text := range before {
		if name != "out.apr" {
			shard = max(shard, len(text))
		}
	}
	if manifest <= shard || shard > killBytes {
		t.Fatalf("a manifest of %d bytes, shards of up to %d", manifest, shard)
	}
	for _, limit := range []int{0, 1, shard / 2, shard - 1, shard, manifest - 1} { // the last two stop the manifest
		if out, err := process(t, fmt.Sprintf("%d:%s", limit, path)).CombinedOutput(); err != nil {
			t.Errorf("limit %d: %v\n%s", limit, err, out)
		}
		if after := snapshot(t, filepath.Dir(path)); len(after) != len(before) {
			t.Errorf("limit %d: %d files, were %d", limit, len(after), len(before))
		}
		sameTensors(t, clean(t, path), generation(t, 0))
	}
}

// TestShardsReadOnlyDirectory needs a user whom permissions stop.
func TestShardsReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if f, err := os.Create(filepath.Join(dir, "x")); err == nil {
		f.Close()
		t.Skip("nothing is forbidden to this user")
	}
	_, err := convert.Write(context.Background(), generation(t, 0), filepath.Join(dir, "out.apr"), &convert.Options{ShardBytes: killBytes})
	if !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}
