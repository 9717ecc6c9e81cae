#!/usr/bin/env python3
"""Holds what tensormap reads and writes of testdata/quantized against the values that the writers' own code reads.

    pip install numpy==2.4.6 safetensors==0.8.0
    python testdata/outside/check_quantized.py TENSORMAP   # make outside runs it

Every weight is dumped, and every checkpoint converted to F32, which Python's safetensors reads. The exit status is 1 at a difference.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from safetensors.numpy import load_file
except ImportError as err:
    print(f"SKIPPED {sys.argv[0]}: {err}")
    sys.exit(0)

QUANTIZED = pathlib.Path(__file__).resolve().parent.parent / "quantized"
weights = differences = 0


def hold(got, want, *where):
    global weights, differences
    weights += 1
    if got is None or got.shape != want.shape or not (got == want).all():
        differences += 1
        print("DIFFERENT:", *where)


with tempfile.TemporaryDirectory() as tmp:
    for path in sorted(QUANTIZED.glob("*/expected.safetensors")):
        folder, out = path.parent, pathlib.Path(tmp, "out.safetensors")
        (model,) = [p for n in ("model.safetensors", "model.safetensors.index.json", "model.gguf") if (p := folder / n).exists()]
        subprocess.run([sys.argv[1], "convert", model, out, "--dtype", "f32"], check=True, capture_output=True)
        converted = load_file(out)
        for name, want in load_file(path).items():
            raw = subprocess.run([sys.argv[1], "dump", model, name], check=True, capture_output=True).stdout
            hold(np.frombuffer(raw, "<f4").reshape(want.shape), want, folder.name, name, "dump")
            hold(converted.get(name), want, folder.name, name, "convert")
print(f"{weights:,} weights of quantized checkpoints, {differences} differences")
sys.exit(differences > 0)
