"""Writes imatrix.gguf with the Python package gguf 0.19.0, in the form of llama.cpp's llama-imatrix:

    pip install gguf==0.19.0 numpy==2.4.6
    python gen_imatrix.py
"""

import gguf
import numpy as np

rng = np.random.default_rng(15)
w = gguf.GGUFWriter("imatrix.gguf", "")
w.add_type("imatrix")
w.add_array("imatrix.datasets", ["text"])
w.add_uint32("imatrix.chunk_count", 2)
w.add_uint32("imatrix.chunk_size", 512)
w.add_tensor("w.in_sum2", rng.chisquare(1, (1, 256)).astype("<f4") * 100)
w.add_tensor("w.counts", np.array([[1024]], "<f4"))
w.add_tensor("experts.in_sum2", rng.chisquare(1, (2, 256)).astype("<f4"))
w.add_tensor("experts.counts", np.array([[4], [0]], "<f4"))  # the second met no input
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
