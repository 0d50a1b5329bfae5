#!/usr/bin/env bash
# Every Python test, in the environments that they need: pytest with torch, with TensorFlow, with transformers, and
# with SWARM_TEST_LONG with Keras 2 and with Horovod.
#
#   python/tools/test.sh [pytest options]
#
# SWARM_BIN names the folder with swarmd and swarmctl; without it they are built, or, without Go, what needs them is
# skipped by name, as is all of it where the system has no Python that makes environments. With SWARM_TEST_REQUIRE=all a
# skip is a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -z "${SWARM_BIN:-}" ] || { SWARM_BIN=$(cd "$OLDPWD" && cd "$SWARM_BIN" && pwd) && export SWARM_BIN; } || exit 1
status=0
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

run() { # run ENVIRONMENT [pytest options]: what runs in the other environment is left out, so that a skip is a true one
	local kind=$1 python code=0 suffix=
	[ -z "${SWARM_BASE_PYTHON:-}" ] || suffix=-${SWARM_BASE_PYTHON##*/}
	shift
	echo "== python ($kind${SWARM_BASE_PYTHON:+, $SWARM_BASE_PYTHON})"
	python=$(tools/env.sh "$kind") || code=$?
	if [ "$code" -eq 3 ] && [ "${SWARM_TEST_REQUIRE:-}" != all ]; then
		echo "skip python ($kind)"
		return
	elif [ "$code" -ne 0 ]; then
		status=1
		return
	fi
	"$python" -m pytest -q --junitxml="$reports/$kind$suffix.xml" "$@" || code=$?
	[ "$code" -eq 0 ] || status=1
}

interpreter() { # interpreter VERSION: the path of one, of the system or of pyenv
	local candidate
	for candidate in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1."*"/bin/python$1"; do
		if "$candidate" -c '' 2>/dev/null; then
			echo "$candidate"
			return
		fi
	done
	return 1
}

# A skip for want of a GPU would be one that CI does not allow.
cuda=(--ignore=tests/test_pyt_cuda.py)
[ ! -e /dev/nvidiactl ] || cuda=()
run dev --ignore-glob='tests/test_tf*.py' --ignore=tests/test_hf.py --ignore=tests/test_hvd.py "${cuda[@]}" "$@"
run tf tests/test_tf*.py "$@"
# The same with Keras 2, which knows no fixed loss scale.
[ -z "${SWARM_TEST_LONG:-}" ] || run tf-legacy tests/test_tf*.py -k 'not fixed_loss_scale' "$@"
run hf tests/test_hf.py "$@"
[ -z "${SWARM_TEST_LONG:-}" ] || run horovod tests/test_hvd.py "$@"
# What needs numpy alone, on the oldest and the newest interpreter, and on those between with SWARM_TEST_LONG.
# tests/test_package.py checks the syntax where one is missing.
others=(--ignore=tests/real --ignore=tests/test_experiments.py --ignore=tests/test_hf.py --ignore=tests/test_sklearn.py --ignore=tests/test_package.py)
others+=(--ignore=tests/test_hvd.py --ignore-glob='tests/test_tf*.py' --ignore-glob='tests/test_pyt*.py')
versions='3.8 3.13'
[ -z "${SWARM_TEST_LONG:-}" ] || versions='3.8 3.9 3.10 3.12 3.13'
for version in $versions; do
	if found=$(interpreter "$version"); then
		SWARM_BASE_PYTHON=$found run numpy "${others[@]}" "$@"
	else
		echo "skip python $version: there is no python$version"
	fi
done
if [ "${SWARM_TEST_REQUIRE:-}" = all ] && grep -qs '<skipped' "$reports"/*.xml; then
	echo 'python: tests were skipped, and SWARM_TEST_REQUIRE=all' >&2
	status=1
fi
exit $status
