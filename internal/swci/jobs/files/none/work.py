"""Count primes with several members: each takes a part, and rank 0 adds up what the others send it."""

import argparse
import os
import socket
import time

PORT = 9000


def primes(first, last, step):
    return sum(n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(first, last, step))


def send(address, count):
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection((address, PORT), timeout=10) as peer:
                peer.sendall(str(count).encode())
                return
        except ConnectionError:  # rank 0 listens a moment later
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def collect(server, others):
    total = 0
    for _ in range(others):
        peer, _ = server.accept()
        with peer:
            total += int(peer.makefile().read())
    return total


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--upto", type=int, default=10000)
    upto = options.parse_args().upto
    rank, size = int(os.environ["SWARM_NODE_RANK"]), int(os.environ["SWARM_NUM_NODES"])
    if rank > 0:
        count = primes(rank, upto, size)
        print(f"rank {rank} of {size}: {count}")
        send(os.environ["SWARM_MAIN_IP"], count)
        return
    with socket.create_server((os.environ["SWARM_NODE_IP"], PORT), backlog=size) as server:
        count = primes(rank, upto, size)
        print(f"rank {rank} of {size}: {count}")
        print(f"primes below {upto}: {count + collect(server, size - 1)}")


if __name__ == "__main__":
    main()
