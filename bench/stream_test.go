//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/narrow"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

const streamReaders = 4

// pinned returns buffers outside of the Go heap that have their memory, as a device's pinned ones. It is of large pages, where the system
// has them: a direct read takes longer the more places its memory lies in, and small pages lie elsewhere in each run.
func pinned(b *testing.B, size int) (list [][]byte) {
	for range streamReaders {
		memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Munmap(memory) })
		unix.Madvise(memory, unix.MADV_HUGEPAGE) // an error means that there are none
		clear(memory)
		list = append(list, memory)
	}
	return list
}

// plainly reads all of f by four readers, size bytes at a time, and hands what each has read to use. Direct reads go past the page cache.
func plainly(b *testing.B, f *os.File, buffers [][]byte, size int64, direct bool, use func(reader int, read []byte)) {
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	own, err := os.Open(f.Name())
	if err == nil && direct {
		err = mmapio.Direct(own)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	var next atomic.Int64
	var wg sync.WaitGroup
	for i, buf := range buffers {
		buf = buf[:size]
		wg.Go(func() {
			for {
				off := next.Add(size) - size
				if off >= info.Size() {
					return
				}
				n, err := own.ReadAt(buf, off)
				if n < len(buf) && off+int64(n) != info.Size() {
					b.Error(err)
				}
				use(i, buf[:n])
			}
		})
	}
	wg.Wait()
}

// converting returns a function that makes F16 of BF16 by the kernels alone, in a cache's size at a time, and copies it to the device.
func converting(device [][]byte) func(reader int, read []byte) {
	const step = 4 << 10
	memory := make([][]byte, len(device))
	floats := make([][]float32, len(device))
	for i := range memory {
		memory[i], floats[i] = make([]byte, 1<<20), make([]float32, step)
	}
	return func(reader int, read []byte) {
		for at := 0; at < len(read); at += 2 * step {
			in := read[at:min(at+2*step, len(read))]
			values := floats[reader][:len(in)/2]
			dequant.Expand(layout.BF16, values, in) // random elements are no error
			narrow.F16(memory[reader][at:], values)
		}
		copy(device[reader], memory[reader][:len(read)])
	}
}

// rss returns how many bytes of this process are in memory.
func rss(b *testing.B) int64 {
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(stat)[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// fioSeconds reads f by fio as plainly does, direct, and returns the seconds that it took.
func fioSeconds(b *testing.B, f *os.File, size int) float64 {
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	each := info.Size() / streamReaders &^ (1<<20 - 1)
	out, err := exec.Command("fio", "--name=read", "--filename="+f.Name(), "--readonly", "--rw=read", "--direct=1", "--ioengine=psync", "--group_reporting",
		"--bs="+strconv.FormatInt(min(int64(size), each), 10), "--numjobs="+strconv.Itoa(streamReaders), "--size="+strconv.FormatInt(each, 10), "--offset_increment="+strconv.FormatInt(each, 10), "--output-format=json").Output()
	if err != nil {
		b.Fatal(err)
	}
	var report struct {
		Jobs []struct {
			Read struct {
				Bytes float64 `json:"io_bytes"`
				Rate  float64 `json:"bw_bytes"`
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Jobs) == 0 || report.Jobs[0].Read.Rate == 0 {
		b.Fatalf("%v of %s", err, out)
	}
	return float64(info.Size()) / report.Jobs[0].Read.Rate
}

// BenchmarkStream hands a model out by Stream to a function that copies, beside plain reads of the same file by as many readers, into
// as many buffers, that copy too. The metrics are the rate of Stream; stream/plain, the least median of the plain ways over that of
// Stream; raw/f32-f16 and the like, the median of Stream over that of Stream to F16 from F32; kernels/bf16-f16, the median of plain
// reads of 1 MiB whose bytes the kernels convert over that of Stream to F16 from BF16; raw/kernels, that of Stream over the same, which
// raw/bf16-f16 can reach; and how much memory both took beyond the buffers at most. With fio, stream/fio is the ratio for fio's direct reads, which copy
// nothing. Alternating ways share the disturbance.
func BenchmarkStream(b *testing.B) {
	f, f16, f32 := diskModel(b, layout.BF16), diskModel(b, layout.F16), diskModel(b, layout.F32)
	megabytes := float64(*diskMiB<<20) / 1e6
	_, noFio := exec.LookPath("fio")
	for _, cache := range []string{"cold", "warm"} {
		for _, size := range []int{16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("cache=%s/buffers=%dx%dMiB", cache, streamReaders, size>>20), func(b *testing.B) {
				buffers, device := pinned(b, size), pinned(b, size)
				beyond := make(map[string]int64)
				stream := func(name string, of *os.File, as layout.DType, by loader.Backing) *way {
					return &way{name: name, work: func() {
						m := open(b, of.Name())
						defer m.Close()
						before, pieces := rss(b), 0
						_, err := m.StreamAll(context.Background(), &loader.StreamOptions{Buffers: buffers, As: as, Backing: by}, func(p loader.Piece) error {
							copy(device[pieces%streamReaders], p.Bytes)
							if pieces++; pieces%8 == 0 {
								beyond[name] = max(beyond[name], rss(b)-before)
							}
							return nil
						})
						if err != nil {
							b.Fatal(err)
						}
					}}
				}
				copying, convert := func(reader int, read []byte) { copy(device[reader], read) }, converting(device)
				direct := cache == "cold"
				raw, toF16 := stream("Stream", f, layout.Invalid, loader.BackingAuto), stream("bf16-f16", f, layout.F16, loader.BackingAuto)
				as := []*way{toF16, stream("f16-bf16", f16, layout.BF16, loader.BackingAuto), stream("f32-f16", f32, layout.F16, loader.BackingAuto),
					stream("f32-bf16", f32, layout.BF16, loader.BackingAuto)}
				kernels := &way{name: "plain, kernels", work: func() { plainly(b, f, buffers, 1<<20, direct, convert) }}
				plain := []*way{{name: "plain", work: func() { plainly(b, f, buffers, int64(size), false, copying) }}}
				if direct {
					plain = append(plain, &way{name: "plain, direct", work: func() { plainly(b, f, buffers, int64(size), true, copying) }})
				}
				ways := slices.Concat(as, plain, []*way{raw, kernels,
					stream("Stream, read", f, layout.Invalid, loader.BackingRead), stream("Stream, map", f, layout.Invalid, loader.BackingMap)})
				prepare := func() {
					for _, f := range []*os.File{f, f16, f32} {
						if cache == "cold" {
							chill(b, f)
						} else {
							preads(b, f, 1, 1<<20)
						}
					}
				}
				var fio []float64
				byTurns(b, func() {
					if cache == "cold" && noFio == nil && len(fio) < len(raw.times)+1 {
						fio = append(fio, fioSeconds(b, f, size))
					}
					prepare()
				}, ways...)
				best := math.Inf(1)
				for _, w := range plain {
					best = min(best, w.seconds(0.5))
				}
				b.ReportMetric(megabytes/raw.seconds(0.5), "stream-MB/s")
				b.ReportMetric(best/raw.seconds(0.5), "stream/plain")
				for _, w := range as {
					raw.over(b, w, "raw/"+w.name)
				}
				kernels.over(b, toF16, "kernels/bf16-f16")
				raw.over(b, kernels, "raw/kernels")
				b.ReportMetric(float64(beyond["Stream"])/(1<<20), "beyond-MiB")
				b.ReportMetric(float64(beyond["bf16-f16"])/(1<<20), "beyond-f16-MiB")
				if len(fio) > 0 {
					w := way{}
					for _, s := range fio {
						w.times = append(w.times, time.Duration(s*float64(time.Second)))
					}
					b.ReportMetric(w.seconds(0.5)/raw.seconds(0.5), "stream/fio")
				}
			})
		}
	}
}
