"""Search a grid with Ray: tasks on all nodes evaluate points, this program keeps the best."""

import argparse

import ray


@ray.remote
def cost(x):
    return (x - 1.5) ** 2


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--points", type=int, default=100)
    points = options.parse_args().points
    ray.init()  # RAY_ADDRESS says where
    grid = [i / 50 for i in range(points)]
    costs = ray.get([cost.remote(x) for x in grid])
    best = min(range(points), key=costs.__getitem__)
    print(f"{len(ray.nodes())} nodes, best {grid[best]} with {costs[best]:.4f}")


if __name__ == "__main__":
    main()
