"""Where the stand-ins of a host keep what they know, on that host. Shared by the bed, docker and vllm."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("/opt/standin")  # of a host; the bed sees it below the host's root
IN_CONTAINER = Path("/.standin")  # the same folder, as a container sees it

KEPT = "kept.json"  # paths of this machine that the interpreter and the harness need everywhere
IMAGES = "images.json"
CONTAINERS = "containers"
CALLS = "docker-calls.jsonl"
ENGINE = "engine.json"  # how engines behave that boot from now on
GPU = "gpu.json"
UNITS = "units.json"
DAEMON = Path("/run/dockerd-standin")  # there while dockerd runs; /run is empty after a boot
