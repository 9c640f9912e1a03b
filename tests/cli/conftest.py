from __future__ import annotations

from tests.system.conftest import desk as desk
from tests.system.conftest import font_cache as font_cache
