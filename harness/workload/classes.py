"""Content classes: what kind of text a prompt is made of, and how the model is asked to go on in it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from harness.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentClass:
    """One kind of text. Acceptance depends on it, so no figure is quoted without it."""

    name: str
    describes: str
    instruction: str  # the last paragraph of each prompt: short, and fit to make the answer more of the same kind
    closing_lead: str  # what introduces the closing words, so that they read as part of the text
    natural: bool = True  # False: a loop on purpose
    pictures: bool = False  # one before the text of each prompt


VISION = "vision"  # for checkpoints that take pictures

_ALL = (
    ContentClass(
        name="prose",
        describes="English narrative prose",
        instruction="Continue the story from here in the same voice, with new events, in plain paragraphs.",
        closing_lead="",
    ),
    ContentClass(
        name="code",
        describes="Python source",
        instruction="Continue this source file with more functions in the same style. Write code only.",
        closing_lead="# ",
    ),
    ContentClass(
        name="structured",
        describes="JSON records",
        instruction="Continue this list with new records of the same shape. Write JSON only.",
        closing_lead="note: ",
    ),
    ContentClass(
        name="agentic",
        describes="a coding agent's transcript: remarks, tool calls as JSON, files as results",
        instruction="Continue this transcript with the next remark, tool call and result.",
        closing_lead="User: ",
    ),
    ContentClass(
        name="repetitive",
        describes="one phrase over and over: a control that flatters every drafter, like no real traffic",
        instruction="Go on in the same way.",
        closing_lead="",
        natural=False,
    ),
    ContentClass(
        name=VISION,
        describes="a still picture that this project draws, and English narrative prose below it",
        instruction="Describe the picture in one paragraph, then continue the story from here so that it leads there.",
        closing_lead="",
        pictures=True,
    ),
)
CONTENT_CLASSES: dict[str, ContentClass] = {content_class.name: content_class for content_class in _ALL}
TEXT_CLASSES = tuple(name for name, content_class in CONTENT_CLASSES.items() if not content_class.pictures)


def content_class_named(name: str, *, where: str | None = None) -> ContentClass:
    """Return the class. Raises InputError, at ``where``, for a name that is none."""
    found = CONTENT_CLASSES.get(name)
    if found is not None:
        return found
    if name == "as_recorded":
        raise InputError(
            "class as_recorded needs a workload trace", where=where, hint="Name a trace under workload, or a class."
        )
    close = difflib.get_close_matches(name, CONTENT_CLASSES, n=1)
    guess = f'Did you mean "{close[0]}"? ' if close else ""
    raise InputError(
        f'unknown content class "{name}"', where=where, hint=f"{guess}Known here: {', '.join(sorted(CONTENT_CLASSES))}."
    )
