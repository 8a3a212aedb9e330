"""Attacks, bounded and on this machine only: whatever is broken is refused in one sentence."""
