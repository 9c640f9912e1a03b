"""Sweeps that are small enough for a test, on a bed with a checkout; and what a run must leave behind: nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.pair.bed import DESK, PairBed
from tests.integration.pair.checkouts import Checkout
from tests.integration.pair.host import Host
from tests.integration.pair.tree import DEVICE, INTERFACE

SWEEP = {
    "sweep": "small",
    "recipe": "dspark-2x-spark",
    "knobs": {
        "checkpoint": "official-0731",
        "generation": "august",
        "num_speculative_tokens": [3, 5],
        "class": "code",
        "context_tokens": 256,
        "concurrency": 1,
        "cache": "cold",
        "output_tokens": 32,
        "temperature": 0.6,
        "top_p": 0.95,
    },
    "repeat": {"launches": 1, "drafts": 20},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Both hosts as they were before a run."""

    bed: PairBed
    checkout: Checkout
    head_files: str
    worker_files: str

    def require_restored(self) -> None:
        """No rank of ours, no file of ours, and every file of the operator as it was."""
        for host in self.bed.hosts:
            ours = [each.name for each in host.containers() if (each.project or "").startswith("harness")]
            assert ours == [], f"left on {host.name}: {ours}"
        assert self.bed.head.tree_hash(self.checkout.head_folder) == self.head_files
        assert self.bed.worker.tree_hash(self.checkout.worker_folder) == self.worker_files
        assert _files(self.bed.head, "~/.cache/harness") == []
        assert _files(self.bed.head, "~/harness/state/pairs") == []


def before(bed: PairBed, checkout: Checkout) -> Before:
    """Note how the hosts are now."""
    return Before(
        bed=bed,
        checkout=checkout,
        head_files=bed.head.tree_hash(checkout.head_folder),
        worker_files=bed.worker.tree_hash(checkout.worker_folder),
    )


def sweep_text(**knobs: Any) -> str:
    """Return the small sweep; ``knobs`` replace or add, None takes one out."""
    named = {**SWEEP["knobs"], **knobs}  # type: ignore[dict-item]
    return yaml.safe_dump({**SWEEP, "knobs": {name: value for name, value in named.items() if value is not None}})


def write_sweep(bed: PairBed, **knobs: Any) -> str:
    """Write the small sweep onto the head and return its name there."""
    bed.head.write(f"{DESK}/small.yaml", sweep_text(**knobs))
    return "small.yaml"


def site_text(checkout: Checkout, **keys: Any) -> str:
    """Return a site file."""
    return yaml.safe_dump({"checkout": checkout.head_folder, **keys})


def write_site(bed: PairBed, checkout: Checkout, **keys: Any) -> None:
    """Write the site file onto the head, where the harness looks for it."""
    bed.head.write("~/harness/config/harness/site.yaml", site_text(checkout, **keys))


def write_inventory(bed: PairBed, **keys: Any) -> None:
    """Write pair.yaml and a site file that names it, for launches without a checkout."""
    nodes = {
        host.name: {
            "ssh": "localhost" if host is bed.head else host.address,
            "address": host.address,
            "interfaces": {"socket": INTERFACE},
            "hca": DEVICE,
        }
        for host in bed.hosts
    }
    bed.head.write("~/desk/pair.yaml", yaml.safe_dump({**nodes, **keys}))
    bed.head.write("~/harness/config/harness/site.yaml", yaml.safe_dump({"inventory": f"{DESK}/pair.yaml"}))


def launches_of(bed: PairBed) -> list[dict[str, Any]]:
    """Return the launches of the newest run, as `show --json` has them."""
    shown = bed.harness("show", "latest", "--json")
    assert shown.code == 0, shown.err
    launches = json.loads(shown.out)["launches"]
    assert isinstance(launches, list)
    return launches


def cells_of(bed: PairBed) -> list[dict[str, Any]]:
    """Return the cells of the newest run."""
    cells = json.loads(bed.harness("show", "latest", "--json").out)["cells"]
    assert isinstance(cells, list)
    return cells


def _files(host: Host, folder: str) -> list[str]:
    path: Path = host.path(folder)
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()) if path.exists() else []


def journal(bed: PairBed) -> list[dict[str, Any]]:
    """Return the lines of the newest run's journal."""
    (*_, newest) = sorted(bed.head.path(DESK).glob("results/*/journal.jsonl"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def launch_logs(bed: PairBed) -> list[str]:
    """Return the text of the newest run's logs of head ranks, in the order of launches."""
    (*_, newest) = sorted(bed.head.path(DESK).glob("results/*/journal.jsonl"))
    paths = (newest.parent / "logs").glob("*.log")
    return [path.read_text() for path in sorted(paths) if not path.name.endswith(".worker.log")]
