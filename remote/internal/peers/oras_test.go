package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// orasPush pushes files of the folder that it runs in, as oras' Python client does: their names are
// titles.
const orasPush = `
import sys
from oras.client import OrasClient
OrasClient(insecure=True, tls_verify=False).push(target=sys.argv[1], files=sys.argv[2:])
`

// TestOras opens what oras has pushed. PYTHON_ORAS names a Python that has it.
func TestOras(t *testing.T) {
	python := os.Getenv("PYTHON_ORAS")
	if python == "" || exec.Command(python, "-c", "import oras").Run() != nil {
		t.Skip("PYTHON_ORAS names no Python with oras")
	}
	environment(t)
	r := startRegistry(t, nil)
	dir, data := t.TempDir(), bytesOf(size, 7)
	for name, content := range map[string][]byte{"model.safetensors": weights("w", data), "config.json": []byte(`{"hidden_size": 64}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-c", orasPush, r.host+"/pushed/by-oras:v1", "model.safetensors:application/vnd.cncf.model.weight.v1.raw", "config.json:application/json")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := open(t, "oci://"+r.host+"/pushed/by-oras:v1")
	want(t, m, "w", data)
	configured(t, m)
}
