package apr1

import (
	"strings"
	"testing"
)

// The sums were computed by numpy from what the writers were given.
func TestSummary(t *testing.T) {
	for name, want := range map[string]string{
		"whisper_mel80": "Model: base; Size: 64500 bytes; Tensors: 1; Has Vocabulary: false; Has Filterbank: true (80x201); Filterbank row 0 sum: 0.024863",
		"whisper_f32":   "Model: tiny; Size: 792 bytes; Tensors: 5; Has Vocabulary: true (11 tokens); Has Filterbank: true (3x4); Filterbank row 0 sum: -3.421687",
		"f16":           "Model: ModelType(200); Size: 340 bytes; Tensors: 2; Has Vocabulary: true (7 tokens); Has Filterbank: false",
		"novocab":       "Model: tiny; Size: 420 bytes; Tensors: 3; Has Vocabulary: true (0 tokens); Has Filterbank: false",
		"nofilterbank":  "Model: tiny; Size: 420 bytes; Tensors: 3; Has Vocabulary: false; Has Filterbank: true (0x201); Filterbank row 0 sum: 0.000000",
		"filterbank":    "Model: large-v3-turbo; Size: 444 bytes; Tensors: 3; Has Vocabulary: false; Has Filterbank: true (3x2); Filterbank row 0 sum: NaN",
		"taken":         "Model: tiny; Size: 196 bytes; Tensors: 1; Has Vocabulary: false; Has Filterbank: true (2x3); Filterbank row 0 sum: -0.625000",
		"json_whisper":  "Model: whisper-tiny; Size: 621 bytes; Tensors: 4; Has Vocabulary: true (3 tokens); Has Filterbank: true (2x3); Filterbank row 0 sum: 0.566265",
		"json_empty":    "Size: 24 bytes; Tensors: 0; Has Vocabulary: false; Has Filterbank: false",
	} {
		data := format.Read(t, name)
		facts, err := format.MustDecode(t, data).Summary(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, f := range facts {
			got = append(got, f.Label+": "+f.Value)
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s:\n%s, want\n%s", name, s, want)
		}
	}
}

// TestSummaryOfOddJSON has metadata in which the keys that Summary knows are something else.
func TestSummaryOfOddJSON(t *testing.T) {
	for _, md := range []string{
		`{"mel_filterbank":[1,2],"mel_filterbank_shape":[1,1]}`, `{"mel_filterbank":[],"mel_filterbank_shape":[0,0]}`,
		`{"mel_filterbank":[1],"mel_filterbank_shape":["1","1"]}`, `{"mel_filterbank":{},"mel_filterbank_shape":[1,1]}`,
		`{"mel_filterbank":[1],"mel_filterbank_shape":[-1,-1]}`, `{"vocab":null,"model_type":7}`, `{"vocab":"text"}`,
		`{"mel_filterbank":[1],"mel_filterbank_shape":[4294967296,4294967296]}`,
	} {
		data := jsonFile(md, "[]", 0, "")
		facts, err := format.MustDecode(t, data).Summary(data)
		if err != nil || len(facts) != 4 || facts[2].Value != "false" || facts[3].Value != "false" {
			t.Errorf("%s: %v, %v", md, facts, err)
		}
	}
	data := jsonFile(`{"vocab":{"a":0,"b":1}}`, "[]", 0, "")
	if facts, _ := format.MustDecode(t, data).Summary(data); facts[2].Value != "true (2 tokens)" {
		t.Errorf("%v", facts)
	}
	data = jsonFile(`{"a"}`, "[]", 0, "")
	if _, err := format.MustDecode(t, data).Summary(data); err == nil {
		t.Error("broken metadata has a summary")
	}
}

func TestMegabytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 99_999: "99999 bytes", 100_000: "0.1 MB", 150_200_000: "150.2 MB", 6_200_000_000: "6200.0 MB"} {
		if got := megabytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
