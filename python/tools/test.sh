#!/usr/bin/env bash
# Every Python test, in the environments that they need: pytest with torch, with TensorFlow, and with transformers.
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
	local kind=$1 python code=0
	shift
	echo "== python ($kind)"
	python=$(tools/env.sh "$kind") || code=$?
	if [ "$code" -eq 3 ] && [ "${SWARM_TEST_REQUIRE:-}" != all ]; then
		echo "skip python ($kind)"
		return
	elif [ "$code" -ne 0 ]; then
		status=1
		return
	fi
	"$python" -m pytest -q --junitxml="$reports/$kind.xml" "$@" || code=$?
	[ "$code" -eq 0 ] || status=1
}

run dev --ignore-glob='tests/test_tf*.py' --ignore=tests/test_hf.py "$@"
run tf tests/test_tf*.py "$@"
run hf tests/test_hf.py "$@"
if [ "${SWARM_TEST_REQUIRE:-}" = all ] && grep -qs '<skipped' "$reports"/*.xml; then
	echo 'python: tests were skipped, and SWARM_TEST_REQUIRE=all' >&2
	status=1
fi
exit $status
