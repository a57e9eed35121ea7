"""What a status code means to a client."""

from __future__ import annotations

import pytest

from arranger.kube.client.status import AnswerClass, classify


@pytest.mark.parametrize(
    ("code", "expected", "overload"),
    [
        (0, AnswerClass.NO_ANSWER, False),
        (200, AnswerClass.SUCCESS, False),
        (201, AnswerClass.SUCCESS, False),
        (302, AnswerClass.REJECTED, False),
        (400, AnswerClass.REJECTED, False),
        (401, AnswerClass.UNAUTHORIZED, False),
        (403, AnswerClass.REJECTED, False),
        (404, AnswerClass.NOT_FOUND, False),
        (409, AnswerClass.CONFLICT, False),
        (422, AnswerClass.INVALID, False),
        (429, AnswerClass.THROTTLED, True),
        (500, AnswerClass.SERVER_ERROR, True),
        (504, AnswerClass.SERVER_ERROR, True),
    ],
)
def test_each_code_has_its_class(code: int, expected: AnswerClass, overload: bool) -> None:
    assert classify(code) is expected
    assert classify(code).is_overload is overload
