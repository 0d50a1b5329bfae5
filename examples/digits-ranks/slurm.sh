#!/bin/bash
# A peer of four ranks on two hosts of a Slurm cluster: sbatch slurm.sh
#
# Slurm runs this script on the job's first host, which gets rank 0; so the peer's node runs here too, as long as the job does. Its state
# lies in a folder that all hosts see: the node stays the same wherever the next job runs, and the other ranks find the package there.
#SBATCH --job-name=hospital-a
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
set -euo pipefail
# Not by "| head": a scontrol that is still writing when head has ended would end this script.
read -r first < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
log=$PWD/sl-$SLURM_JOB_ID.log

swarmd run-sl --name "${PEER:-hospital-a}" --host-ip "${HOST_IP:-$first}" --sn-ip "${SN:?name an SN of the swarm}" \
  --state-dir "${STATE:-$HOME/swarmd/hospital-a}" --bridge-dir "/dev/shm/swarmd-$SLURM_JOB_ID" --attach >"$log" 2>&1 &
node=$!
trap 'kill "$node" && wait "$node" || true' EXIT

# The line with the bridge and the package comes when the node has joined.
until line=$(grep '^export SWARM_BRIDGE_DIR=' "$log"); do
  kill -0 "$node" || { tail -n 5 "$log" >&2; exit 1; }
  sleep 1
done
eval "$line"
# torchrun of torch 1.13 fails on Python 3.11 without these.
export PET_REDIRECTS=1 PET_TEE=1

# A rank that fails ends all of them, and the job with its exit code.
srun --kill-on-bad-exit=1 bash -c 'exec torchrun --nnodes="$SLURM_NNODES" --node_rank="$SLURM_NODEID" \
  --master_addr="$1" --master_port="${MASTER_PORT:-29500}" --nproc_per_node="${RANKS:-2}" train.py' bash "$first"
