#!/bin/sh
# Trains model/train.py at three peers of a swarm on this machine. Options that you give are added.
cd "$(dirname "$0")" || exit 1
[ -n "${SWARMCTL:-}" ] || SWARMCTL=@SWARMCTL@
exec "$SWARMCTL" @ARGUMENTS@ "$@"
