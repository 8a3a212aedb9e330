"""Runs inside RecBole's environment: its SASRec's lists after more and more seconds of training.

FOLDER has train.npy (int64[n, 2]: user, item, in order) and users.npy; top.npy (int32[points,
users, 10], -1 where there is nothing) is written there, and one line of JSON is printed.

usage: recbole_sasrec.py FOLDER SECONDS SETTINGS
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model, get_trainer, init_seed

sys.path.insert(0, str(Path(__file__).parent))
from curve import Curve, TimeOverError


def write_log(pairs: np.ndarray, folder: Path) -> None:
    """The log as RecBole reads it; the last item of everyone twice, since it holds that one out."""
    (folder / "log").mkdir()
    last = dict(pairs.tolist())
    rows = [*pairs.tolist(), *last.items()]
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    lines += [f"u{user}\ti{item}\t{when}" for when, (user, item) in enumerate(rows)]
    (folder / "log" / "log.inter").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Train, then rank with every copy."""
    source, seconds, settings = Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
    sys.argv = sys.argv[:1]
    pairs, users = np.load(source / "train.npy"), np.load(source / "users.npy")
    os.chdir(tempfile.mkdtemp())  # RecBole writes logs and folders wherever it is started
    write_log(pairs, Path.cwd())
    how = {
        "data_path": str(Path.cwd()),
        "hidden_size": settings["dim"],
        "n_layers": settings["layers"],
        "n_heads": settings["heads"],
        "MAX_ITEM_LIST_LENGTH": settings["max_history"],
        "hidden_dropout_prob": settings["dropout"],
        "attn_dropout_prob": settings["dropout"],
        "train_neg_sample_args": None,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {"split": {"LS": "test_only"}, "order": "TO", "mode": "full"},
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
    }
    config = Config(model="SASRec", dataset="log", config_dict=how)
    logging.disable(logging.CRITICAL)
    init_seed(0, True)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dataset = create_dataset(config)
    curve = Curve(seconds)
    train, *_ = data_preparation(config, dataset)
    model = get_model("SASRec")(config, train.dataset)
    trainer = get_trainer(config["MODEL_TYPE"], "SASRec")(config, model)
    loss = model.calculate_loss

    def watched(interaction: Interaction) -> torch.Tensor:
        curve.look(model)
        return loss(interaction)

    model.calculate_loss = watched
    epoch = 0
    try:
        while True:
            trainer._train_epoch(train, epoch, show_progress=False)
            epoch += 1
    except TimeOverError:
        pass
    np.save(source / "top.npy", lists(model, dataset, curve, pairs, users, settings["max_history"]))
    print(json.dumps({"seconds": curve.seconds, "version": version("recbole"), "epochs": epoch}))


@torch.no_grad()
def lists(
    model: object, dataset: object, curve: Curve, pairs: np.ndarray, users: np.ndarray, length: int
) -> np.ndarray:
    """Ten items nobody had yet for every user, by every copy of the weights."""
    tokens = dataset.field2id_token["item_id"]  # the first one is padding
    ours = np.array([-1, *(int(token[1:]) for token in tokens[1:])], np.int32)
    inner_of = {item: inner for inner, item in enumerate(ours.tolist())}
    history = {user: [] for user in users.tolist()}
    for user, item in pairs.tolist():
        if user in history:
            history[user].append(inner_of[item])
    seen = [history[user] for user in users.tolist()]
    recent = torch.zeros(len(users), length, dtype=torch.int64)
    for row, items in enumerate(seen):
        recent[row, : len(items[-length:])] = torch.tensor(items[-length:])
    count = torch.tensor([min(len(items), length) for items in seen])
    asked = Interaction({"item_id_list": recent, "item_length": count})
    model.eval()
    top = np.full((len(curve.seconds), len(users), 10), -1, np.int32)
    for point, weights in enumerate(curve.weights):
        model.load_state_dict(weights)
        scores = model.full_sort_predict(asked)
        scores[:, 0] = -torch.inf
        for row, items in enumerate(seen):
            scores[row, items] = -torch.inf
        top[point] = ours[scores.topk(10, dim=1).indices.numpy()]
    return top


if __name__ == "__main__":
    main()
