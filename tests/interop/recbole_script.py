"""Runs inside RecBole's environment: our vectors into its models, then one step of training.

usage: recbole_script.py MODEL DATA_FOLDER EMBEDDINGS_FOLDER OUT_FOLDER
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, init_seed

import leporid
from leporid.interop import INITIALIZE_LINES


def main() -> None:
    """Save the tables before and after one step, and what RecBole read from its own files."""
    name, data, vectors, out = sys.argv[1], *map(Path, sys.argv[2:5])
    sys.argv = sys.argv[:1]
    settings = {
        "data_path": str(data),
        "embedding_size": 6,
        "use_gpu": False,
        "state": "ERROR",
        "train_batch_size": 64,
        "node_dropout": 0.0,
        "message_dropout": 0.0,
    }
    config = Config(
        model=name,
        dataset="toy",
        config_dict=settings,
        config_file_list=[str(data / "toy" / "recbole.yaml")],
    )
    logging.disable(logging.CRITICAL)
    init_seed(config["seed"], config["reproducibility"])
    dataset = create_dataset(config)
    np.save(out / "preload_users.npy", dataset.get_preload_weight("uid"))
    np.save(out / "preload_items.npy", dataset.get_preload_weight("iid"))
    train, _, _ = data_preparation(config, dataset)
    model = get_model(name)(config, train.dataset)
    ids = {
        side: [None, *dataset.field2id_token[field][1:].tolist()]
        for side, field in (("users", "user_id"), ("items", "item_id"))
    }
    # What `leporid embed --format recbole` prints runs as it is.
    known = {"leporid": leporid, "dataset": dataset, "model": model}
    exec(INITIALIZE_LINES % vectors, known)
    written = leporid.initialize(
        model,
        users="user_embedding",
        items="item_embedding",
        embeddings=vectors,
        id_map=ids,
        padding_idx=0,
        scale=0.1,
    )
    tables = {"users": model.user_embedding.weight, "items": model.item_embedding.weight}
    for side, table in tables.items():
        np.save(out / f"start_{side}.npy", table.detach().numpy())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = model.calculate_loss(next(iter(train)))
    loss.backward()
    optimiser.step()
    for side, table in tables.items():
        np.save(out / f"after_{side}.npy", table.detach().numpy())
        np.save(out / f"slope_{side}.npy", table.grad.numpy())
    print(json.dumps({"written": written, "loss": float(loss), "ids": ids}))


if __name__ == "__main__":
    main()
