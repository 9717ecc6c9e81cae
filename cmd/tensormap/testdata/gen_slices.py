#!/usr/bin/env python3
"""Writes slices.json: what NumPy makes of slices of arrays that count up from 0.

    python3 gen_slices.py > slices.json     (NumPy 2.x)

A case without "values" is one that NumPy refuses.
"""
import itertools
import json
import random

import numpy as np

SHAPES = [(), (1,), (7,), (0,), (3, 4), (4, 0, 3), (2, 3, 4), (5, 1, 6), (2, 2, 3, 2)]
ITEMS = [":", "0", "1", "-1", "2", "-3", "9", "-9", "1:", ":1", "1:3", "-2:", ":-1", "2:1", "-99:99", "99:", "...",
         "-3:-1", " 1 : 2 ", "18446744073709551616:", ":-18446744073709551616", "0:0"]


def case(shape, spec):
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    try:
        got = eval("array[%s]" % (spec.strip() or "..."), {"array": array})
    except IndexError:
        return {"shape": shape, "slice": spec}
    return {"shape": shape, "slice": spec, "result": list(np.shape(got)), "values": np.ravel(got).tolist()}


def main():
    rng = random.Random(6)
    cases = []
    for shape in SHAPES:
        specs = [""] + ITEMS + [item + "," for item in ITEMS[:6]]
        for n in (2, 3, 4):
            every = list(itertools.product(ITEMS, repeat=n))
            specs += [",".join(items) for items in rng.sample(every, 40 if n <= len(shape) else 5)]
        cases += [case(shape, spec) for spec in specs]
    print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")


main()
