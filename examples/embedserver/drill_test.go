package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/examples/bert"
	"github.com/tensormap/tensormap/mmapio"
)

var drill = flag.Duration("drill", 2*time.Second, "time of TestDrill, with 64 clients from 10 s on, else 8")

// TestDrill asks the whole program for embeddings by many clients while it swaps two models every 200 ms, and cuts the file
// of the served one at times. Every answer is the vector of the model that it names. Requests fail only while a file
// is cut, and the next swap ends that. When the program has stopped, nothing of it is left.
func TestDrill(t *testing.T) {
	clients := 8
	if *drill >= 10*time.Second {
		clients = 64
	}
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	restore := []func(){copyModel(t, paths[0], false), copyModel(t, paths[1], true)}
	settings := settings{model: paths[0], listen: "localhost:0", admin: "localhost:0", bert: bert.Options{Pooling: bert.Mean}, drain: time.Minute,
		limits: limits{bytes: 4096, inputs: 8, running: 8, time: time.Minute}}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients + 1}}

	wanted := make(map[string]string) // the answer's data by the model's path
	for i := range 2 {                // twice: threads and what the process opens once are there before it is counted
		api, admin, stop := start(t, settings)
		for _, path := range paths[i:] {
			swapTo(t, client, admin, path)
			a, err := ask(client, api)
			if err != nil || a.Model != path {
				t.Fatalf("%s: %+v, %v", path, a, err)
			}
			wanted[path] = string(a.Data)
		}
		var running sync.WaitGroup
		for range clients {
			running.Go(func() {
				for range 5 {
					if _, err := ask(client, api); err != nil {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
		client.CloseIdleConnections() // else Shutdown waits 5 s for one that was opened and not used
		stop()
	}
	if wanted[paths[0]] == wanted[paths[1]] {
		t.Fatal("both models make the same vectors")
	}
	before := used(t, dir)
	faults := mmapio.Faults()

	api, admin, stop := start(t, settings)
	var cuts atomic.Int64 // odd while a file is cut
	var answered, failed atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), *drill)
	defer cancel()
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				begun := cuts.Load()
				a, err := ask(client, api)
				cut := begun%2 == 1 || cuts.Load() != begun
				switch {
				case err != nil && !cut:
					t.Errorf("with no file cut: %v", err)
				case err != nil:
					failed.Add(1)
				case string(a.Data) != wanted[a.Model] || a.Model == "":
					t.Errorf("%q answers the vector %s", a.Model, a.Data)
				default:
					answered.Add(1)
				}
			}
		})
	}
	swaps, most := 0, resources{}
	for tick := time.Tick(200 * time.Millisecond); ctx.Err() == nil; <-tick {
		if swaps%5 == 2 {
			served := swaps % 2
			cuts.Add(1)
			cutFile(t, paths[served], swaps%10 == 7)
			for refused := failed.Load(); failed.Load() == refused && ctx.Err() == nil; {
				time.Sleep(time.Millisecond)
			}
			swapTo(t, client, admin, paths[1-served])
			restore[served]()
			cuts.Add(1)
		} else {
			swapTo(t, client, admin, paths[1-swaps%2])
		}
		swaps++
		if now := count(t, dir); now.files > most.files {
			most = now
		}
	}
	running.Wait()
	client.CloseIdleConnections()
	stop()
	after := used(t, dir)
	t.Logf("%v, %d clients: %d answers, %d errors while a file was cut %d times, %d swaps, %d faults", *drill, clients, answered.Load(), failed.Load(),
		cuts.Load()/2, swaps, mmapio.Faults()-faults)
	t.Logf("before %+v, meanwhile %+v, after %+v", before, most, after)
	if answered.Load() == 0 || swaps < 2 || cuts.Load() > 0 && failed.Load() == 0 {
		t.Error("the drill has tried nothing")
	}
	if left := after.beyond(before); left != "" {
		t.Error(left)
	}
}

