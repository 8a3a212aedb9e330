"""The one training loop of all neural models: samplers, schedules, checkpoints."""
