"""Is a configuration so clearly behind that the rest of its launch would be wasted? Pure.

All cells of a launch share its luck, so that a test over cells alone calls an equal configuration worse in a third of
all launches. A launch is therefore cut only where it is behind by more than launches can differ as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from harness.records.observation import CellObservation

LEAST_CELLS = 6
_CLEARLY_LOG = -0.06  # twice what launches differ by
_P = 0.1


def is_behind(reference: Mapping[str, CellObservation], candidate: Mapping[str, CellObservation]) -> bool:
    """Return whether a launch may be cut: Wilcoxon's signed ranks over cells, and a median that launches do not fake.

    Args:
        reference: the incumbent's cells, by load id.
        candidate: those measured so far.
    """
    both = [name for name in candidate if name in reference]
    if len(both) < LEAST_CELLS:
        return False
    ratios = np.array([math.log(reference[name].tpot_s / candidate[name].tpot_s) for name in both])
    if float(np.median(ratios)) >= _CLEARLY_LOG:
        return False
    return bool(stats.wilcoxon(ratios, alternative="less").pvalue < _P)
