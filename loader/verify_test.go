package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// outline lists findings as "warning" or "error", field and offset, in order.
func outline(r *loader.Report) (list []string) {
	for _, f := range r.Findings {
		severity := "error"
		if f.Warning {
			severity = "warning"
		}
		list = append(list, fmt.Sprintf("%s %s %d", severity, f.Field, f.Offset))
	}
	return list
}

// TestVerifyFixtures expects what testdata/apr2/README.md says of each file.
func TestVerifyFixtures(t *testing.T) {
	findings := map[string][]string{
		"badcrc.apr":      {"error crc32 964"},
		"badfilesize.apr": {"error file_size 972"},
		"badmagicend.apr": {"error magic_end 968"},
		"misaligned.apr":  {"error offset 578", "error offset 708"},
		"flagliar.apr":    {"warning flags 8", "warning architecture 32"},
		"gap.apr":         {"warning padding 648", "warning padding 1220"},
		"nometadata.apr":  {"warning apr_version 32", "warning model_type 32", "warning architecture 32"},
		"odd.apr":         {"warning flags 8"},
		"unaligned.apr": {"warning offset 536", "warning offset 548", "warning offset 556", "warning offset 561",
			"warning offset 567", "warning offset 579", "warning offset 603"},
		"dtypes.safetensors": {"warning quantized 2674", "warning quantized 2686", "warning quantized 2710", "warning quantized 2722", "warning quantized 3006"}, // F8 and F4 without scales
	}
	for _, path := range fixtures(t) {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			m := openPath(t, path, opts)
			r := must(m.Verify(t.Context(), nil))(t)
			want := findings[filepath.Base(path)]
			if got := outline(r); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
			fails := slices.ContainsFunc(want, func(f string) bool { return strings.HasPrefix(f, "error") })
			if (r.Err() != nil) != fails {
				t.Errorf("%s: Err: %v", path, r.Err())
			}
			sums := m.Format() == layout.APR2
			if slices.Contains(r.Checked, "crc32") != sums || (r.BytesRead > 0) != sums {
				t.Errorf("%s: checked %v, read %d bytes", path, r.Checked, r.BytesRead)
			}
		}
	}
}

func TestVerifyNamesTensors(t *testing.T) {
	r := must(openPath(t, "../testdata/apr2/misaligned.apr", nil).Verify(t.Context(), nil))(t)
	if msg := r.Err().Error(); !strings.Contains(msg, `"f16"`) || !strings.Contains(msg, `"i8"`) {
		t.Errorf("%s names no tensors", msg)
	}
	for _, f := range r.Findings {
		if !errors.Is(f, layout.ErrMisaligned) || !strings.HasPrefix(f.Error(), "../testdata/apr2/misaligned.apr: apr2: ") {
			t.Error(f)
		}
	}
}

// TestVerifyFindsEveryByte changes one byte after another.
func TestVerifyFindsEveryByte(t *testing.T) {
	good := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.Q8_0, 64))
	footer := len(good) - apr2Footer
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		m, err := loader.OpenBytes(bad, nil)
		if err != nil {
			continue
		}
		r := must(m.Verify(t.Context(), nil))(t)
		m.Close()
		if r.Err() == nil {
			t.Errorf("byte %d: nothing found", at)
		}
		// A wrong checksum is reported where the file states it.
		crc := slices.Contains(outline(r), fmt.Sprintf("error crc32 %d", footer))
		if want := at < footer+4; crc != want {
			t.Errorf("byte %d: %q", at, outline(r))
		}
		if crc && !errors.Is(r.Err(), layout.ErrChecksum) {
			t.Errorf("byte %d: %v", at, r.Err())
		}
	}
}

// TestVerifyManyChunks has checksums put together from several chunks: of lengths around
// whole ones, by few and many workers, mapped and read.
func TestVerifyManyChunks(t *testing.T) {
	const around = 3 * loader.CRCChunk
	for _, extra := range []int{-1, 0, 1, 1000} {
		// Behind the last tensor comes at once the footer.
		b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 1))
		b = modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, around+extra-(len(b)-1-apr2Footer)))
		if len(b)-apr2Footer != around+extra {
			t.Fatalf("%d bytes to sum, want %d", len(b)-apr2Footer, around+extra)
		}
		bad := bytes.Clone(b)
		bad[loader.CRCChunk]++
		eachWay(t, b, func(t *testing.T, m *loader.Model) {
			for _, workers := range []int{0, 1, 2, 8} {
				r := must(m.Verify(t.Context(), &loader.VerifyOptions{Workers: workers}))(t)
				if r.Err() != nil || len(r.Findings) != 0 || r.BytesRead != uint64(around+extra) {
					t.Errorf("%d workers: %v, %d bytes", workers, r.Findings, r.BytesRead)
				}
			}
		})
		eachWay(t, bad, func(t *testing.T, m *loader.Model) {
			want := must(m.Verify(t.Context(), &loader.VerifyOptions{Workers: 1}))(t)
			if got := outline(want); !slices.Equal(got, []string{fmt.Sprintf("error crc32 %d", around+extra)}) {
				t.Errorf("found %q", got)
			}
			for _, workers := range []int{0, 2, 8} {
				if got := must(m.Verify(t.Context(), &loader.VerifyOptions{Workers: workers}))(t); !reflect.DeepEqual(got, want) {
					t.Errorf("%d workers: %+v, want %+v", workers, got, want)
				}
			}
		})
	}
}

