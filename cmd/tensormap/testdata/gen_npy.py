"""Writes small-a.npy and small-b.npy with NumPy 2.4.6: the tensors a.weight and b/bias of internal/test/modeltest's Small.

    pip install numpy==2.4.6 && python gen_npy.py
"""

import numpy as np

counting = np.arange(32, dtype=np.uint8)
np.save("small-a.npy", counting[:24].view("<f4").reshape(2, 3))
np.save("small-b.npy", counting[24:].view("<i2"))
