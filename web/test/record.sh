#!/usr/bin/env bash
# Records documents of a real swarm for the tests of the page: three SNs, three SLs and a SWOP on loopback addresses. One SL
# is killed, another banned, and a host asks for approval. Run it after make build, with another directory or none; it takes
# a minute. The clock of the
# tests (moment in documents.mjs) and the last rounds of the stages are to be set by hand afterwards.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD work=$(mktemp -d) out=${1:-$PWD/web/test/fixtures}
export HOME=$work XDG_CONFIG_HOME=$work/config PATH=$root/bin:$PATH
python=$(scripts/demo-python)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
"$python" examples/digits-pyt/split.py --peers 3 --out "$work/shards" >/dev/null
id() { echo "embedded=$work/authority${1:+/$1}"; }
swarmd run-authority --dir "$work/authority" >"$work/authority.log" 2>&1 &
sleep 1
sn() { swarmd run-sn --name "sn-$1" --host-ip "127.0.41.$1" --identity "$(id)" --state-dir "$work/sn-$1" "${@:2}" >"$work/sn-$1.log" 2>&1 & }
sl() {
  cp -r examples/digits-pyt "$work/model-$1"
  swarmd run-sl --name "sl-$1" --host-ip "127.0.41.2$1" --sn-ip 127.0.41.1 --sn-ip 127.0.41.2 --sn-ip 127.0.41.3 --identity "$(id)" --state-dir "$work/sl-$1" \
    --sl-platform PYT --python "$python" -e MAX_EPOCHS="${EPOCHS:-60}" -e MIN_PEERS=2 -e PYTHONPATH="$root/python" --data-dir "$work/shards/$1" --model-dir "$work/model-$1" --model-program train.py >"$work/sl-$1.log" 2>&1 &
  echo $! >"$work/sl-$1.pid"
}
ctl() { swarmctl "$@" --sn 127.0.41.1:30304 --identity "$(id)"; }
contract=defaultbb.cqdb.sml.hpe
record() { # record STAGE
  mkdir -p "$out/$1"
  save() { ctl "${@:2}" -o json >"$out/$stage/$1.json" 2>"$work/err" || { [ -s "$out/$stage/$1.json" ] || cat "$work/err"; }; }
  local stage=$1
  save nodes list nodes
  save health get health
  save contracts list contracts
  save contract get contract status $contract
  save explain explain contract $contract
  save info get contract info $contract
  save models list models $contract
  save tasks list tasks
  save assignments list assignments
  save approvals list approvals
  save jobs list jobs
  save audit audit
  save rights get rights
  save identity identity
}
sn 1 --sentinel
sleep 2
sn 2 --sentinel-ip 127.0.41.1
sn 3 --sentinel-ip 127.0.41.1
sleep 3
mkdir -p "$work/usr"
cat >"$work/usr/profile.yaml" <<'P'
groupname: hospital-b
taskrunner: defaulttaskbb.taskdb.sml.hpe
policyuri: policy.yaml
network: none
resourcemgr:
apls:
apisrv:
  locator:
    host: 127.0.41.1
    port: null
    service: null
envvars: null
nodes:
  - slnodedef:
      idx: 0
      identity: null
      slhostname: null
      usrhostname: null
      slhostip: 127.0.41.31
      slport: null
      privatedata: null
      slenvvars: null
      usrenvvars: null
P
cat >"$work/usr/policy.yaml" <<'P'
ask: true
approvers:
- spiffe://swarm.learning/swarm/swci/*
sentences:
- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='process'}
P
swarmd run-swop --name swop-1 --host-ip 127.0.41.30 --usr-dir "$work/usr" --profile-file-name profile.yaml --identity "$(id)" --state-dir "$work/swop-1" --ml-runtime process --host-label site=b >"$work/swop.log" 2>&1 &
ctl create contract $contract --min-peers 2 --expected-peers 3 --require sl-0 --export || true
sl 0
sleep 6
record waiting
sl 1
sl 2
cat >"$work/train.yaml" <<'T'
Name: train
TaskType: RUN_SWARM
Author: me
Prereq: ROOTTASK
Outcome: none
Body:
  Entrypoint: python3
  Command: train.py
  WorkingDir: /platform/data
  PrivateContent: null
  SharedContent: null
  Envvars: ["MIN_PEERS": 2]
T
ctl create task from "$work/train.yaml" && ctl finalize task train && ctl assign task train to defaulttaskbb.taskdb.sml.hpe with all peers || true
for i in $(seq 200); do # how losses change while it trains, for curves
  ctl get contract status $contract -o json 2>/dev/null | tr -d '\n' >>"$work/polled.jsonl" && echo >>"$work/polled.jsonl"
  round=$(tail -n 1 "$work/polled.jsonl" | "$python" -c 'import json,sys;d=json.load(sys.stdin);print((d["committed"] or {"round":0})["round"], d["phase"])')
  set -- $round
  [ "$1" -ge 25 ] && [ ! -e "$work/recorded" ] && touch "$work/recorded" && record training
  if [ "$1" -ge 60 ] && [ ! -e "$work/killed" ]; then
    touch "$work/killed"
    kill -9 "$(cat "$work/sl-2.pid")"
    ctl ban node sl-1 --reason 'laptop was stolen'
    sleep 25
    record trouble
    ctl unban node sl-1
    EPOCHS=60 sl 1
  fi
  [ "$2" = completed ] && break
  sleep 0.3
done
sleep 2
record done
node web/test/history.mjs "$work/polled.jsonl" >"$out/history.json"
"$python" -c 'import json, sys; json.dump([{"host": "sl-0", "from": "", "text": l} for l in sys.stdin.read().splitlines()[-60:]], sys.stdout, indent=0)' <"$work/sl-0.log" >"$out/log.json"
