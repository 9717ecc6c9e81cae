package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every verb that reads a model takes an address in a registry, in Ollama's store or in a bucket.
func TestVerbs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tensormap")
	build := exec.Command("go", "build", "-o", program, "./cmd/tensormap")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	environment(t)
	r, g := startRegistry(t, nil), startS3(t)
	content := weights("w", bytesOf(1<<20, 8))
	push(t, artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.raw", "model.safetensors", content}), r.host+"/one:v1")
	ollamaModel(t, "tiny", layer{mediaType: ollama + "model", content: content})
	g.put(t, "one/model.safetensors", content)
	ollamaModel(t, "pipe", layer{ollama + "tensor", "w", content},
		layer{ollama + "json", "a/config.json", []byte(`{"in": "a"}`)}, layer{ollama + "json", "b/config.json", []byte(`{"in": "b"}`)})
	copied := t.TempDir()
	pull := exec.Command(program, "pull", "ollama://pipe", "-o", copied)
	pull.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
	if said, err := pull.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	for _, in := range []string{"a", "b"} {
		if text, err := os.ReadFile(filepath.Join(copied, in, "config.json")); err != nil || string(text) != `{"in": "`+in+`"}` {
			t.Errorf("%s/config.json: %q, %v", in, text, err)
		}
	}
	for _, address := range []string{"oci://" + r.host + "/one:v1", "ollama://tiny", "s3://models/one"} {
		out := filepath.Join(t.TempDir(), "out.safetensors")
		for _, verb := range [][]string{
			{"inspect", address}, {"verify", address}, {"dump", address, "w[0,:4]"}, {"stats", address}, {"hash", address}, {"map", address},
			{"diff", address, address}, {"convert", address, out}, {"split", address, filepath.Join(t.TempDir(), "split.safetensors"), "--shard-size", "600K"},
			{"pull", address},
		} {
			if verb[0] == "pull" && address == "ollama://tiny" {
				continue // which asks what the tag stands for now
			}
			said, err := exec.Command(program, verb...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", strings.Join(verb, " "), err, said)
			}
		}
	}
}
