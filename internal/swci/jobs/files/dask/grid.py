"""Search a grid with Dask: the workers evaluate points, this program keeps the best."""

import argparse

from distributed import Client


def cost(x):
    return (x - 1.5) ** 2


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--points", type=int, default=100)
    points = options.parse_args().points
    with Client() as client:  # DASK_SCHEDULER_ADDRESS says where
        grid = [i / 50 for i in range(points)]
        costs = client.gather(client.map(cost, grid))
        best = min(range(points), key=costs.__getitem__)
        print(f"{len(client.scheduler_info()['workers'])} workers, best {grid[best]} with {costs[best]:.4f}")


if __name__ == "__main__":
    main()
