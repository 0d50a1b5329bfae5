"""Makes the pickles that the tests read, with this machine's numpy: python3 make.py, in this folder."""

import pickle

import numpy as np

backing = np.arange(12, dtype=np.float32).reshape(3, 4)
weights = {
    "c": backing,
    "fortran": np.asfortranarray(np.arange(24, dtype=np.float64).reshape(2, 3, 4)),
    "view": backing[:, ::2],
    "scalar": np.array(7, np.int64),
    "half": np.array([1.5, -2], np.float16),
    "bool": np.array([True, False, True]),
    "bytes": np.array([0, 127, 128, 255], np.uint8),
    "signed": np.array([-1, -128], np.int8),
    "empty": np.zeros((0, 3), np.float32),
    "long": np.array([2**63 - 1, -(2**63)], np.int64),
    "tied": backing,
    "ünï": np.float32(np.ones(1)),
}
for protocol in range(2, 6):
    with open(f"p{protocol}.pkl", "wb") as f:
        pickle.dump(weights, f, protocol=protocol)
with open("readonly.pkl", "wb") as f:
    frozen = np.arange(300, dtype=np.float32)
    frozen.flags.writeable = False
    pickle.dump({"frozen": frozen}, f, protocol=5)
