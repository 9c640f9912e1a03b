"""What must be the same on all nodes before ranks are started: image and checkpoint. What is not is said with a remedy.

Two ranks of different images or revisions may well come up, and answer nonsense.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.engine.pair.inventory import has_digest
from harness.engine.pair.node import Node, NodeError, Role
from harness.errors import EngineError

_MOST_LISTED = 3
# $1 cache, $2 models--ORG--NAME, $3 revision, $4 a file of the snapshot or "". Lines of key, tab, value.
_SURVEY = r"""
cache=$1
case $cache in "~/"*) cache=$HOME/${cache#"~/"} ;; esac
printf 'cache\t%s\n' "$cache"
snapshot=$cache/hub/$2/snapshots/$3
if [ ! -d "$snapshot" ] && [ -r "$cache/hub/$2/refs/$3" ]; then
  read -r commit < "$cache/hub/$2/refs/$3" || [ -n "$commit" ] || exit 0
  snapshot=$cache/hub/$2/snapshots/$commit
fi
[ -d "$snapshot" ] || exit 0
printf 'commit\t%s\n' "${snapshot##*/}"
find -L "$snapshot" -type l | while IFS= read -r file; do printf 'missing\t%s\n' "${file##*/}"; done
index=$snapshot/model.safetensors.index.json
if [ -r "$index" ]; then
  grep -o '"[^"/]*\.safetensors"' "$index" | sort -u | tr -d '"' | while IFS= read -r file; do
    [ -e "$snapshot/$file" ] || [ -L "$snapshot/$file" ] || printf 'missing\t%s\n' "$file"
  done
elif [ -z "$(find "$snapshot" -name '*.safetensors' | head -n 1)" ]; then
  printf 'missing\t%s\n' 'every *.safetensors'
fi
if [ -n "$4" ] && [ -f "$snapshot/$4" ]; then printf 'file\t%s\n' "$snapshot/$4"; fi
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What every node must have."""

    image: str
    checkpoint: str  # repository@revision
    snapshot_file: str | None = None  # relative to the snapshot: say where it is, if it is there

    @property
    def repository(self) -> str:
        """Of the checkpoint."""
        return self.checkpoint.partition("@")[0]

    @property
    def revision(self) -> str:
        """Of the checkpoint."""
        return self.checkpoint.partition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a node has."""

    role: Role
    name: str
    image_id: str | None  # None: no such image
    digests: frozenset[str]  # name@sha256:..., of a pulled image
    hf_cache: str  # absolute
    commit: str | None  # that the revision stands for; None: it is not there
    missing: tuple[str, ...] = ()  # files of the snapshot
    snapshot_file: str | None = None  # absolute
    mounts_cache: bool = False  # of the head: it need not have the snapshot itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why a launch would fail or measure nonsense, and what to do."""

    where: str
    what: str
    remedy: str


async def read_holding(node: Node, wanted: Wanted, *, hf_cache: str, mounts_cache: bool = False) -> Holding:
    """Return what a node has.

    Raises:
        NodeError: docker does not answer there.
        HostUnreachableError: the host did not answer.
    """
    image_id, digests = await _image(node, wanted.image)
    folder = f"models--{wanted.repository.replace('/', '--')}"
    done = await node.script(_SURVEY, hf_cache, folder, wanted.revision, wanted.snapshot_file or "")
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("\t")
        found.setdefault(key, []).append(value)
    if "cache" not in found:
        raise NodeError(f"cannot look for the checkpoint on {node.role}: {done.output.strip()[-200:]}", where=node.name)
    return Holding(
        role=node.role,
        name=node.name,
        image_id=image_id,
        digests=digests,
        hf_cache=found["cache"][0],
        commit=next(iter(found.get("commit", [])), None),
        missing=tuple(dict.fromkeys(found.get("missing", []))),
        snapshot_file=next(iter(found.get("file", [])), None),
        mounts_cache=mounts_cache,
    )


def disagreements(wanted: Wanted, holdings: Sequence[Holding]) -> tuple[Finding, ...]:
    """Return why ranks on these nodes must not be started; nothing where they may."""
    findings = [
        finding for holding in holdings for finding in (*_of_image(wanted, holding), *_of_cache(wanted, holding))
    ]
    return (*findings, *_images_of_both(wanted, holdings), *_commits_of_both(wanted, holdings))


def shared_image(wanted: Wanted, holdings: Sequence[Holding]) -> str:
    """Return the reference by which all nodes have the same image: by digest, but for a local build."""
    if has_digest(wanted.image):
        return wanted.image
    repository = _repository(wanted.image)
    shared = frozenset.intersection(*(holding.digests for holding in holdings))
    digests = sorted(each.rpartition("@")[2] for each in shared if each.partition("@")[0] == repository)
    return f"{wanted.image}@{digests[0]}" if digests else wanted.image


def require_agreement(wanted: Wanted, holdings: Sequence[Holding]) -> None:
    """Raise EngineError that names every finding, if there is one."""
    findings = disagreements(wanted, holdings)
    if not findings:
        return
    first, *rest = findings
    lines = [first.remedy, *(f"Also {each.where}: {each.what}\n    {each.remedy}" for each in rest)]
    raise EngineError(first.what, where=first.where, hint="\n  ".join(lines))


async def _image(node: Node, image: str) -> tuple[str | None, frozenset[str]]:
    done = await node.attempt("docker", "image", "inspect", image)
    if done.returncode != 0:
        await node.run("docker", "version")  # is it the image that is missing, or docker?
        return None, frozenset()
    try:
        (entry,) = json.loads(done.stdout)
        return str(entry["Id"]), frozenset(entry.get("RepoDigests") or ())
    except (ValueError, KeyError, TypeError) as error:
        what = f"docker image inspect answered something else than an image on {node.role}"
        raise NodeError(what, where=node.name, hint="Is `docker` there the real one?") from error


def _of_image(wanted: Wanted, holding: Holding) -> list[Finding]:
    if holding.image_id is not None:
        return []
    what = f"the image {wanted.image} is not on {holding.role}"
    remedy = f"Run `docker pull {wanted.image}` there; an image that was built must be built or copied there too."
    return [Finding(where=holding.name, what=what, remedy=remedy)]


def _of_cache(wanted: Wanted, holding: Holding) -> list[Finding]:
    if holding.mounts_cache:
        return []
    download = (
        f"Run `hf download {wanted.repository} --revision {wanted.revision}` there, with HF_HOME={holding.hf_cache}."
    )
    if holding.commit is None:
        what = f"{holding.role} has no revision {wanted.revision} of {wanted.repository} in {holding.hf_cache}/hub"
        nfs = " Or set hf_nfs: true." if holding.role == "worker" else ""
        return [Finding(where=holding.name, what=what, remedy=f"{download}{nfs}")]
    if holding.missing:
        listed = ", ".join(holding.missing[:_MOST_LISTED])
        more = len(holding.missing) - _MOST_LISTED
        files = f"{listed} and {more} more" if more > 0 else listed
        what = f"the checkpoint on {holding.role} is not complete: {files}"
        return [Finding(where=holding.name, what=what, remedy=f"{download} It goes on where it ended.")]
    return []


def _images_of_both(wanted: Wanted, holdings: Sequence[Holding]) -> list[Finding]:
    present = [holding for holding in holdings if holding.image_id is not None]
    if len(present) < 2 or len({holding.image_id for holding in present}) == 1:
        return []
    if frozenset.intersection(*(holding.digests for holding in present)):
        return []
    found = ", ".join(f"{holding.role} {(holding.image_id or '')[:19]}" for holding in present)
    what = f"{wanted.image} is not the same image on both nodes: {found}"
    remedy = (
        "Pull it by digest on both (docker pull NAME@sha256:...), or copy it: docker save NAME | ssh W docker load."
    )
    return [Finding(where=present[-1].name, what=what, remedy=remedy)]


def _commits_of_both(wanted: Wanted, holdings: Sequence[Holding]) -> list[Finding]:
    present = [holding for holding in holdings if holding.commit is not None and not holding.mounts_cache]
    if len({holding.commit for holding in present}) < 2:
        return []
    found = ", ".join(f"{holding.role} {(holding.commit or '')[:12]}" for holding in present)
    what = f"{wanted.repository}@{wanted.revision} is not the same commit on both nodes: {found}"
    remedy = "Name the commit in `checkpoint`, and download it on both."
    return [Finding(where=present[-1].name, what=what, remedy=remedy)]


def _repository(image: str) -> str:
    """The name without tag; a port of a registry is no tag."""
    head, slash, tail = image.rpartition("/")
    return f"{head}{slash}{tail.partition(':')[0]}"
