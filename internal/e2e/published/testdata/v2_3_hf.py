"""As the pages of release 2.3 have it, Hugging Face: the callback among those of a Trainer."""

import os

import numpy as np
import torch
from swarmlearning.hf_transformers import SwarmCallback
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/data")
    modelDir = os.getenv("MODEL_DIR", "/platform/model")
    min_peers = int(os.getenv("MIN_PEERS", "2"))
    max_epochs = int(os.getenv("MAX_EPOCHS", "2"))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    train_dataset = [{"input_ids": torch.tensor((row[:-1] * 100).astype(int)), "labels": int(row[-1])} for row in rows]
    config = BertConfig(vocab_size=101, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16)
    model = BertForSequenceClassification(config)
    swarmCallback = SwarmCallback(syncFrequency=2, minPeers=min_peers, useAdaptiveSync=False, model=model, hfMode="full", totalEpochs=max_epochs)
    args = TrainingArguments(
        output_dir=modelDir, num_train_epochs=max_epochs, per_device_train_batch_size=16, save_strategy="no", report_to=[], use_cpu=True
    )
    trainer = Trainer(model=model, args=args, train_dataset=train_dataset, callbacks=[swarmCallback])
    trainer.train()
    trainer.save_model(os.path.join(modelDir, "saved_model"))


if __name__ == "__main__":
    main()