// copyModel copies the tiny model to path, its matrices before its vectors, if flipped with the signs of one tensor turned.
// restore puts the file of weights there anew, by renaming.
func copyModel(t *testing.T, path string, flipped bool) (restore func()) {
	t.Helper()
	if err := os.CopyFS(path, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "model.safetensors")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type tensor struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	var head map[string]tensor
	size := 8 + int(binary.LittleEndian.Uint64(b))
	if err := json.Unmarshal(b[8:size], &head); err != nil {
		t.Fatal(err)
	}
	delete(head, "__metadata__")
	names := slices.SortedFunc(maps.Keys(head), func(a, b string) int {
		return cmp.Or(len(head[b].Shape)-len(head[a].Shape), strings.Compare(a, b))
	})
	var data []byte
	for _, name := range names {
		x := head[name]
		values := b[size:][x.Offsets[0]:x.Offsets[1]]
		for i := 3; flipped && name == "embeddings.LayerNorm.weight" && i < len(values); i += 4 {
			values[i] ^= 0x80
		}
		x.Offsets = [2]int{len(data), len(data) + len(values)}
		head[name], data = x, append(data, values...)
	}
	text, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, strings.Repeat(" ", -len(text)&7)...)
	b = slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
	restore = func() {
		if err := os.WriteFile(file+".new", b, 0o666); err != nil {
			t.Error(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Error(err)
		}
	}
	restore()
	return restore
}

// cutFile truncates the weights of the model at path to half, or only the last of its vectors. It cuts between pages: the rest
// of a page that is cut in the middle reads as zeros.
func cutFile(t *testing.T, path string, half bool) {
	t.Helper()
	file := filepath.Join(path, "model.safetensors")
	info, err := os.Stat(file)
	if err == nil {
		size := info.Size() - 1
		if half {
			size /= 2
		}
		page := int64(os.Getpagesize())
		err = os.Truncate(file, size/page*page)
	}
	if err != nil {
		t.Error(err)
	}
}

// start runs the program until stop, which fails the test if the program does.
func start(t *testing.T, s settings) (api, admin string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addresses, ended := make(chan [2]string, 2), make(chan error, 1)
	serving := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(writer(func(line string) {
		for _, name := range []string{"api", "admin"} {
			if _, address, is := strings.Cut(strings.TrimSpace(line), "msg=listening "+name+"="); is {
				addresses <- [2]string{name, "http://" + address}
			}
		}
		if strings.Contains(line, "msg=serving") {
			select {
			case serving <- struct{}{}:
			default:
			}
		}
	}), nil))
	go func() { ended <- run(ctx, s, log) }()
	listening := make(map[string]string)
	for range 2 {
		a := <-addresses
		listening[a[0]] = a[1]
	}
	<-serving
	return listening["api"], listening["admin"], func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// answer is what the drill compares of one: the name of the model, and the vectors as they are sent.
type answer struct {
	Model string
	Data  json.RawMessage
}

// ask asks for the vectors of two texts. The error says the status, if that is not 200.
func ask(client *http.Client, api string) (a answer, err error) {
	err = send(client, api+"/v1/embeddings", `{"input": ["the cat sat", "a mat"], "encoding_format": "base64"}`, &a)
	return a, err
}

// swapTo swaps to the model at path.
func swapTo(t *testing.T, client *http.Client, admin, path string) {
	t.Helper()
	if err := send(client, admin+"/admin/models", fmt.Sprintf(`{"model": %q}`, path), new(any)); err != nil {
		t.Error(err)
	}
}

// send posts JSON and parses the answer into v. The error is of sending, or says the status if that is not 200.
func send(client *http.Client, url, body string, v any) error {
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return json.Unmarshal(text, v)
}

// resources are what a process holds. Where there is no /proc, only goroutines are counted. Mappings without a file are not: those of the
// runtime's heap come and go at will, and models have their own test for theirs (loader, TestPrivateMemoryGoes).
type resources struct {
	goroutines, descriptors int
	files, fileBytes        int // mappings of files below a directory, removed files too, and their size
}

// count returns what the process holds, with the mappings of files below dir.
func count(t *testing.T, dir string) (r resources) {
	t.Helper()
	r.goroutines = runtime.NumGoroutine()
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.descriptors = len(fds)
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return r
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			var from, to int
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				t.Fatal(err)
			}
			r.files++
			r.fileBytes += to - from
		}
	}
	return r
}

// used returns what the process holds once what has ended is gone.
func used(t *testing.T, dir string) (r resources) {
	t.Helper()
	for last := (resources{}); ; last = r {
		time.Sleep(200 * time.Millisecond)
		if r = count(t, dir); r.goroutines >= last.goroutines && r.descriptors >= last.descriptors && r.files >= last.files && last.goroutines > 0 {
			return r
		}
	}
}

// beyond says what r has more than before, "" if nothing. No file may be mapped.
func (r resources) beyond(before resources) string {
	if r.goroutines > before.goroutines || r.descriptors > before.descriptors || r.files > 0 {
		return fmt.Sprintf("%+v is left, %+v was before", r, before)
	}
	return ""
}
