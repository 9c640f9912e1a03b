"""What the ranks need of both nodes: image, checkpoint, room, and nobody who gets in the way."""

from __future__ import annotations

import asyncio
import re

from harness.engine.doctor.place import PairPlace
from harness.engine.pair.agreement import Wanted, disagreements, read_holding
from harness.engine.pair.node import Node
from harness.records.finding import Finding, fail, ok, warn
from harness.units import format_bytes

_LEAST_FREE_BYTES = 20 * 10**9
_HOME = re.compile(r"^(?:\$HOME|\$\{HOME\})/")
_FREE = (
    'folder=$1; case $folder in "~/"*) folder=$HOME/${folder#"~/"} ;; esac; df -PB1 "$folder" 2>/dev/null | tail -n 1'
)
# $@: words that a unit or a job which starts the server would hold. Prints the files that do.
_STARTERS = (
    'for word do grep -rlIF -- "$word" /etc/systemd/system /etc/cron.d /etc/crontab /var/spool/cron '
    '"$HOME/.config/systemd/user" 2>/dev/null; done | sort -u'
)
_APPS = ("nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader")


async def agreement_findings(place: PairPlace) -> list[Finding]:
    """Image and checkpoint: there on both nodes, and the same. Raises EngineError where docker does not answer."""
    if place.image is None or place.repository is None:
        return []
    wanted = Wanted(image=place.image, checkpoint=f"{place.repository}@{place.revision or 'main'}")
    holdings = await asyncio.gather(
        *(
            read_holding(
                node,
                wanted,
                hf_cache=_HOME.sub("~/", place.names[node.role].cache),
                mounts_cache=place.worker_nfs and node.role == "worker",
            )
            for node in place.nodes
        )
    )
    found = [
        fail("image_or_checkpoint", each.what, evidence=each.where, remedy=each.remedy)
        for each in disagreements(wanted, holdings)
    ]
    if not found:
        found.append(ok("image", "the same image on every node", evidence=place.image))
        found.append(ok("checkpoint", "the same checkpoint on every node", evidence=wanted.checkpoint))
    return found


async def room_findings(place: PairPlace, node: Node) -> list[Finding]:
    """Disk space where checkpoints and compiled kernels lie."""
    cache = _HOME.sub("~/", place.names[node.role].cache)
    fields = (await node.script(_FREE, cache)).stdout.split()
    if len(fields) < 4 or not fields[3].isdigit():
        remedy = "Name the folder of the model cache in the env file."
        return [warn("disk", "the model cache was not found", node=node.role, evidence=cache, remedy=remedy)]
    free = int(fields[3])
    if free < _LEAST_FREE_BYTES:
        remedy = "Make room: compiled kernels and logs grow with every launch."
        return [warn("disk", f"{format_bytes(free)} are free", node=node.role, evidence=cache, remedy=remedy)]
    return [ok("disk", f"{format_bytes(free)} are free", node=node.role, evidence=cache)]


async def neighbour_findings(place: PairPlace, node: Node) -> list[Finding]:
    """Whoever else uses the GPU, kills what needs memory, or would start the server in the middle of a sweep."""
    found = []
    ours = {each.container_id for each in place.of_project(node.role, place.project)}
    others = [each for each in place.containers.get(node.role, ()) if each.is_up and each.container_id not in ours]
    if others:
        names = ", ".join(each.name for each in others)
        remedy = "Stop what uses the GPU while you measure: docker stop NAME."
        found.append(warn("tenant", "other containers run", node=node.role, evidence=names, remedy=remedy))
    elif not ours:
        found += await _apps(node)
    if (await node.attempt("systemctl", "is-active", "earlyoom")).stdout.strip() == "active":
        remedy = "sudo systemctl disable --now earlyoom: the engine takes most of the memory on purpose."
        found.append(warn("earlyoom", "earlyoom runs, and would kill a rank", node=node.role, remedy=remedy))
    return found + await _starters(place, node)


async def port_findings(place: PairPlace) -> list[Finding]:
    """Where ranks under test listen, and whether the operator's server is in the way."""
    head = place.head
    if head is None:
        return []
    found = []
    listening = (await head.attempt("ss", "-ltnH", f"sport = :{place.trial_port}")).stdout.strip()
    if listening:
        remedy = "Set another trial_port in the site file."
        found.append(fail("port", f"port {place.trial_port} is taken", node="head", evidence=listening, remedy=remedy))
    else:
        found.append(ok("port", f"port {place.trial_port} is free", node="head"))
    if place.serving and not place.may_borrow:
        remedy = "Let a sweep stop it and give it back: --borrow, or borrow: {allowed: true} in the site file."
        found.append(
            warn("server", "your server runs, and a sweep would not touch it", evidence=place.project, remedy=remedy)
        )
    elif place.serving:
        found.append(ok("server", "your server runs, and may be borrowed", evidence=place.project))
    return found


async def _apps(node: Node) -> list[Finding]:
    apps = [line.strip() for line in (await node.attempt(*_APPS)).stdout.splitlines() if line.strip()]
    if not apps:
        return [ok("tenant", "nothing else uses the GPU", node=node.role)]
    remedy = "End them while you measure; a desktop session counts too."
    return [warn("tenant", "other processes use the GPU", node=node.role, evidence="; ".join(apps[:3]), remedy=remedy)]


async def _starters(place: PairPlace, node: Node) -> list[Finding]:
    if not place.mentions:
        return []
    files = (await node.script(_STARTERS, *place.mentions)).stdout.split()
    if not files:
        return []
    remedy = "Stop that unit or job while a sweep runs: it would start your server in the middle of a launch."
    return [
        warn(
            "watchdog",
            "something starts the server by itself",
            node=node.role,
            evidence=", ".join(files),
            remedy=remedy,
        )
    ]
