"""Every rule of the core, as a sentence and a table."""

import pytest

pytest.register_assert_rewrite("tests.scenarios.cases")
