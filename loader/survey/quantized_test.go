package survey_test

import (
	"context"
	"testing"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// TestQuantized: statistics, digests and differences are those of the values that codes stand for.
func TestQuantized(t *testing.T) {
	for _, dir := range []string{"awq-gemm", "ct-pack-4", "bnb-nf4-nested", "fp8-tensor"} {
		open := func(name string) *loader.Model {
			m, err := loader.Open("../../testdata/quantized/"+dir+"/"+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			return m
		}
		m, want := open("model.safetensors"), open("expected.safetensors")
		filter := survey.Options{Filter: func(name string) bool { _, err := want.Tensor(name); return err == nil }}
		digests := make(map[string]survey.Digest)
		hash := func(m *loader.Model) {
			err := survey.Hash(context.Background(), m, &survey.HashOptions{Options: filter, Values: true, Stored: true}, func(d *survey.TensorDigest) error {
				if d.Err != nil || d.Values == nil || d.Stored == nil {
					t.Fatalf("%s: %v", d.Tensor.Name(), d.Err)
				}
				if m == want && digests[d.Tensor.Name()] != *d.Values {
					t.Errorf("%s: %s: other values", dir, d.Tensor.Name())
				}
				digests[d.Tensor.Name()] = *d.Values
				return nil
			})
			if err != nil || len(digests) == 0 {
				t.Fatal(err)
			}
		}
		hash(m)
		hash(want)
		compared := 0
		err := survey.Compare(context.Background(), m, want, &filter, func(p *survey.Pair) error {
			compared++
			if p.Err != nil || !p.Compared || p.Differing != 0 {
				t.Errorf("%s: %+v", dir, p)
			}
			return nil
		})
		if err != nil || compared != len(digests) {
			t.Errorf("%s: %d compared, %v", dir, compared, err)
		}
	}
}