func TestVerifyProgress(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 5*loader.CRCChunk)), nil)
	for _, workers := range []int{1, 8} {
		last, steps, inside := uint64(0), 0, false
		r := must(m.Verify(t.Context(), &loader.VerifyOptions{Workers: workers, Progress: func(done, total uint64) {
			if inside || done <= last || done > total || total != m.Files()[0].Size-apr2Footer {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			inside = true
			last = done
			steps++
			inside = false
		}}))(t)
		if last != r.BytesRead || steps != 6 {
			t.Errorf("%d steps, the last at %d of %d", steps, last, r.BytesRead)
		}
	}
}

func TestVerifyCancelled(t *testing.T) {
	b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 20*loader.CRCChunk))
	eachWay(t, b, func(t *testing.T, m *loader.Model) {
		ctx, cancel := context.WithCancel(context.Background())
		steps := 0
		r, err := m.Verify(ctx, &loader.VerifyOptions{Workers: 2, Progress: func(_, _ uint64) {
			if steps++; steps == 3 {
				cancel()
			}
		}})
		if r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", r, err)
		}
		if steps > 3+2 { // each worker may be inside a chunk
			t.Errorf("%d chunks read, cancelled in the third", steps)
		}
		if r, err := m.Verify(ctx, nil); r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v, %v", r, err)
		}
		if r := must(m.Verify(t.Context(), nil))(t); r.Err() != nil {
			t.Errorf("afterwards: %v", r.Err())
		}
	})
}

// TestVerifyCancelledBefore: also where there is no checksum to compute.
func TestVerifyCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("x", layout.U8, 1)), nil)
	if r, err := m.Verify(ctx, nil); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", r, err)
	}
}

func TestVerifyBadMetadata(t *testing.T) {
	b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 1))
	b[32] = '!'
	eachWay(t, withFooter(b), func(t *testing.T, m *loader.Model) {
		for range 2 { // whether or not it has been asked for before
			if got := outline(must(m.Verify(t.Context(), nil))(t)); !slices.Equal(got, []string{"error metadata 32"}) {
				t.Errorf("%q", got)
			}
			if _, err := m.Metadata(); !errors.Is(err, layout.ErrInvalid) {
				t.Error(err)
			}
		}
	})
}

// TestReportErr leaves warnings out and keeps every error.
func TestReportErr(t *testing.T) {
	finding := func(field string, sentinel error, warning bool) loader.Finding {
		return loader.Finding{File: "f", Finding: layout.Finding{FormatError: layout.Errorf(layout.APR2, 1, field, sentinel, "so"), Warning: warning}}
	}
	r := &loader.Report{Findings: []loader.Finding{
		finding("a", layout.ErrInvalid, false), finding("b", layout.ErrOverlap, true), finding("c", layout.ErrChecksum, false),
	}}
	err := r.Err()
	if !errors.Is(err, layout.ErrInvalid) || !errors.Is(err, layout.ErrChecksum) || errors.Is(err, layout.ErrOverlap) {
		t.Error(err)
	}
	if want := "f: apr2: offset 1: a: so (invalid)\nf: apr2: offset 1: c: so (checksum mismatch)"; err.Error() != want {
		t.Errorf("%q", err)
	}
	if err := (&loader.Report{}).Err(); err != nil {
		t.Error(err)
	}
}

// TestMetadata parses once and answers always the same.
func TestMetadata(t *testing.T) {
	b := modeltest.SafeTensorsAt(0, `{"b":"1","a":"2"}`, modeltest.Random("x", layout.U8, 1))
	eachWay(t, b, func(t *testing.T, m *loader.Model) {
		first, err := m.Metadata()
		want := layout.Metadata{{Key: "b", Value: "1"}, {Key: "a", Value: "2"}}
		if err != nil || !reflect.DeepEqual(first, want) {
			t.Errorf("%v, %v", first, err)
		}
		if again, err := m.Metadata(); err != nil || &again[0] != &first[0] {
			t.Errorf("parsed again: %v", err)
		}
	})
}
