"""Says whether a program would find its modules, importing none of them."""

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


print("swarmd-probe python", ".".join(str(n) for n in sys.version_info[:3]))
print("swarmd-probe package", find("swarmlearning"))
if module:
    print("swarmd-probe framework", find(module))
