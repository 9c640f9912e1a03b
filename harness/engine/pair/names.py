"""What the files of a checkout are called."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import InputError
from harness.recipe.pair import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutNames:
    """What the files of a checkout are called; kept with what has to be put back, so that no recipe is needed then."""

    start: str
    stop: str
    validate: str | None
    smoke: str | None
    env_file: str
    compose_file: str
    service: str
    speculative_flag: str
    already_running: int  # the exit code of start


def names_of(data: Pair) -> CheckoutNames:
    """Return the names that a recipe gives. Raises InputError where it has no way through a checkout."""
    checkout = data.checkout
    if checkout is None:
        raise InputError("the recipe cannot be launched through a checkout", hint="Leave `checkout` out.")
    return CheckoutNames(
        start=checkout.scripts.start,
        stop=checkout.scripts.stop,
        validate=checkout.scripts.validate_,
        smoke=checkout.scripts.smoke,
        env_file=checkout.env_file,
        compose_file=checkout.compose_file,
        service=data.service,
        speculative_flag=checkout.speculative_flag,
        already_running=checkout.exit_already_running,
    )
