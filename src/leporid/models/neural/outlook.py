"""`Outlook`: where a training stands after a step, and when it can end."""

from dataclasses import dataclass

from leporid.foundation import duration
from leporid.models.context import BestBaseline


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a line of progress tells about a training."""

    step: int
    last_step: int
    """The step at which the training ends at the latest."""
    loss: float
    """Mean loss of the latest steps."""
    seconds_per_step: float
    """Seconds of the latest steps, validations included."""
    first_validation: int = 0
    """Step of the first validation; 0 if nothing is validated."""
    best_metric: float | None = None
    best_step: int = 0
    soonest_end: int | None = None
    """The step at which the training ends if no validation is better; None without patience."""
    baseline: BestBaseline | None = None
    """What the best validation is compared with."""
    added_later: str = ""
    """What is added to the scores after the training; no validation has it yet."""

    def sentence(self) -> str:
        """Return the facts in the order in which people ask for them."""
        return f"step {self.step:,}, {self._standing()}; {self._end()}"

    def _standing(self) -> str:
        if self.best_metric is None:
            loss = f"loss {self.loss:.4g}"
            if self.first_validation:
                loss += f", first validation at step {self.first_validation:,}"
            return loss
        words = f"best {self.best_metric:.4f} at step {self.best_step:,}"
        if self.added_later:
            words += f" without the {self.added_later}"
        if self.baseline is not None:
            words += f", {self.baseline.standing(self.best_metric)}"
        return words

    def _end(self) -> str:
        latest = self._time_until(self.last_step)
        if self.soonest_end is None or self.soonest_end >= self.last_step:
            return f"ends at step {self.last_step:,} (about {latest})"
        soonest = self._time_until(self.soonest_end)
        return (
            f"stops at {self.soonest_end:,} if nothing improves (about {soonest}), "
            f"at most {self.last_step:,} ({latest})"
        )

    def _time_until(self, step: int) -> str:
        return duration((step - self.step) * self.seconds_per_step)
