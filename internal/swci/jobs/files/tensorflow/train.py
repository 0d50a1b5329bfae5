"""Train a small network under a MultiWorkerMirroredStrategy, on data that each worker makes up for itself."""

import argparse
import hashlib

import numpy as np
import tensorflow as tf


def data(rank):
    x = np.random.default_rng(rank).normal(size=(512, 8)).astype("float32")
    return x, (x.sum(axis=1, keepdims=True) > 0).astype("float32")


def digest(model):
    """Equal on all workers if the parameters are."""
    values = b"".join(weight.tobytes() for weight in model.get_weights())
    return hashlib.sha256(values).hexdigest()[:16]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=3)
    epochs = options.parse_args().epochs
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # TF_CONFIG says where the others are
    me = strategy.cluster_resolver
    name = f"{me.task_type} {me.task_id}"
    x, y = data(me.task_id)
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]
        )
        optimizer = tf.keras.optimizers.SGD(0.5)
        optimizer.build(model.trainable_variables)
    loss_function = tf.keras.losses.BinaryCrossentropy(from_logits=True)

    # A loop of its own: fit of Keras 3 can't train under this strategy.
    @tf.function
    def step(x, y):
        def replica(x, y):
            with tf.GradientTape() as tape:
                loss = loss_function(y, model(x, training=True)) / strategy.num_replicas_in_sync
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, (x, y)), axis=None)

    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            loss = step(tf.constant(x[start : start + 32]), tf.constant(y[start : start + 32]))
        print(f"{name} of {strategy.num_replicas_in_sync}: epoch {epoch + 1}, loss {loss.numpy():.4f}")
    print(f"{name}: model {digest(model)}")


if __name__ == "__main__":
    main()
