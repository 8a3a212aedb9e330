"""Recipes of DLR2: named settings, and what `general` changes by the kind of log."""

from leporid.models.neural.settings import Recipes
from leporid.models.registry import GENERAL

RECIPES: Recipes = {
    "paper": {
        "init_scale": 1.0,
        "metric": "F1@10",
    },
    "authors": {
        "last_relu": False,
        "margin": 0.5,
        "freeze_init": True,
        "padding": "none",
        "max_history": 5,
        "ranking_distance": "absolute",
        "batch_size": 32,
        "steps": 5000,
        "metric": "Precision@1",
        "eval_every": 100,
    },
    "softmax": {
        "objective": "softmax",
        "max_history": 10,
        "inference": "mixture",
        "mixture": 0.3,
        "negatives": 64,
        "negative_kind": "hard",
        "item_bias": True,
        "image_dropout": 0.2,
        "feature_dropout": 0.3,
        "init_scale": 0.3,
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "schedule": "one-cycle",
        "clip_norm": 1.0,
        "ema_decay": 0.999,
        "batch_size": 512,
        "steps": 10000,
        "metric": "F1@10",
    },
    "general": GENERAL
    | {
        "objective": "softmax",
        "losses": "generative",
        "inference": "generative",
        "channels": 8,
        "max_history": 5,
        "padding": "mask",
        "profile_items": 50,
        "learn_input_scale": True,
        "shortcut": True,
        "item_bias": True,
        "label_smoothing": 0.2,
        "linear_weight": "auto",
        "transitions_weight": "auto",
        "image_dropout": 0.3,
        "feature_dropout": 0.5,
        "user_dropout": 0.95,
        "optimizer": "adamw",
        "lr": 3e-3,
        "weight_decay": 0.3,
        "clip_norm": 1.0,
        "batch_size": 512,
        "precision": "bf16",
    },
}
"""Settings by the name of the recipe."""

GENERAL_BY_KIND: Recipes = {
    "small": {"batch_size": 256},
    "large": {
        "channels": 32,
        "eval_every": 250,
    },
    "large with long histories in order": {
        "max_history": 20,
        "user_dropout": 0.5,
        "label_smoothing": 0.0,
        "weight_decay": 0.1,
    },
    "large without order": {
        "circular": True,
        "channels": 8,
        "max_history": 1,
        "profile_items": 200,
    },
}
"""Changes of the recipe `general` by the kind of log."""
