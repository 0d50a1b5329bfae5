#!/bin/sh
# Makes (once) the Python environment named by its argument and prints the path of its interpreter.
#
#   python/tools/env.sh dev|tf|tf-legacy|hf|horovod|ray|s3|ads|mlflow|numpy
#
# dev: tests, mypy and ruff, on top of the system's packages, where Debian's torch and scikit-learn are.
# tf:  tensorflow-cpu, tf-keras and scikit-learn from PyPI, alone.
# tf-legacy: the newest TensorFlow whose Keras is Keras 2, likewise.
# numpy: what the package needs and pytest, alone, for other interpreters.
# hf:  transformers and peft, without their dependencies, on top of the system's packages.
# ray: Ray Train, likewise.
# ads: Oracle's ads opctl and Dask, alone.
# mlflow: a server of MLflow's, alone.
# s3: s3fs, by which programs of jobs read and write object storage, alone.
# horovod: Horovod for PyTorch, on top of the system's packages; it is compiled, which takes minutes.
#
# An environment lives in ${SWARM_CACHE:-$HOME/.cache/swarmd} under a key made of the requirement file's content and
# the interpreter's version, so clones share it and a changed file makes a new one. SWARM_BASE_PYTHON names another
# interpreter than /usr/bin/python3. Safe to run twice at once: the first one to finish wins. It exits with 3 where the
# system must be changed first, and says how.
set -eu

kind=${1:-}
install= compiled=
case "$kind" in
dev) options=--system-site-packages ;;
tf | tf-legacy | numpy | s3 | ads | mlflow) options= ;;
hf | ray) options=--system-site-packages install=--no-deps ;;
horovod) options=--system-site-packages compiled=horovod ;;
*)
	echo "usage: $0 dev|tf|tf-legacy|hf|horovod|ray|s3|ads|mlflow|numpy" >&2
	exit 2
	;;
esac

here=$(cd "$(dirname "$0")" && pwd)
requirements=$here/../requirements/$kind.txt
base=${SWARM_BASE_PYTHON:-}
if [ -z "$base" ]; then
	base=/usr/bin/python3
	[ -x "$base" ] || base=$(command -v python3) || base=
fi
if [ -z "$base" ] || ! "$base" -c 'import ensurepip, venv' >/dev/null 2>&1; then
	echo "$0: no Python that makes environments: install Debian's python3-venv" >&2
	exit 3
fi

if [ -n "$compiled" ] && ! "$base" -c '
import os, torch
open(os.path.join(torch.__path__[0], "include/torch/extension.h"))' >/dev/null 2>&1; then
	echo "$0: no torch that extensions can be compiled for: install Debian's python3-torch and libtorch-dev" >&2
	exit 3
fi

version=$("$base" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
key=$( (echo "$base $version $options"; cat "$requirements") | sha256sum | cut -c1-16)
cache=${SWARM_CACHE:-$HOME/.cache/swarmd}
target=$cache/venv-$kind-$key

if [ ! -e "$target/.ready" ]; then
	mkdir -p "$cache"
	# A venv can not be moved: it is built in its final place, under a lock, and marked ready last.
	exec 9>"$cache/venv-$kind-$key.lock"
	if command -v flock >/dev/null 2>&1; then flock 9; fi
	if [ ! -e "$target/.ready" ]; then
		rm -rf "$target"
		# shellcheck disable=SC2086 # options is a list, empty for tf.
		"$base" -m venv $options "$target" >&2 || {
			echo "$0: could not make the environment $target" >&2
			exit 1
		}
		pip="$target/bin/python -m pip --quiet --disable-pip-version-check"
		grep -v -e "^${compiled:-#}" -e '^tf-keras' "$requirements" | $pip install $install --requirement /dev/stdin >&2
		[ "$kind" != tf ] || $pip install --no-deps --requirement "$requirements" >&2
		if [ -n "$compiled" ]; then
			# Against the packages that are there, not newer ones that pip would fetch for the build. g++ 12 wants cstdint named.
			HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
				CPATH=$("$target/bin/python" -c 'import pybind11; print(pybind11.get_include())') CXXFLAGS='-include cstdint' MAKEFLAGS=-j2 \
				$pip install --no-deps --no-build-isolation "$(grep "^$compiled" "$requirements")" >&2
		fi
		touch "$target/.ready"
	fi
	exec 9>&-
fi
echo "$target/bin/python"
