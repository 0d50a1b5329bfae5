# Ends with 0 if Ray's cluster has that number of nodes: ADDRESS NODES
import re
import subprocess
import sys

ray = [sys.executable, "-m", "ray.scripts.scripts"]
status = subprocess.run([*ray, "status", "--address", sys.argv[1]], capture_output=True, text=True)
sys.exit(len(re.findall("^ 1 node_", status.stdout, re.M)) < int(sys.argv[2]))
