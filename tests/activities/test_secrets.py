"""References to secrets: their values, and the messages for references that cannot be resolved."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from activities.secrets import UnresolvedSecret, resolve


def test_references_are_replaced_wherever_they_stand_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    given: JsonValue = {
        "env": {"TOKEN": {"secret": "env:TOKEN_OF_PROD"}, "KEY": {"secret": f"file:{tmp_path / 'key'}"}, "MODE": "fast"},
        "list": [1, None, {"secret": "env:TOKEN_OF_PROD"}],
    }
    assert resolve(given, environ={"TOKEN_OF_PROD": "t0ken"}) == {
        "env": {"TOKEN": "t0ken", "KEY": "s3cret", "MODE": "fast"},
        "list": [1, None, "t0ken"],
    }


def test_only_the_last_line_break_of_a_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" two\nlines \n\n")
    assert resolve({"secret": f"file:{tmp_path / 'key'}"}) == " two\nlines \n"


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_PROD", "t0ken")
    assert resolve([{"secret": "env:TOKEN_OF_PROD"}]) == ["t0ken"]


def test_a_mapping_that_says_more_is_no_reference() -> None:
    given: JsonValue = {"secret": "env:A", "of": "b"}
    assert resolve(given, environ={"A": "a"}) == given


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("env:NOT_SET", "env.TOKEN: there is no environment variable NOT_SET here"),
        ("file:no-such-file", "env.TOKEN: no-such-file cannot be read here: No such file or directory"),
        ("file:.", "env.TOKEN: . cannot be read here: Is a directory"),
        ("hunter2", "env.TOKEN: a secret is written as"),
        ("env:hunter2!", "env.TOKEN: a secret is written as"),
        (["hunter2"], "env.TOKEN: a secret is written as"),
    ],
)
def test_a_reference_to_nothing_names_its_field_and_repeats_no_secret(reference: JsonValue, message: str) -> None:
    with pytest.raises(UnresolvedSecret) as raised:
        resolve({"TOKEN": {"secret": reference}}, environ={}, where=("env",))
    assert str(raised.value).startswith(message)
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_text_is_reported_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"hunter2\xff")
    with pytest.raises(UnresolvedSecret, match="is not text") as raised:
        resolve({"secret": f"file:{tmp_path / 'key'}"})
    assert "hunter2" not in str(raised.value)
