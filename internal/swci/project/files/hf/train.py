"""Train a small transformer with Hugging Face's Trainer in a swarm. What is marked "swarm" makes the program a peer.

./run.sh runs it at three peers; without a swarm: SWARM_LOOPBACK=true, with swarmlearning installed.
"""

import os
import pathlib

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from data import CLASSES, LENGTH, WORDS, load

try:
    from swarmlearning.hf_transformers import SwarmCallback  # swarm
except ModuleNotFoundError as missing:
    if missing.name != "swarmlearning":
        raise
    raise SystemExit("train.py: start it with ./run.sh, which brings the swarmlearning package along") from None

EPOCHS, BATCH, SYNC_FREQUENCY = 8, 16, 4


def main():
    set_seed(1)
    train, test = load()
    # A model that is made here, so that nothing is fetched; yours is more likely from_pretrained("...").
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
    )
    model = BertForSequenceClassification(config)
    folder = pathlib.Path(os.environ.get("MODEL_DIR", "."))

    # swarm: merge with the peers every SYNC_FREQUENCY steps; adsValData measures the merged model
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=EPOCHS,
        adsValData=test,
        adsValBatchSize=256,
    )
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=train, callbacks=[swarm]).train()  # swarm: the callback

    model.save_pretrained(folder / "model")


if __name__ == "__main__":
    main()
