"""Runs inside RecBole's environment: seconds of its own training epochs on ML-100K.

usage: recbole_trainer.py MODEL EPOCHS THREADS BATCH_SIZE DIM
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed


def main() -> None:
    """Train a few epochs, time each, print one line of JSON."""
    # RecBole writes logs and folders wherever it is started.
    os.chdir(tempfile.mkdtemp())
    name, epochs, threads, batch_size, dim = sys.argv[1], *map(int, sys.argv[2:6])
    sys.argv = sys.argv[:1]
    settings = {
        "train_batch_size": batch_size,
        "embedding_size": dim,
        "hidden_size": dim,
        "mf_embedding_size": dim,
        "mlp_embedding_size": dim,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {
            "split": {"RS": [0.7, 0.1, 0.2]},
            "group_by": "user",
            "order": "TO",
            "mode": "full",
        },
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
        "save_dataset": False,
        "save_dataloaders": False,
    }
    if name in ("SASRec", "HGN"):
        # Their default loss is a softmax over all items, which draws no negatives.
        settings["train_neg_sample_args"] = None
    config = Config(model=name, dataset="ml-100k", config_dict=settings)
    logging.disable(logging.CRITICAL)
    init_seed(config["seed"], config["reproducibility"])
    torch.set_num_threads(threads)
    train, _, _ = data_preparation(config, create_dataset(config))
    model = get_model(name)(config, train.dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    seconds, processor = [], []
    for epoch in range(epochs):
        start, busy = time.perf_counter(), time.process_time()
        trainer._train_epoch(train, epoch, show_progress=False)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
    print(json.dumps({"seconds": seconds, "processor": processor, "batches": len(train)}))


if __name__ == "__main__":
    main()
