"""The only place where numbers become text, and text with a unit becomes a number. SI inside."""

from __future__ import annotations

import re
from decimal import Decimal

_DURATION_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TOKENS = {"": 1, "K": 1024, "M": 1024 * 1024}
MISSING = "–"


def format_seconds(seconds: float | None) -> str:
    """Return a duration at a precision that a reader can use: 0.0139 -> "13.9 ms", 75 -> "1 min 15 s"."""
    if seconds is None:
        return MISSING
    if seconds < 0:
        return f"-{format_seconds(-seconds)}"
    if seconds < 1:
        return f"{_significant(seconds * 1000)} ms"
    if seconds < 60:
        return f"{_significant(seconds)} s"
    return _format_clock(seconds)


def _format_clock(seconds: float) -> str:
    whole = round(seconds)
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{round(whole / 60)} min"
    hours, rest = divmod(round(whole / 60), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def format_rate(per_s: float | None) -> str:
    """Return tokens per second with three significant digits."""
    return MISSING if per_s is None else _significant(per_s)


def format_ratio(ratio: float | None) -> str:
    """Return a share of one as a percentage: 0.0312 -> "3.1 %"."""
    return MISSING if ratio is None else f"{ratio * 100:.1f} %"


def format_change(ratio: float | None) -> str:
    """Return a ratio to a reference as a signed change: 1.12 -> "+12.0 %"."""
    return MISSING if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def format_number(value: float | None) -> str:
    """Return a plain number with three significant digits, whole above 1000."""
    return MISSING if value is None else _significant(value)


def format_tokens(tokens: int | None) -> str:
    """Return a token count as sweeps spell it: 131072 -> "128K"."""
    if tokens is None:
        return MISSING
    if tokens >= 1024 and tokens % 1024 == 0:
        return f"{tokens // 1024}K"
    return str(tokens)


def format_bytes(count: float | None) -> str:
    """Return a size in binary units: 3650722201 -> "3.4 GiB"."""
    if count is None:
        return MISSING
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{_significant(count)} {unit}"
        count /= 1024
    return f"{_significant(count)} GiB"


def format_celsius(degrees: float | None) -> str:
    """Return a temperature in whole degrees: "61 °C"."""
    return MISSING if degrees is None else f"{degrees:.0f} °C"


def format_watts(watts: float | None) -> str:
    """Return a power with three significant digits: "38.2 W"."""
    return MISSING if watts is None else f"{_significant(watts)} W"


def format_mhz(mhz: float | None) -> str:
    """Return a clock in whole megahertz: "2411 MHz"."""
    return MISSING if mhz is None else f"{mhz:.0f} MHz"


def parse_seconds(text: str) -> float:
    """Return the seconds in "10m", "12h", "1h30m" or "250ms". Raises ValueError for anything else."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhd])", text)
    if not parts or re.sub(r"\d+(?:\.\d+)?\s*(?:ms|min|[smhd])\s*", "", text.strip()):
        raise ValueError(f"not a duration: {text!r} (write 30s, 10m, 12h or 1h30m)")
    return sum(float(number) * _DURATION_S[unit] for number, unit in parts)


def parse_tokens(text: str) -> int:
    """Return the tokens in "256", "8K" or "1M", K = 1024. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+)\s*([KM]?)", text.strip())
    if match is None:
        raise ValueError(f"not a token count: {text!r} (write 256, 8K or 128K; K = 1024)")
    return int(match[1]) * _TOKENS[match[2]]


def parse_ratio(text: str) -> float:
    """Return the share in "3%" or "0.03". Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    if match is None:
        raise ValueError(f"not a share: {text!r} (write 3% or 0.03)")
    return float(match[1]) / (100 if match[2] else 1)


def _significant(value: float) -> str:
    """Three significant digits without an exponent; whole from 100 on."""
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.0995 or magnitude == 0 else f"{Decimal(f'{value:.2g}'):f}"
