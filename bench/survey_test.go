package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// BenchmarkSurvey goes through all values of a model: for statistics, with a histogram and
// without, for digests, and to compare it with itself and with a model that is a little
// different. read and sha256 are the same bytes read into a buffer and hashed in a bare loop,
// on one core. All throughputs are of the bytes of one model.
func BenchmarkSurvey(b *testing.B) {
	const size = 256 << 20
	path := fullAPR2(b, size/4)
	f32 := open(b, path)
	q8 := open(b, reencoded(b, f32, layout.Q8_0))
	for _, s := range []struct {
		name  string
		m     *loader.Model
		bytes int64
	}{{"F32", f32, size}, {"Q8_0", q8, size / 4 / 32 * 34}} {
		for _, workers := range []int{1, 0} {
			o := survey.Options{Workers: workers}
			name := func(work string) string { return fmt.Sprintf("work=%s/type=%s/workers=%d", work, s.name, workers) }
			measured(b, name("stats"), s.bytes, func() error {
				return survey.Stats(context.Background(), s.m, &survey.StatsOptions{Options: o}, func(*survey.TensorStats) error { return nil })
			})
			measured(b, name("stats+histogram"), s.bytes, func() error {
				return survey.Stats(context.Background(), s.m, &survey.StatsOptions{Options: o, Bins: 16}, func(*survey.TensorStats) error { return nil })
			})
			measured(b, name("hash-values"), s.bytes, func() error {
				return survey.Hash(context.Background(), s.m, &survey.HashOptions{Options: o, Values: true}, func(*survey.TensorDigest) error { return nil })
			})
			measured(b, name("hash-stored"), s.bytes, func() error {
				return survey.Hash(context.Background(), s.m, &survey.HashOptions{Options: o, Stored: true}, func(*survey.TensorDigest) error { return nil })
			})
			measured(b, name("compare-same"), s.bytes, func() error {
				return survey.Compare(context.Background(), s.m, s.m, &o, func(*survey.Pair) error { return nil })
			})
			measured(b, name("compare-F32"), s.bytes, func() error {
				return survey.Compare(context.Background(), f32, q8, &o, func(*survey.Pair) error { return nil })
			})
		}
	}
	buf := make([]byte, 1<<20)
	read := func(w io.Writer) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, buf)
		return err
	}
	measured(b, "work=read", size, func() error { return read(io.Discard) })
	measured(b, "work=sha256", size, func() error { return read(sha256.New()) })
}

func measured(b *testing.B, name string, bytes int64, work func() error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(bytes)
		b.ReportAllocs()
		for b.Loop() {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// reencoded is m's tensors as type d, in a file of its own.
func reencoded(b testing.TB, m *loader.Model, d layout.DType) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "reencoded.apr")
	if _, err := convert.Write(context.Background(), m, path, &convert.Options{DType: d}); err != nil {
		b.Fatal(err)
	}
	return path
}
