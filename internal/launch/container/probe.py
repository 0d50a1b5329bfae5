"""Says whether a program would find its modules, and whose swarmlearning, importing none of them."""

import glob
import importlib.util
import os
import sys

program, module = sys.argv[1:]
if program:  # what lies beside a program is found first
    sys.path.insert(0, os.path.dirname(program))


def find(name):
    try:
        return "yes" if importlib.util.find_spec(name) else "no"
    except (ImportError, ValueError):
        return "no"


def package():
    """Whose package a program would import, and where that is: ours, the original's, another's, or none."""
    try:
        spec = importlib.util.find_spec("swarmlearning")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "no", ""
    where = next(iter(spec.submodule_search_locations or [spec.origin or ""]))
    # As launch.FindPackage and launch.OriginalBeside tell them apart.
    for whose, module in (("ours", "_params.py"), ("original", "swifrpc_pb2.py"), ("original", "*/swifrpc_pb2.py")):
        if glob.glob(os.path.join(glob.escape(where), module)):
            return whose, where
    return "other", where


print("swarmd-probe python", ".".join(str(n) for n in sys.version_info[:3]))
whose, where = package()
print("swarmd-probe package", whose)
if where:
    print("swarmd-probe package-at", where)
if module:
    print("swarmd-probe framework", find(module))
