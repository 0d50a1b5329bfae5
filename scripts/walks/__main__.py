"""Walk as three new users would, on clean machines, and count what they type, write, carry and wait.

make walks, or scripts/walks/run [1] [2] [3]. Needs root and a container engine; some minutes.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

from machine import WalkError, make_image
from person1 import walk_1
from person2 import ends, hospitals, walk_2
from person3 import walk_3
from walk import ROOT, Walk


def source(folder):
    """Put the commit that is checked out where `git clone` finds it, and modules where Go fetches them."""
    subprocess.run(["git", "clone", "-q", "--bare", "--no-local", str(ROOT), folder / "swarmd.git"], check=True)
    head = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["git", "-C", folder / "swarmd.git", "update-ref", "--no-deref", "HEAD", head], check=True)
    subprocess.run(["chown", "-R", "1000", folder / "swarmd.git"], check=True)  # anna's, as git asks for
    cache = subprocess.run(
        ["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()
    go = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return [
        f"{folder}/swarmd.git:/source/swarmd.git:ro",
        f"{cache}/cache/download:/source/modules:ro",
        f"{go}:/usr/local/go:ro",
    ]


def spire(binaries, folder):
    """Give a folder with SPIRE's programs beside swarmd, as make spire makes it, which keeps what it built."""
    subprocess.run(["scripts/spire", binaries], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return shutil.copytree(binaries, folder / "hosts", symlinks=False)


def main():
    """Walk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("persons", nargs="*", type=int, default=[1, 2, 3], help="which persons walk (default: all)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "out" / "walks", help="folder for table, transcript and logs"
    )
    args = parser.parse_args()
    folder = args.out.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    walk = Walk(folder, "file:///source/modules")
    try:
        make_image()
        binaries = walk_1(walk, source(folder)) if 1 in args.persons else ROOT / "bin"
        if {2, 3} & set(args.persons):
            binaries = spire(binaries, folder)
            with hospitals(walk, binaries) as hosts:
                walk_2(walk, *hosts)
                if 3 in args.persons:
                    walk_3(walk, hosts[0], binaries)
                ends(walk, *hosts)
    except WalkError as failed:
        sys.exit(f"walks: {failed}\nwalks: all that was typed and printed is in {walk.transcript.name}")
    finally:
        walk.save()
    print(walk.table())


main()
