#!/bin/sh
# Says in lines "swarmd-probe KEY VALUE" what only a container can tell. It needs no more than a POSIX shell.
# Arguments: Python code, Python's name, data directory, model directory, program, framework's module, "gpus" if any were
# asked for, and the targets of the user's mounts. Empty: not asked for.
code=$1 python=$2 data=$3 model=$4 program=$5 module=$6 gpus=$7
shift 7
say() { echo "swarmd-probe $*"; }
owner() { stat -Lc "swarmd-probe owner-$1 %u:%g" "$2" 2>/dev/null; }
say begin yes

if [ -n "$data" ]; then
	if [ -r "$data" ] && [ -x "$data" ] && ls "$data" >/dev/null 2>&1; then
		say data yes
		ls "$data" 2>/dev/null | head -n 100 | while IFS= read -r name; do
			[ -r "$data/$name" ] || { say data-unreadable "$name"; break; }
		done
	else
		say data no
		owner data "$data"
	fi
fi
if [ -n "$model" ]; then
	file="$model/.swarmd-probe-$$"
	if (: >"$file") 2>/dev/null; then
		rm -f "$file"
		say model yes
	else
		say model no
		owner model "$model"
	fi
fi
if [ -n "$program" ]; then
	if [ ! -e "$program" ]; then
		say program missing
	elif [ -d "$program" ] || [ ! -r "$program" ]; then
		say program no
		owner program "$program"
	else
		say program yes
	fi
fi
shm=$(df -kP /dev/shm 2>/dev/null | tail -n 1)
[ -n "$shm" ] && say shm $shm

for target in "$@"; do
	for s in "$target" "$target"/*.sock "$target"/*/*.sock "$target"/*/*/*.sock; do
		[ -S "$s" ] && say socket "$(stat -Lc %d:%i "$s" 2>/dev/null || echo 0:0)" "$target" "$s"
	done
done

if command -v "$python" >/dev/null 2>&1; then
	"$python" -c "$code" "$program" "$module" || say python-failed $?
else
	say python-missing yes
fi
if [ -n "$gpus" ]; then
	say gpu-list begin
	nvidia-smi -L 2>&1
	say gpu-exit $?
fi
say end yes
